"""The runs of a job: when each began and how it ended."""

from __future__ import annotations

from typing import Any

from rekindle.monitoring.facts import JobFacts, Now
from rekindle.monitoring.overviews import error_view
from rekindle.monitoring.views import RunView
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import LOST


def run_views(facts: JobFacts, now: Now, limit: int | None) -> list[RunView]:
    """Return the runs of a job, the newest first."""
    return [_view(run, facts.result(run.run), now) for run in facts.runs()[:limit]]


def _view(run: Run, result: Result | None, now: Now) -> RunView:
    is_newest = now.run is not None and now.run.run == run.run
    ending = {"state": now.state if is_newest else LOST} if result is None else _ending(result, run.started_ms)
    return RunView(
        run=run.run,
        started_ms=run.started_ms,
        host=run.host,
        pid=run.pid,
        lineage=run.lineage,
        mode=run.mode,
        restore_from=run.restore_from,
        version=run.description.version if run.description else "",
        **ending,
    )


def _ending(result: Result, started_ms: int) -> dict[str, Any]:
    return {
        "state": result.state,
        "ended_ms": result.ended_ms,
        "duration_ms": max(result.ended_ms - started_ms, 0),
        "checkpoint": result.checkpoint,
        "savepoint": result.savepoint,
        "notes": result.notes,
        "error": error_view(result.error, result.ended_ms) if result.error else None,
        "began": result.began,
    }
