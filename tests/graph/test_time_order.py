"""Which sources are read in any order because a task that their rows reach needs it."""

from __future__ import annotations

from dataclasses import replace

from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.graph.time_order import in_any_order, is_finite, readings_before

FIRST, SECOND = (Source(uid=uid, bounded=True, event_time="ts") for uid in ("first", "second"))
LIVE = Source(uid="live", bounded=False, event_time="ts", watermark="1 minute")
CLEAN = Task(uid="clean", inputs=("first",), event_time="ts")
OTHER = Task(uid="other", inputs=("second",), event_time="ts")
PAIRS = Task(uid="pairs", inputs=("clean", "second"), event_time="ts")
HOURS = Task(uid="hours", inputs=("pairs",))
GRAPH = JobGraph(name="job", sources=(FIRST, SECOND, LIVE), tasks=(CLEAN, OTHER, PAIRS, HOURS))


def test_all_that_moves_the_watermark_of_the_task_is_read_in_any_order() -> None:
    assert in_any_order(GRAPH, {"pairs": "it joins"}) == {
        ("clean", "first"): "it joins",
        ("pairs", "second"): "it joins",
    }
    assert set(in_any_order(GRAPH, {"hours": "too"})) == set(readings_before(GRAPH, PAIRS))


def test_tasks_that_the_task_does_not_read_keep_their_order() -> None:
    assert in_any_order(GRAPH, {"clean": "it shifts"}) == {("clean", "first"): "it shifts"}
    assert in_any_order(GRAPH, {}) == {}


def test_a_channel_without_an_event_time_moves_no_watermark() -> None:
    untimed = replace(GRAPH, tasks=(replace(CLEAN, event_time=None), OTHER, PAIRS, HOURS))
    assert set(in_any_order(untimed, {"pairs": "it joins"})) == {("pairs", "second")}


def test_a_task_is_finite_if_all_its_sources_are_bounded_through_whichever_tasks() -> None:
    assert all(is_finite(GRAPH, task) for task in GRAPH.tasks)
    mixed = replace(GRAPH, tasks=(replace(CLEAN, inputs=("first", "live")), OTHER, PAIRS, HOURS))
    assert [task.uid for task in mixed.tasks if is_finite(mixed, task)] == ["other"]
