"""Figures of tasks and jobs as Flink's REST has them: back-pressure, watermarks, metrics. Names are Flink's."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.monitoring.views import VertexView
from rekindle.ui.flink_names import subtask_metrics
from rekindle.ui.flink_views import FlinkJob, Json


def backpressure(shown: FlinkJob, task: VertexView) -> Json:
    """Return the answer to ``/jobs/:jobid/vertices/:vertexid/backpressure``."""
    subtasks = shown.subtasks(task.uid)
    if not shown.at_work or any(one.status.back_pressured is None for one in subtasks):
        return {"status": "deprecated", "subtasks": []}
    rows = [
        {
            "subtask": one.status.subtask,
            "attempt-number": one.status.restarts,
            "backpressureLevel": _level(one.status.back_pressured or 0),
            "backpressure-level": _level(one.status.back_pressured or 0),
            "ratio": one.status.back_pressured,
            "busyRatio": one.status.busy,
            "idleRatio": one.status.idle,
        }
        for one in subtasks
    ]
    level = _level(max((one.status.back_pressured or 0 for one in subtasks), default=0))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "backpressure-level": level,
        "end-timestamp": shown.now_ms,
        "subtasks": rows,
    }


def _level(share: float) -> str:
    """Return what Flink calls a share of the time that a task is held back."""
    return "ok" if share <= 0.1 else "low" if share <= 0.5 else "high"


def watermarks(shown: FlinkJob, task: VertexView) -> list[Json]:
    """Return the answer to ``/jobs/:jobid/vertices/:vertexid/watermarks``."""
    return [
        {"id": f"{one.status.subtask}.currentInputWatermark", "value": str(one.status.watermark)}
        for one in shown.subtasks(task.uid)
        if one.status.watermark is not None
    ]


def vertex_metrics(shown: FlinkJob, task: VertexView) -> dict[str, float]:
    """Return the figures of ``/jobs/:jobid/vertices/:vertexid/metrics``."""
    return {
        f"{one.status.subtask}.{name}": value
        for one in shown.subtasks(task.uid)
        for name, value in subtask_metrics(one, at_work=shown.at_work).items()
    }


def metrics(found: dict[str, float], wanted: str | None) -> list[Json]:
    """Return the figures that are `wanted`, by name; only the names of all where it is None."""
    if wanted is None:
        return [{"id": name} for name in found]
    return [{"id": name, "value": f"{found[name]:g}" if found[name] % 1 else str(int(found[name]))}
            for name in wanted.split(",") if name in found]  # fmt: skip


def aggregated(found: Sequence[dict[str, float]], wanted: str | None, modes: str | None) -> list[Json]:
    """Return the figures of several, by name: the least, the greatest, the average, the sum."""
    names = list(dict.fromkeys(name for one in found for name in one))
    if wanted is None:
        return [{"id": name} for name in names]
    rows = []
    for name in wanted.split(","):
        values = [one[name] for one in found if name in one]
        if values:
            row = {"min": min(values), "max": max(values), "avg": sum(values) / len(values), "sum": sum(values)}
            chosen = modes.split(",") if modes else [*row]
            rows.append({"id": name, **{mode: row[mode] for mode in chosen if mode in row}})
    return rows
