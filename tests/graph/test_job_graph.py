"""The job graph: plain data, looked up by uid and validated as a whole."""

from __future__ import annotations

import dataclasses
import re

import pytest

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId

HISTORY = Source(uid="history", bounded=True, event_time="ts")
LIVE = Source(uid="live", bounded=False, event_time="ts", watermark="4 seconds")
HOURLY = Task(uid="hourly", inputs=("live", "history"))
PARQUET = Sink(uid="out", task="hourly", kind="Parquet")
GRAPH = JobGraph(name="bids", sources=(HISTORY, LIVE), tasks=(HOURLY,), sinks=(PARQUET,))


def changed(**fields: object) -> JobGraph:
    return dataclasses.replace(GRAPH, **fields)  # type: ignore[arg-type]


def test_a_valid_graph_is_returned_as_it_is() -> None:
    assert GRAPH.validated() is GRAPH


def test_sources_are_found_by_uid() -> None:
    assert GRAPH.source("live") is LIVE


@pytest.mark.parametrize("uid", ["hourly", "out", "nothing"])
def test_what_is_not_a_source_is_not_found_as_one(uid: str) -> None:
    with pytest.raises(KeyError, match=uid):
        GRAPH.source(uid)


def test_inputs_come_in_the_order_of_the_tasks_parameters() -> None:
    assert GRAPH.inputs_of(HOURLY) == (LIVE, HISTORY)


def test_sinks_come_in_the_order_of_their_definition_and_only_those_of_the_task() -> None:
    second = Sink(uid="second", task="hourly")
    graph = changed(sinks=(PARQUET, Sink(uid="foreign", task="daily"), second))
    assert graph.sinks_of(HOURLY) == (PARQUET, second)


def test_every_subtask_is_listed_task_by_task() -> None:
    graph = changed(tasks=(dataclasses.replace(HOURLY, parallelism=2), Task(uid="daily", inputs=("live",))))
    assert graph.subtasks() == (SubtaskId("hourly", 0), SubtaskId("hourly", 1), SubtaskId("daily", 0))


def test_a_job_is_bounded_if_every_source_is() -> None:
    assert not GRAPH.bounded
    assert changed(sources=(HISTORY,)).bounded


def test_graphs_of_the_same_definitions_are_equal() -> None:
    assert changed() == GRAPH
    assert "_by_uid" not in repr(GRAPH)


WRONG: dict[str, tuple[JobGraph, str]] = {
    "a job name that cannot be a path": (changed(name="../bids"), "UID_INVALID"),
    "a uid that cannot be a path": (changed(sources=(HISTORY, Source(uid="a/b", bounded=True))), "UID_INVALID"),
    "one uid for a source and a sink": (changed(sinks=(Sink(uid="live", task="hourly"),)), "UID_DUPLICATE"),
    "no task": (changed(tasks=(), sinks=()), "TASK_MISSING"),
    "a watermark without event time": (
        changed(sources=(HISTORY, dataclasses.replace(LIVE, event_time=None))),
        "EVENT_TIME_REQUIRED",
    ),
    "an unbounded event time without watermark": (
        changed(sources=(HISTORY, dataclasses.replace(LIVE, watermark=None))),
        "WATERMARK_REQUIRED",
    ),
    "a task without inputs": (changed(tasks=(Task(uid="hourly", inputs=()),)), "INPUT_MISSING"),
    "a task that reads a task": (
        changed(tasks=(HOURLY, Task(uid="daily", inputs=("hourly",))), sinks=(PARQUET, Sink(uid="d", task="daily"))),
        "TASKS_UNSUPPORTED",
    ),
    "a task that reads nothing known": (changed(tasks=(Task(uid="hourly", inputs=("x",)),)), "INPUT_UNKNOWN"),
    "a task that reads a sink": (changed(tasks=(Task(uid="hourly", inputs=("out",)),)), "INPUT_UNKNOWN"),
    "a parallel task": (changed(tasks=(dataclasses.replace(HOURLY, parallelism=2),)), "PARALLELISM_UNSUPPORTED"),
    "an output mode Spark does not have": (
        changed(tasks=(dataclasses.replace(HOURLY, output_mode="upsert"),)),
        "OUTPUT_MODE_UNKNOWN",
    ),
    "an output that goes nowhere": (changed(sinks=()), "SINK_MISSING"),
    "a sink on no task": (changed(sinks=(PARQUET, Sink(uid="b", task="live"))), "INPUT_UNKNOWN"),
    "an output mode the sink cannot take": (
        changed(tasks=(dataclasses.replace(HOURLY, output_mode="complete"),)),
        "OUTPUT_MODE_UNSUPPORTED",
    ),
}


@pytest.mark.parametrize(("graph", "code"), WRONG.values(), ids=WRONG)
def test_a_wrong_graph_is_refused_with_a_code_and_a_next_step(graph: JobGraph, code: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        graph.validated()
    assert raised.value.code == code
    assert raised.value.next_step


def test_the_refusal_of_an_output_mode_names_what_the_sink_takes() -> None:
    graph, _ = WRONG["an output mode the sink cannot take"]
    with pytest.raises(DefinitionError, match=re.escape("(Parquet) cannot take the 'complete' output")) as raised:
        graph.validated()
    assert "It takes: append." in raised.value.next_step


def test_a_bounded_source_may_have_event_time_alone_and_an_unbounded_one_neither() -> None:
    changed(sources=(HISTORY, Source(uid="live", bounded=False))).validated()
