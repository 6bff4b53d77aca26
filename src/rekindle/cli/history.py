"""The verbs that read a job's history: runs, events. They start no JVM and load nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.reading import job_storage
from rekindle.history import log
from rekindle.storage.documents.history import Event
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_documents import LOST

_FOLLOW_S = 1.0
_COLOURS = {"error": "red", "warning": "yellow"}


@click.command(epilog=example("rekindle runs hourly_bids"))
@click.argument("job")
@with_storage
@with_json
def runs(job: str, storage: str, as_json: bool) -> None:
    """List the runs of a job, newest first: when each began, and how it ended."""
    found = job_storage(storage, job)
    rows = list(_runs(found))
    if as_json:
        output.as_json([_run_json(*row) for row in rows])
    elif rows:
        cells = [
            (
                str(run.run),
                state,
                output.short_time(run.started_ms),
                output.duration(max(result.ended_ms - run.started_ms, 0)) if result else "-",
                "-" if result is None or result.checkpoint is None else str(result.checkpoint),
                "" if result is None or result.error is None else f"[{result.error['code']}]",
            )
            for run, result, state in rows
        ]
        output.say("\n".join(output.table(("run", "state", "began", "took", "checkpoint", ""), cells, output.width())))
    else:
        output.say(f"{job} has not run yet.")


def _runs(job: JobStorage) -> Iterator[tuple[Run, Result | None, str]]:
    """Each run, how it ended, and its state, newest first."""
    newest = job.latest_run()
    for number in range(newest.run if newest else 0, 0, -1):
        run = job.run(number)
        if run is not None:
            result = job.result(number)
            of_newest = job.state() if newest is not None and number == newest.run else LOST
            yield run, result, result.state if result is not None else of_newest


def _run_json(run: Run, result: Result | None, state: str) -> dict[str, Any]:
    return {
        "run": run.run,
        "state": state,
        "mode": run.mode,
        "began_at": output.iso(run.started_ms),
        "ended_at": output.iso(result.ended_ms) if result else None,
        "host": run.host,
        "pid": run.pid,
        "from": run.restore_from,
        "checkpoint": result.checkpoint if result else None,
        "savepoint": result.savepoint if result else None,
        "notes": list(result.notes) if result else [],
        "error": result.error if result else None,
        "version": run.description.version if run.description else None,
    }


@click.command(epilog=example("rekindle events hourly_bids --follow"))
@click.argument("job")
@click.option("--run", "number", type=int, metavar="N", help="Of this run only.")
@click.option("--follow", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@click.option("--traces", is_flag=True, help="Show where errors were raised.")
@with_storage
@with_json
def events(*, job: str, number: int | None, follow: bool, traces: bool, storage: str, as_json: bool) -> None:
    """List what has happened to a job, oldest first.

    With --json --follow each event is a line of its own.
    """
    found = job_storage(storage, job)
    last, cache = -1, dict[tuple[str, str, str], log.Segment]()
    first = True
    while True:
        rows = log.read(found, log.EVENTS, last, cache)
        last = rows[-1].number if rows else last
        shown = [one for one in rows if number is None or one.row.run == number]
        if as_json and not follow:
            output.as_json([_event_json(one.number, one.row) for one in shown])
        elif as_json:
            for one in shown:
                output.say(json.dumps(_event_json(one.number, one.row)))
        else:
            for one in shown:
                output.say("\n".join(_event_lines(one.row, traces)))
            if first and not shown and not follow:
                output.say(f"{job} has no events yet.")
        if not follow:
            return
        first = False
        output.wait(_FOLLOW_S * found.store.pace)


def _event_json(number: int, event: Event) -> dict[str, Any]:
    return {"number": number, "at": output.iso(event.time_ms), **asdict(event)}


def _event_lines(event: Event, traces: bool) -> Iterator[str]:
    kind = click.style(event.kind, fg=_COLOURS.get(event.severity))
    code = f"[{event.error.code}] " if event.error else ""
    by = f", by {event.by}" if event.by else ""
    yield f"{output.short_time(event.time_ms)}  run {event.run}  {kind}  {code}{event.message}{by}"
    if event.path:
        yield f"  {event.path}"
    if event.error is not None and event.error.next_step:
        yield f"  next: {event.error.next_step}"
    if event.error is not None and traces:
        yield from (f"  | {line}" for line in event.error.trace.splitlines())
