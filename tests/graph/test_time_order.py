"""Which sources are read in any order because a task that their rows reach needs it."""

from __future__ import annotations

from dataclasses import replace

from rekindle.graph.job_graph import JobGraph, Source, Task, reached
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


def test_a_task_that_is_reached_by_many_ways_is_looked_at_once() -> None:
    """Three tasks, each read by three, and so on: there are more ways through them than could be gone."""
    names = [tuple(f"t{layer}-{index}" for index in range(3)) for layer in range(40)]
    inputs = [("first",), *names]
    tasks = (
        Task(uid=uid, inputs=read, event_time="ts") for read, layer in zip(inputs, names, strict=False) for uid in layer
    )
    graph = JobGraph(name="job", sources=(FIRST,), tasks=tuple(tasks))
    last = graph.tasks[-1]
    assert is_finite(graph, last)
    assert sorted(readings_before(graph, last)) == [(uid, "first") for uid in names[0]]
    assert {one.uid for one in reached(graph.task("t0-0"), graph.consumers_of)} == {"t0-0"}.union(*names[1:])
