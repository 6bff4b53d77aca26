"""The verbs that read what a monitor reads: list, status, checkpoints. They start no JVM and load nothing heavy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from rekindle.cli import documents, output, tables, views
from rekindle.cli.app import FAILED, command_line, example, with_json, with_storage
from rekindle.cli.clock import clock
from rekindle.cli.next_steps import next_step
from rekindle.errors import ControlError
from rekindle.monitoring.facts import SILENT, Now
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.views import JobOverview, JobView
from rekindle.storage.documents.runs import Identity
from rekindle.storage.documents.status import AT_WORK, LOST
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.run_documents import RunDocuments

Answer = TypeVar("Answer")

_DEAD = ("FAILED", LOST, SILENT)

_WATCH_S = 1.0
_AT_ONCE = 64
"""Jobs read at the same time by a command, which has the storage's answers to itself."""
CHECKPOINT_OLD, LAGS = 3, 4
"""Exit codes of ``status --check``, beside 0 and 1."""


def job_storage(storage: str, job: str) -> JobStorage:
    """Return the documents of a job that exists; raise ``JOB_UNKNOWN`` otherwise."""
    found = JobStorage(open_store(storage), job)
    known_identity(found)
    return found


def known_identity(found: RunDocuments) -> Identity:
    """Return the identity of a job; raise ``JOB_UNKNOWN`` where there is none, or none any more."""
    identity = found.identity()
    if identity is None:
        raise ControlError("JOB_UNKNOWN", job=found.job, storage=found.store.location)
    return identity


def watch(storage: str) -> Monitor:
    """Return the read model of the pages, REST and metrics."""
    return Monitor(open_store(storage), now_ms=clock().now_ms, elapsed_ms=clock().elapsed_ms, at_once=_AT_ONCE)


def seen(monitor: Monitor, read: Callable[[], Answer]) -> Answer:
    """Read a second time, a few beats later, where a heartbeat looks old.

    Clocks differ and laptops sleep: only a heartbeat that does not move is silent.
    """
    answer, wait_ms = read(), monitor.watch.second_look_ms()
    if not wait_ms:
        return answer
    clock().wait(wait_ms / 1_000)
    monitor.watch.look_again_where_in_doubt()
    return read()


