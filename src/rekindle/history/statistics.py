"""The sum of the records of checkpoints: counts, and the percentiles of Flink's summary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rekindle.storage.documents.history import CheckpointRecord

LATEST = 1000
"""Completed checkpoints that a summary is made of: the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The spread of a figure: each is a value that was measured, except the average (nearest rank)."""

    min: float
    avg: float
    max: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The cost of the newest completed checkpoints of a job; None where none of them says it."""

    count: int
    duration_ms: Spread | None
    commit_ms: Spread | None
    state_bytes: Spread | None
    in_flight_bytes: Spread | None
    #: of each subtask in each checkpoint
    alignment_ms: Spread | None
    sync_ms: Spread | None


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of the values that there are; None: there are none."""
    found = sorted(value for value in values if value is not None)
    if not found:
        return None
    return Spread(
        min=found[0],
        avg=sum(found) / len(found),
        max=found[-1],
        p50=_percentile(found, 0.5),
        p90=_percentile(found, 0.9),
        p95=_percentile(found, 0.95),
        p99=_percentile(found, 0.99),
        p999=_percentile(found, 0.999),
    )


def summary(records: Sequence[CheckpointRecord]) -> Summary:
    """Return what the newest completed ones of these records cost; the oldest come first."""
    completed = [record for record in records if record.status == "completed"][-LATEST:]

    def of(figure: Callable[[CheckpointRecord], float | None]) -> Spread | None:
        return spread(figure(record) for record in completed)

    subtasks = [stats for record in completed for stats in record.subtasks if not stats.finished]
    return Summary(
        count=len(completed),
        duration_ms=of(lambda record: record.duration_ms),
        commit_ms=of(lambda record: record.commit_ms),
        state_bytes=of(lambda record: record.state_bytes),
        in_flight_bytes=of(lambda record: record.in_flight_bytes),
        alignment_ms=spread(stats.alignment_ms for stats in subtasks),
        sync_ms=spread(stats.sync_ms for stats in subtasks),
    )


def by_status(records: Iterable[CheckpointRecord]) -> dict[str, int]:
    """Return how many of these there are of each status."""
    return dict(Counter(record.status for record in records))


def _percentile(ascending: Sequence[float], share: float) -> float:
    return ascending[max(math.ceil(share * len(ascending)) - 1, 0)]
