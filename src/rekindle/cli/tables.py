"""The runs and the checkpoints of a job as tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.cli import output
from rekindle.history.statistics import Summary
from rekindle.monitoring.checkpoint_views import CheckpointRow
from rekindle.monitoring.views import RunView

_SHOWN = 50
"""Checkpoints that the table shows."""


def run_lines(runs: Sequence[RunView], columns: int) -> list[str]:
    """Return ``runs`` as a table."""
    cells = [
        (
            str(run.run),
            run.state,
            output.short_time(run.started_ms),
            output.duration(run.duration_ms),
            "-" if run.checkpoint is None else str(run.checkpoint),
            "" if run.error is None else f"[{run.error.code}]",
        )
        for run in runs
    ]
    return output.table(("run", "state", "began", "took", "checkpoint", ""), cells, columns)


def checkpoint_lines(rows: Sequence[CheckpointRow], summary: Summary, columns: int) -> list[str]:
    """Return ``checkpoints`` as a table, with the reasons of failed ones and what completed ones cost below it."""
    shown = rows[:_SHOWN]
    cells = [
        (
            str(row.id),
            row.kind,
            "deleted" if row.status == "completed" and not row.kept else row.status.replace("_", " "),
            output.short_time(row.triggered_ms),
            output.duration(row.duration_ms),
            f"{row.acknowledged}/{row.subtasks}",
            # A checkpoint shares its state with the job: only a savepoint has a size of its own.
            output.size(size) if (size := (row.savepoint_bytes or 0) + row.in_flight_bytes) else "-",
            output.duration(row.commit_ms),
            "-" if row.state_bytes is None else output.size(row.state_bytes),
            str(row.run),
        )
        for row in shown
    ]
    header = ("id", "kind", "status", "triggered", "took", "acks", "size", "commit", "state", "run")
    lines = output.table(header, cells, columns)
    for row in shown:
        if row.failure:
            lines += output.wrapped(f"{row.id} failed: {row.failure}", columns, "  ")
    if summary.duration_ms is not None and summary.count > 1:
        half, most = (output.duration(round(value)) for value in (summary.duration_ms.p50, summary.duration_ms.p99))
        text = f"the newest {summary.count:,} completed checkpoints: half took at most {half}, 99 % at most {most}"
        lines += output.wrapped(text, columns, "  ")
    if len(rows) > len(shown):
        lines.append(output.cut(f"... and {len(rows) - len(shown):,} earlier ones; --json has them", columns))
    return lines