def _span(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Parse a duration, written as in settings, into milliseconds."""
    if value is None:
        return None
    from rekindle.config import duration_ms

    with command_line():
        return duration_ms(parameter.opts[0], value)


@click.command("list", epilog=example("rekindle list --storage ./rekindle-state"))
@with_storage
@with_json
def list_jobs(storage: str, as_json: bool) -> None:
    """List the jobs of a storage."""
    monitor = watch(storage)
    found = seen(monitor, monitor.overview)
    if as_json:
        output.as_json([documents.list_json(line) for line in found])
    elif found:
        lines = views.list_lines(found, output.width())
        output.say("\n".join([lines[0], *map(_coloured, lines[1:])]))
    else:
        output.say(f"No jobs in {storage}.")


@click.command(epilog=example("rekindle status hourly_bids"))
@click.argument("job")
@click.option("--check", is_flag=True, help="Exit with 1 if the job has FAILED, is LOST or silent.")
@click.option("--running", is_flag=True, help="With --check: exit with 1 if the job does not run, too.")
@click.option(
    "--max-checkpoint-age",
    "max_age_ms",
    metavar="D",
    callback=_span,
    help="With --check: exit with 3 if the job runs and its last checkpoint is older than this, e.g. '5 min'.",
)
@click.option(
    "--max-lag",
    "max_lag_ms",
    metavar="D",
    callback=_span,
    help="With --check: exit with 4 if the job runs and a watermark is further behind the clock than this.",
)
@click.option("--watch", "watching", is_flag=True, help="Show it again every second, until the job ends or Ctrl-C.")
@with_storage
@with_json
def status(
    *,
    job: str,
    check: bool,
    running: bool,
    max_age_ms: int | None,
    max_lag_ms: int | None,
    watching: bool,
    storage: str,
    as_json: bool,
) -> int:
    """Show the state of a job and of its tasks."""
    if watching and (check or as_json):
        raise click.UsageError("--watch is for people: leave it out, or --check and --json.")
    if not check and (running or max_age_ms is not None or max_lag_ms is not None):
        raise click.UsageError("--running, --max-checkpoint-age and --max-lag belong to --check.")
    monitor = watch(storage)
    view = seen(monitor, lambda: monitor.job(job))
    while watching and monitor.now(job).result is None and view.overview.state != LOST:
        if sys.stdout.isatty():
            click.clear()
        _say_status(view, monitor.now(job))
        clock().wait(_WATCH_S * monitor.store.pace)
        monitor.watch.look_again()
        view = monitor.job(job)
    now = monitor.now(job)
    if as_json:
        output.as_json(documents.status_json(view, now, monitor.checkpoints.summary(job)))
    else:
        _say_status(view, now)
    if running and view.overview.state not in AT_WORK:
        return FAILED
    return _checked(view.overview, max_age_ms, max_lag_ms) if check else 0


def _checked(line: JobOverview, max_age_ms: int | None, max_lag_ms: int | None) -> int:
    """Return the exit code of ``status --check``; a job that has ended well has no checkpoint that grows old."""
    if line.state in _DEAD:
        return FAILED
    if line.state not in AT_WORK:
        return 0
    ages = [age for age in (line.checkpoint_age_ms, line.uptime_ms) if age is not None]
    if max_age_ms is not None and ages and min(ages) > max_age_ms:
        output.say(f"The last checkpoint, or the start, was {output.duration(min(ages))} ago.", err=True)
        return CHECKPOINT_OLD
    if max_lag_ms is not None and (line.lag_ms or 0) > max_lag_ms:
        output.say(f"A watermark lags {output.duration(line.lag_ms)} behind the clock.", err=True)
        return LAGS
    return 0


def _say_status(view: JobView, now: Now) -> None:
    columns = output.width()
    fill, rest = output.bar(sys.stdout.encoding)
    line = view.overview
    stale, now_ms = line.state not in AT_WORK, clock().now_ms()
    if line.heartbeat_ms is not None and line.heartbeat_age_ms is not None and not stale:
        now_ms = line.heartbeat_ms + line.heartbeat_age_ms  # its times are by the clock of the driver
    shown = documents.as_shown(line, now)
    lines = views.status_lines(shown, now_ms, columns, fill, rest, stale=stale, unreadable=now.unreadable)
    output.say("\n".join(lines))
    if line.heartbeat_age_ms is not None:
        output.say(f"last heartbeat {views.ago(line.heartbeat_age_ms)}")
    elif line.state in AT_WORK and not now.unreadable:
        output.say("no heartbeat yet")
    if now.result is not None:
        for note in now.result.notes:
            output.say("\n".join(output.wrapped(f"note: {note}", columns, "  ")))
        if view.savepoint is not None:
            output.say(f"savepoint {view.savepoint}")
        if line.error is not None:
            output.say(f"[{line.error.code}] {line.error.message}")
            output.say(f"next: {next_step(line.error.next_step)}")
    elif line.state == LOST:
        output.say("Its driver died without recording a result. Run it again: it resumes.")
    elif line.state == SILENT:
        silent = (
            f"SILENT: its driver, process {line.pid} on {line.host}, gives no sign of life: its storage is full or "
            "read-only, or it is stopped, or hangs."
        )
        advice = (
            "next: If the storage is full, free some room; if it is read-only, make it writable: the driver then "
            "continues by itself. If it was stopped: "
            f"kill -CONT {line.pid}. Else kill -9 {line.pid} and run it again: it resumes."
        )
        output.say("\n".join([*output.wrapped(silent, columns, "  "), *output.wrapped(advice, columns, "  ")]))


@click.command(epilog=example("rekindle checkpoints hourly_bids"))
@click.argument("job")
@with_storage
@with_json
def checkpoints(job: str, storage: str, as_json: bool) -> None:
    """List the newest checkpoints of a job, newest first; with --json all of them, with their subtasks."""
    monitor = watch(storage)
    found = monitor.checkpoints.all(job)
    if as_json:
        output.as_json([documents.checkpoint_json(one) for one in found])
    elif found:
        rows = [one.overview for one in found]
        output.say("\n".join(tables.checkpoint_lines(rows, monitor.checkpoints.summary(job), output.width())))
    else:
        output.say(f"{job} has no checkpoints yet.")


def _coloured(line: str) -> str:
    name, space, rest = line.partition(" ")
    return output.state(name) + space + rest
