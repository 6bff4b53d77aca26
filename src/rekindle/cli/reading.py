"""The verbs that only read: list, status, checkpoints, inspect. They start no JVM and load nothing heavy."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from rekindle.cli import manifests, output, views
from rekindle.cli.app import FAILED, command_line, example, with_json, with_storage
from rekindle.errors import ControlError, StorageError
from rekindle.ids import SubtaskId
from rekindle.progress.state_sizes import StateSize, state_sizes
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import Status
from rekindle.storage.job_storage import LOST, RUNNING, JobStorage, jobs
from rekindle.storage.liveness import age_ms, has_moved, may_be_silent
from rekindle.storage.open import open_store
from rekindle.storage.origin import Origin, find_origin

_DEAD = ("FAILED", LOST)

_WATCH_S = 1.0
CHECKPOINT_OLD, LAGS = 3, 4
"""Exit codes of ``status --check``, beside 0 and 1."""

_BEATS_S = 3.0
"""A few heartbeats on a store of pace 1: a driver that is well gives a sign of life within this time."""


def job_storage(storage: str, job: str) -> JobStorage:
    """The documents of a job that exists; ``JOB_UNKNOWN`` otherwise."""
    found = JobStorage(open_store(storage), job)
    if found.identity() is None:
        raise ControlError("JOB_UNKNOWN", job=job, storage=storage)
    return found


def current_status(job: JobStorage) -> Status:
    """The last heartbeat, with the state and run that are true now.

    A run that has not got as far as a heartbeat shows the tasks as the run before it left them.
    """
    run, heartbeat, state = job.latest_run(), job.status(), job.state()
    number = run.run if run else 0
    if heartbeat is None:
        return Status(job=job.job, state=state, run=number, host="", pid=0, beat=0, written_ms=0)
    if state == RUNNING and heartbeat.run == number:
        state = heartbeat.state
    return replace(heartbeat, state=state, run=number)


def silent(found: Sequence[tuple[JobStorage, Status]]) -> set[str]:
    """Return the names of the jobs whose driver seems to run and has given no sign of life for too long.

    An old heartbeat is looked at twice, since clocks differ and laptops sleep: only one that does not move counts. A
    run before its first heartbeat is not silent.
    """
    quiet = [
        (job, driver)
        for job, now in found
        if may_be_silent(now, job.store, output.now_ms()) and job.state() == RUNNING
        if isinstance(driver := job.driver(), Status)
    ]
    if quiet:
        time.sleep(_BEATS_S * max(job.store.pace for job, _ in quiet))
    return {job.job for job, earlier in quiet if not has_moved(job.driver(), earlier) and job.state() == RUNNING}


def _age_ms(now: Status, result: Result | None) -> int | None:
    """Age of the heartbeat of a job that has not ended."""
    return age_ms(now, output.now_ms()) if result is None else None


def _span(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A duration as settings take it, in milliseconds."""
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
    store = open_store(storage)
    read = [(job, current_status(job)) for job in (JobStorage(store, name) for name in jobs(store))]
    found, quiet = [now for _, now in read], silent(read)
    if not found and not store.exists(""):
        raise StorageError("STORAGE_MISSING", uri=storage)
    ages = {job.job: _age_ms(now, job.result(now.run)) for job, now in read}
    if as_json:
        output.as_json([views.list_json(item, ages[item.job], silent=item.job in quiet) for item in found])
    elif found:
        # The name, whose width is unknown, comes after what must be seen.
        rows = [
            (
                "SILENT" if item.job in quiet else item.state,
                item.job,
                str(item.run or "-"),
                _number(item.latest_checkpoint),
                output.short_time(item.written_ms or None) if (age := ages[item.job]) is None else _ago(age),
            )
            for item in found
        ]
        lines = output.table(("state", "job", "run", "checkpoint", "last heard of"), rows, output.width())
        output.say("\n".join([lines[0], *map(_coloured, lines[1:])]))
    else:
        output.say(f"No jobs in {storage}.")


@click.command(epilog=example("rekindle status hourly_bids"))
@click.argument("job")
@click.option("--check", is_flag=True, help="Exit with 1 if the job has FAILED, is LOST or silent.")
@click.option(
    "--max-checkpoint-age",
    "max_age_ms",
    metavar="D",
    callback=_span,
    help="With --check: exit with 3 if it runs and its last checkpoint is older, as '5 min'.",
)
@click.option(
    "--max-lag",
    "max_lag_ms",
    metavar="D",
    callback=_span,
    help="With --check: exit with 4 if it runs and a watermark lags more after the clock.",
)
@click.option("--watch", is_flag=True, help="Show it again every second, until the job ends or Ctrl-C.")
@with_storage
@with_json
def status(
    *,
    job: str,
    check: bool,
    max_age_ms: int | None,
    max_lag_ms: int | None,
    watch: bool,
    storage: str,
    as_json: bool,
) -> int:
    """Show where a job stands."""
    if watch and (check or as_json):
        raise click.UsageError("--watch is for people: leave it out, or --check and --json.")
    if not check and (max_age_ms is not None or max_lag_ms is not None):
        raise click.UsageError("--max-checkpoint-age and --max-lag belong to --check.")
    found = job_storage(storage, job)
    while watch and found.state() == RUNNING:
        if sys.stdout.isatty():
            click.clear()
        _say_status(current_status(found), None, is_silent=False)
        time.sleep(_WATCH_S * found.store.pace)
    now = current_status(found)
    is_silent = bool(silent([(found, now)]))
    result = found.result(now.run)
    if as_json:
        output.as_json(views.status_json(now, result, _age_ms(now, result), silent=is_silent))
    else:
        _say_status(now, result, is_silent)
    return _checked(now, is_silent, max_age_ms, max_lag_ms) if check else 0


