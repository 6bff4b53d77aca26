"""The line of a job in the list of jobs: the figures of its heartbeat, its run and its history, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rekindle.monitoring import figures
from rekindle.monitoring.facts import JobFacts, Now
from rekindle.monitoring.figures import of_rates, of_status
from rekindle.monitoring.views import ErrorView, JobOverview, SubtaskView
from rekindle.storage.documents.status import Newest, Status
from rekindle.storage.liveness import silence_ms


def overview(facts: JobFacts, now: Now, subtasks: Sequence[SubtaskView], now_ms: int) -> JobOverview:
    """Return the figures of a job; its id and its storage are those of the one that watches it."""
    run, status, result, beat = now.begun, now.status, now.result, now.heartbeat
    now_ms = _by_its_clock(facts, now, now_ms)
    live = subtasks if now.at_work else ()
    line = JobOverview(
        id=facts.storage.job,
        job=facts.storage.job,
        storage=0,
        identity=facts.identity,
        state=now.state,
        watermark_ms=figures.least(of_status(subtasks, lambda one: one.watermark)),
        lag_ms=figures.greatest(of_status(live, lambda one: one.lag_ms)),
        busy=figures.greatest(of_status(live, lambda one: one.busy)),
        back_pressured=figures.greatest(of_status(live, lambda one: one.back_pressured)),
        rows_in_per_second=figures.of_sources([one.status for one in live]),
        rows_out_per_second=_rows_out_per_second(live, now),
        state_rows=figures.total(of_status(subtasks, lambda one: one.state_rows)),
        state_bytes=figures.total(of_status(subtasks, lambda one: one.state_bytes)),
        subtasks=dict(Counter(one.status.status for one in subtasks)),
        error=_error_of(now),
    )
    changes: dict[str, Any] = {}
    if run is not None:
        until_ms, started_ms = result.ended_ms if result else now_ms, run.started_ms or 0
        changes |= {
            "run": run.run,
            "mode": run.mode,
            "host": run.host,
            "pid": run.pid,
            "started_ms": started_ms,
            "ended_ms": result.ended_ms if result else None,
            "uptime_ms": max(until_ms - started_ms, 0) if result or now.has_driver else None,
            "version": now.version,
        }
    if status is not None:
        latest_ms, newest = status.latest_checkpoint_ms, status.newest or _of_the_history(facts, status)
        whole_ms = status.latest_checkpoint_confirmed_ms or latest_ms
        durations = (one.duration_ms for one in status.history if one.status == "completed")
        changes |= {
            "heartbeat_ms": beat.written_ms or None if beat is not None else None,
            "heartbeat_age_ms": None if result or beat is None else max(now_ms - beat.written_ms, 0),
            "latest_checkpoint": status.latest_checkpoint,
            "latest_checkpoint_ms": latest_ms,
            "latest_checkpoint_confirmed_ms": status.latest_checkpoint_confirmed_ms,
            "checkpoint_age_ms": None if whole_ms is None else max(now_ms - whole_ms, 0),
            "latest_checkpoint_duration_ms": next(durations, None)
            if newest.checkpoint_duration_ms is None
            else newest.checkpoint_duration_ms,
            "latest_checkpoint_bytes": newest.checkpoint_bytes,
            "checkpoints_completed": status.checkpoints_completed,
            "checkpoints_failed": status.checkpoints_failed,
            "rows_in": status.rows_in,
            "rows_out": status.rows_out,
            "batches": status.batches,
            "rows_uncommitted": status.rows_uncommitted,
            "restarts": status.restarts,
            "restarts_total": status.restarts_total,
            "next_attempt_ms": status.next_attempt_ms if now.at_work else None,
        }
    return replace(line, **changes)


def _rows_out_per_second(live: Sequence[SubtaskView], now: Now) -> float | None:
    """Return the rows given to sinks a second, as of the newest sample of the run in force."""
    heartbeat = now.heartbeat
    if heartbeat is None or not now.at_work:
        return None
    if heartbeat.newest is None:
        return figures.total(of_rates(_with_sinks(live, now), lambda one: one.rows_out))
    return heartbeat.newest.rows_out_per_second


def _of_the_history(facts: JobFacts, status: Status) -> Newest:
    """Return the same of the newest checkpoint, where an older version wrote the heartbeat."""
    record = facts.logs.latest_checkpoint(status)
    if record is None:
        return Newest()
    return Newest(checkpoint_duration_ms=record.duration_ms, checkpoint_bytes=record.state_bytes)


def _by_its_clock(facts: JobFacts, now: Now, now_ms: int) -> int:
    """Return the time by the clock of the driver, which has written all times that ages are counted from.

    That clock differs where a heartbeat comes from the future, or is old and was seen to be replaced a moment ago.
    """
    heartbeat = now.heartbeat
    if heartbeat is None or not now.at_work:
        return now_ms
    age_ms = now_ms - heartbeat.written_ms
    if 0 <= age_ms <= silence_ms(facts.storage.store, heartbeat) or (age_ms > 0 and facts.still_ms is None):
        return now_ms
    return heartbeat.written_ms + (facts.still_ms or 0)


def _with_sinks(subtasks: Sequence[SubtaskView], now: Now) -> Sequence[SubtaskView]:
    """Return those whose rows leave the job: of the others, another task reads them."""
    description = now.run.description if now.run else None
    if description is None:
        return subtasks
    tasks = {sink.task for sink in description.sinks}
    return [one for one in subtasks if one.status.uid in tasks]


def error_view(document: dict[str, Any], failed_ms: int | None = None) -> ErrorView:
    """Return an error as a document of a run has it."""
    return ErrorView(
        code=str(document.get("code", "")),
        message=str(document.get("message", "")),
        next_step=str(document.get("next_step", "")),
        failed_ms=failed_ms,
    )


def _error_of(now: Now) -> ErrorView | None:
    """Return why the run has failed; else what went wrong last in it."""
    if now.result is not None:
        return error_view(now.result.error, now.result.ended_ms) if now.result.error else None
    failure = now.heartbeat.failure if now.heartbeat else None
    if failure is None:
        return None
    return ErrorView(
        code=failure.code, message=failure.message, next_step=failure.next_step, failed_ms=failure.failed_ms
    )
