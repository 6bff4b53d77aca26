"""Raising the watermark of a query that runs, where Spark does not let us; needs no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.spark.query.flush import BEYOND_TIME_MS
from rekindle.spark.query.passing import finds_nothing, has_found_nothing, raise_watermark

NO_TRACKER = SimpleNamespace(streamingQuery=SimpleNamespace)


def _with(in_force_ms: int) -> Any:
    """Make an execution whose tracker takes no other watermark than the one that it has."""
    tracker = SimpleNamespace(setWatermark=lambda _: None, currentWatermark=lambda: in_force_ms)
    propagator = SimpleNamespace(purge=lambda _: None)
    last = SimpleNamespace(watermarkPropagator=lambda: propagator, currentBatchId=lambda: 7)
    execution = SimpleNamespace(
        watermarkTracker=lambda: tracker, lastExecution=lambda: last, **{"noNewData_$eq": lambda _: None}
    )
    return SimpleNamespace(streamingQuery=lambda: execution)


@pytest.mark.parametrize(("wrapper", "raised"), [(NO_TRACKER, False), (_with(5), False), (_with(BEYOND_TIME_MS), True)])
def test_a_watermark_is_raised_or_it_is_said_that_it_is_not(wrapper: Any, raised: bool) -> None:
    query: Any = SimpleNamespace(_jsq=wrapper)
    assert raise_watermark(query, BEYOND_TIME_MS) is raised


def test_a_query_that_cannot_be_asked_is_not_waited_for() -> None:
    query: Any = SimpleNamespace(_jsq=NO_TRACKER)
    assert has_found_nothing(query)


def test_where_spark_does_not_say_what_a_look_has_found_its_next_look_is_waited_for() -> None:
    waited: list[str] = []
    query: Any = SimpleNamespace(_jsq=NO_TRACKER, isActive=True, processAllAvailable=lambda: waited.append("once"))
    assert finds_nothing(query, lambda: waited.append("woken")) == 0
    assert waited == ["once"]