def _checked(now: Status, is_silent: bool, max_age_ms: int | None, max_lag_ms: int | None) -> int:
    """The exit code of ``status --check``; a job that has ended well has no checkpoint that grows old."""
    if is_silent or now.state in _DEAD:
        return FAILED
    if now.state not in views.AT_WORK:
        return 0
    last_ms = max(now.latest_checkpoint_ms or 0, now.started_ms or 0)
    if max_age_ms is not None and last_ms and output.now_ms() - last_ms > max_age_ms:
        age = output.duration(output.now_ms() - last_ms)
        output.say(f"The last checkpoint, or the start, was {age} ago.", err=True)
        return CHECKPOINT_OLD
    lag_ms = max((task.lag_ms for task in now.tasks if task.lag_ms is not None), default=0)
    if max_lag_ms is not None and lag_ms > max_lag_ms:
        output.say(f"A watermark lags {output.duration(lag_ms)} after the clock.", err=True)
        return LAGS
    return 0


def _say_status(now: Status, result: Result | None, is_silent: bool) -> None:
    columns = output.width()
    fill, rest = output.bar(sys.stdout.encoding)
    output.say("\n".join(views.status_lines(now, output.now_ms(), columns, fill, rest, stale=is_silent)))
    age = _age_ms(now, result)
    if age is not None:
        output.say(f"last heartbeat {_ago(age)}")
    if result is not None:
        for note in result.notes:
            output.say("\n".join(output.wrapped(f"note: {note}", columns, "  ")))
        if result.savepoint is not None:
            output.say(f"savepoint {result.savepoint}")
        if result.error is not None:
            output.say(f"[{result.error['code']}] {result.error['message']}")
            output.say(f"next: {result.error['next_step']}")
    elif now.state == LOST:
        output.say("Its driver is gone without a word. Run it again: it resumes.")
    elif is_silent:
        output.say(
            f"SILENT: its driver, process {now.pid} on {now.host}, gives no sign of life: it is stopped, or hangs, "
            "or its storage is full.\n"
            f"next: kill -CONT {now.pid} if it was stopped; else kill -9 {now.pid} and run it again: it resumes."
        )


@click.command(epilog=example("rekindle checkpoints hourly_bids"))
@click.argument("job")
@with_storage
@with_json
def checkpoints(job: str, storage: str, as_json: bool) -> None:
    """List a job's checkpoints, newest first."""
    found = job_storage(storage, job)
    # The state before the manifests: what a dead driver had completed is then among them.
    alive, heartbeat, completed = found.state() == RUNNING, found.status(), found.manifests()
    paths = {manifest.checkpoint: _folder(found, manifest) for manifest in completed}
    rows = views.checkpoints(completed, heartbeat, alive, paths)
    if as_json:
        output.as_json([views.checkpoint_json(row) for row in rows])
    elif rows:
        output.say("\n".join(views.checkpoint_lines(rows, output.width())))
    else:
        output.say(f"{job} has no checkpoints yet.")


@click.command(epilog=example("rekindle inspect rekindle-state/hourly_bids/checkpoints/000000007"))
@click.argument("path")
@with_storage
@with_json
def inspect(path: str, storage: str, as_json: bool) -> None:
    """Show what a checkpoint or savepoint holds.

    PATH is its folder, wherever that lies, or its manifest; a relative one may start at the storage.
    """
    folder = path.removesuffix("/").removesuffix("/manifest.json")
    places = [folder, f"{storage}/{folder}"]
    found = next((place for place in places if open_store(place).exists(layout.manifest(""))), folder)
    location = open_store(found).location
    origin = find_origin(location)
    states = dict(_states(origin))
    if as_json:
        output.as_json(manifests.manifest_json(origin.manifest, location, states))
    else:
        output.say("\n".join(manifests.manifest_lines(origin.manifest, location, states, output.width())))


def _states(origin: Origin) -> Iterator[tuple[SubtaskId, list[StateSize]]]:
    """What a restore would load."""
    for uid, snapshots in origin.manifest.tasks.items():
        for index, snapshot in snapshots.items():
            if snapshot.end is None and snapshot.batch >= 0:
                subtask = SubtaskId(uid, index)
                folder = layout.spark_progress_dir(origin.subtask(subtask))
                yield subtask, list(state_sizes(origin.store, folder, snapshot.batch))


def _folder(job: JobStorage, manifest: Manifest) -> str:
    return f"{job.store.location.rstrip('/')}/{layout.checkpoint(job.job, manifest.checkpoint)}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _ago(age: int) -> str:
    return f"{output.duration(age)} ago"


def _coloured(line: str) -> str:
    name, space, rest = line.partition(" ")
    return output.state(name) + space + rest
