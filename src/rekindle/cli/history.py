"""The verbs that read a job's history: runs, events. They start no JVM and load nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from rekindle.cli import documents, output, tables
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.clock import clock
from rekindle.cli.next_steps import next_step
from rekindle.cli.reading import seen, watch
from rekindle.storage.documents.history import HistoryEvent

_FOLLOW_S = 1.0
_COLOURS = {"error": "red", "warning": "yellow"}


@click.command(epilog=example("rekindle runs hourly_bids"))
@click.argument("job")
@with_storage
@with_json
def runs(job: str, storage: str, as_json: bool) -> None:
    """List the runs of a job, newest first: when each began, and how it ended."""
    monitor = watch(storage)
    found = seen(monitor, lambda: monitor.history.runs(job, limit=None))
    if as_json:
        output.as_json([documents.run_json(one) for one in found])
    elif found:
        output.say("\n".join(tables.run_lines(found, output.width())))
    else:
        output.say(f"{job} has not run yet.")


@click.command(epilog=example("rekindle events hourly_bids --follow"))
@click.argument("job")
@click.option("--run", "number", type=int, metavar="N", help="Show this run only.")
@click.option("--follow", is_flag=True, help="Continue with new events, until Ctrl-C.")
@click.option("--traces", is_flag=True, help="Show where errors were raised.")
@with_storage
@with_json
def events(*, job: str, number: int | None, follow: bool, traces: bool, storage: str, as_json: bool) -> None:
    """List the events of a job, oldest first.

    With --json --follow, each event is a JSON document on a line of its own.
    """
    monitor = watch(storage)
    identity, last, first = "", -1, True
    while True:
        if (now := monitor.watch.known(job).identity) != identity:  # another job may have taken the name
            identity, last = now, -1
        found = monitor.history.events(job, number, last, limit=None)
        last = found[-1].number if found else last
        if as_json and not follow:
            output.as_json([documents.event_json(one) for one in found])
        elif as_json:
            for one in found:
                output.say(json.dumps(documents.event_json(one)))
        else:
            for one in found:
                output.say("\n".join(_event_lines(one.event, traces)))
            if first and not found and not follow:
                output.say(f"{job} has no events yet." if number is None else f"{job} has no events of run {number}.")
        if not follow:
            return
        first = False
        clock().wait(_FOLLOW_S * monitor.store.pace)
        output.check_read()


def _event_lines(event: HistoryEvent, traces: bool) -> Iterator[str]:
    kind = click.style(event.kind, fg=_COLOURS.get(event.severity))
    code = f"[{event.error.code}] " if event.error else ""
    by = f", by {event.by}" if event.by else ""
    yield f"{output.short_time(event.time_ms)}  run {event.run}  {kind}  {code}{event.message}{by}"
    if event.path:
        yield f"  {event.path}"
    if event.error is not None and event.error.next_step:
        yield f"  next: {next_step(event.error.next_step)}"
    if event.error is not None and traces:
        yield from (f"  | {line}" for line in event.error.trace.splitlines())
