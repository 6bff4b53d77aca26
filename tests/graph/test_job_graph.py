"""The job graph: plain data, looked up by uid and validated as a whole."""

from __future__ import annotations

import dataclasses
import re

import pytest

from rekindle.errors import ConfigError, DefinitionError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.graph.validation import validated
from rekindle.ids import SubtaskId

HISTORY = Source(uid="history", bounded=True, event_time="ts")
LIVE = Source(uid="live", bounded=False, event_time="ts", watermark="4 seconds")
HOURLY = Task(uid="hourly", inputs=("live", "history"))
PARQUET = Sink(uid="out", task="hourly", kind="Parquet")
DAILY = Task(uid="daily", inputs=("hourly",))
GRAPH = JobGraph(name="bids", sources=(HISTORY, LIVE), tasks=(HOURLY,), sinks=(PARQUET,))


def changed(**fields: object) -> JobGraph:
    return dataclasses.replace(GRAPH, **fields)  # type: ignore[arg-type]


def test_a_valid_graph_is_returned_as_it_is() -> None:
    assert validated(GRAPH) is GRAPH


def test_inputs_come_in_the_order_of_the_tasks_parameters() -> None:
    assert GRAPH.sources_of(HOURLY) == (LIVE, HISTORY)
    both = Task(uid="daily", inputs=("hourly", "live"))
    assert changed(tasks=(HOURLY, both)).sources_of(both) == (LIVE,)
    assert changed(tasks=(HOURLY, both)).producers_of(both) == (HOURLY,)


def test_sinks_come_in_the_order_of_their_definition_and_only_those_of_the_task() -> None:
    second = Sink(uid="second", task="hourly")
    graph = changed(sinks=(PARQUET, Sink(uid="foreign", task="daily"), second))
    assert graph.sinks_of(HOURLY) == (PARQUET, second)


def test_every_subtask_is_listed_task_by_task() -> None:
    graph = changed(tasks=(dataclasses.replace(HOURLY, parallelism=2), Task(uid="daily", inputs=("live",))))
    assert graph.subtasks() == (SubtaskId("hourly", 0), SubtaskId("hourly", 1), SubtaskId("daily", 0))


def test_graphs_of_the_same_definitions_are_equal() -> None:
    assert changed() == GRAPH
    assert "_by_uid" not in repr(GRAPH)


WRONG: dict[str, tuple[JobGraph, str]] = {
    "a job name that cannot be a path": (changed(name="../bids"), "UID_INVALID"),
    "a uid that cannot be a path": (changed(sources=(HISTORY, Source(uid="a/b", bounded=True))), "UID_INVALID"),
    "one uid for a source and a task": (changed(tasks=(Task(uid="live", inputs=("history",)),)), "UID_DUPLICATE"),
    "one uid for two sinks": (changed(sinks=(PARQUET, PARQUET)), "UID_DUPLICATE"),
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
    "a task that reads what another one updates": (
        changed(tasks=(dataclasses.replace(HOURLY, output_mode="update"), DAILY), sinks=(Sink(uid="d", task="daily"),)),
        "CHANNEL_OUTPUT_MODE",
    ),
    "tasks that read each other": (
        changed(
            tasks=(
                Task(uid="a", inputs=("live", "c")),
                Task(uid="b", inputs=("a",)),
                Task(uid="c", inputs=("b",)),
            ),
            sinks=(),
        ),
        "TASKS_CYCLIC",
    ),
    "a task that reads nothing known": (changed(tasks=(Task(uid="hourly", inputs=("x",)),)), "INPUT_UNKNOWN"),
    "a task that reads a sink": (changed(tasks=(Task(uid="hourly", inputs=("out",)),)), "INPUT_UNKNOWN"),
    "no subtask": (changed(tasks=(dataclasses.replace(HOURLY, parallelism=0),)), "PARALLELISM_INVALID"),
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
        validated(graph)
    assert raised.value.code == code
    assert raised.value.next_step


def test_the_refusal_of_an_output_mode_names_what_the_sink_takes() -> None:
    graph, _ = WRONG["an output mode the sink cannot take"]
    with pytest.raises(DefinitionError, match=re.escape("(Parquet) cannot take the 'complete' output")) as raised:
        validated(graph)
    assert "It takes: append." in raised.value.next_step


def test_a_bounded_source_may_have_event_time_alone_and_an_unbounded_one_neither() -> None:
    validated(changed(sources=(HISTORY, Source(uid="live", bounded=False))))


def test_a_task_says_how_late_its_rows_may_be_in_milliseconds() -> None:
    assert dataclasses.replace(HOURLY, event_time="hour", watermark="90 seconds").lateness_ms == 90_000
    assert dataclasses.replace(HOURLY, event_time="hour").lateness_ms == 0


def test_a_task_whose_watermark_is_no_duration_or_of_no_column_is_refused() -> None:
    with pytest.raises(DefinitionError, match="EVENT_TIME_REQUIRED"):
        validated(changed(tasks=(dataclasses.replace(HOURLY, watermark="1 hour"),)))
    with pytest.raises(ConfigError, match="watermark of task hourly"):
        validated(changed(tasks=(dataclasses.replace(HOURLY, event_time="hour", watermark="a while"),)))


@pytest.mark.parametrize(
    "text",
    [
        "10 minutes", "0 seconds", "1 hour 30 minutes", "1 hour -30 minutes", "1.5 seconds", ".5 second 1 day",
        "+1 WEEK", " 10\tminutes ",
        "-1 month 31 days", "interval 10 minutes", "INTERVAL '10' MINUTES", "'10' minutes", "",
        "INTERVAL '1 02:03' DAY TO MINUTE", "/* short */ 3 microseconds", "2 years",
    ],
)  # fmt: skip
def test_the_watermark_of_a_source_is_any_interval_that_spark_may_take(text: str) -> None:
    validated(changed(sources=(HISTORY, dataclasses.replace(LIVE, watermark=text))))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ten minutes", "not an interval"), ("10", "not an interval"), ("10 min", "not an interval"),
        ("1.5 minutes", "not an interval"), ("1 hour, 30 minutes", "not an interval"), ("INTERVAL", "not an interval"),
        ("-10 minutes", "less than nothing"), ("- 0.5 seconds", "less than nothing"),
        ("1 day -2 days", "less than nothing"),
    ],
)  # fmt: skip
def test_a_watermark_of_a_source_that_is_certainly_no_interval_or_negative_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"VALUE_INVALID.*watermark of source live.*{reason}") as refused:
        validated(changed(sources=(HISTORY, dataclasses.replace(LIVE, watermark=text))))
    assert "'10 minutes'" in refused.value.next_step


def test_the_refusal_of_a_circle_names_the_tasks_in_it() -> None:
    graph, _ = WRONG["tasks that read each other"]
    with pytest.raises(DefinitionError, match=r"a → b → c → a|b → c → a → b|c → a → b → c"):
        validated(graph)


@pytest.mark.parametrize(
    ("graph", "items"),
    [
        (changed(tasks=(Task(uid="live", inputs=("history",)),)), "a source and a task"),
        (changed(tasks=(HOURLY, HOURLY)), "two tasks"),
        (changed(sinks=(PARQUET, PARQUET)), "two sinks"),
    ],
)
def test_a_uid_that_is_given_twice_is_refused_with_what_it_was_given_to(graph: JobGraph, items: str) -> None:
    with pytest.raises(DefinitionError, match=f"given to {items} of this job"):
        validated(graph)


def test_a_sink_may_be_named_like_a_task_or_a_source_and_is_still_an_operator_of_its_own() -> None:
    graph = changed(tasks=(HOURLY, DAILY), sinks=(Sink(uid="hourly", task="daily"), Sink(uid="live", task="hourly")))
    assert validated(graph).topology.vertex("daily").chain == ("daily", "sink:hourly")
    assert graph.topology.vertex("hourly").chain == ("hourly/live", "hourly/history", "hourly", "live")
    assert graph.task("hourly") is HOURLY


def test_the_refusal_of_an_output_mode_between_tasks_names_both() -> None:
    graph, _ = WRONG["a task that reads what another one updates"]
    with pytest.raises(DefinitionError, match="'daily' reads the 'update' output of task 'hourly'") as raised:
        validated(graph)
    assert "Give 'hourly' output_mode='append'" in raised.value.next_step


# --- tasks that read tasks --------------------------------------------------------------------------------------------


def test_a_task_needs_a_sink_or_a_reader() -> None:
    validated(changed(tasks=(HOURLY, DAILY), sinks=(Sink(uid="d", task="daily"),)))
    with pytest.raises(DefinitionError, match="output of task 'daily' goes nowhere"):
        validated(changed(tasks=(HOURLY, DAILY)))


def test_tasks_are_vertices_that_chain_their_sources_and_sinks_and_channels_are_edges() -> None:
    both = Task(uid="both", inputs=("hourly", "history", "daily", "history"), parallelism=3)
    graph = changed(tasks=(HOURLY, DAILY, both), sinks=(PARQUET, Sink(uid="b", task="both")))
    assert validated(graph).topology == Topology(
        (
            Vertex(uid="hourly", operators=("hourly/live", "hourly/history", "hourly", "out")),
            Vertex(uid="daily", operators=("daily",)),
            Vertex(uid="both", parallelism=3, operators=("both/history", "both", "b")),
        ),
        (
            Edge("hourly", "daily", EdgeKind.ALL_TO_ALL),
            Edge("hourly", "both", EdgeKind.ALL_TO_ALL),
            Edge("daily", "both", EdgeKind.ALL_TO_ALL),
        ),
    )


def test_a_task_may_read_another_one_twice() -> None:
    twice = Task(uid="daily", inputs=("hourly", "hourly"))
    graph = validated(changed(tasks=(HOURLY, twice), sinks=(Sink(uid="d", task="daily"),)))
    assert graph.topology.inputs_of("daily") == (Edge("hourly", "daily", EdgeKind.ALL_TO_ALL),) * 2


@pytest.mark.parametrize(
    ("producers", "consumers", "kind"),
    [
        (1, 1, EdgeKind.ALL_TO_ALL),
        (1, 4, EdgeKind.ALL_TO_ALL),
        (4, 1, EdgeKind.ALL_TO_ALL),
        (4, 4, EdgeKind.POINTWISE),
        (2, 4, EdgeKind.POINTWISE),
        (4, 3, EdgeKind.POINTWISE),
    ],
)
def test_edges_between_parallel_tasks_are_pointwise_and_others_all_to_all(
    producers: int, consumers: int, kind: EdgeKind
) -> None:
    cleaned = dataclasses.replace(HOURLY, inputs=("history",), parallelism=producers)
    tasks = (cleaned, dataclasses.replace(DAILY, parallelism=consumers))
    graph = validated(changed(tasks=tasks, sinks=(Sink(uid="d", task="daily"),)))
    assert graph.topology.edges == (Edge("hourly", "daily", kind),)


def test_a_parallel_task_that_reads_a_stream_or_keeps_state_is_refused_with_the_reason() -> None:
    with pytest.raises(DefinitionError, match="parallelism 2, but it reads live, which has no files to share out"):
        validated(changed(tasks=(dataclasses.replace(HOURLY, parallelism=2),)))
    counts = Task(uid="hourly", inputs=("history",), parallelism=2, output_mode="complete")
    sink = dataclasses.replace(PARQUET, output_modes=("complete",))
    with pytest.raises(DefinitionError, match="in output mode complete it keeps state"):
        validated(changed(tasks=(counts,), sinks=(sink,)))


# --- looking things up ------------------------------------------------------------------------------------------------


def test_tasks_and_their_readers_are_found_by_name() -> None:
    graph = JobGraph(
        name="bids",
        sources=(Source(uid="s", bounded=True),),
        tasks=(Task(uid="a", inputs=("s",)), Task(uid="b", inputs=("a",)), Task(uid="c", inputs=("a", "s"))),
    )
    assert graph.task("b").inputs == ("a",)
    assert [task.uid for task in graph.consumers_of(graph.task("a"))] == ["b", "c"]
    assert graph.consumers_of(graph.task("c")) == ()
    for uid in ("s", "nobody"):
        with pytest.raises(KeyError):
            graph.task(uid)


def test_the_same_job_with_one_subtask_for_each_task() -> None:
    parallel = changed(tasks=(dataclasses.replace(HOURLY, parallelism=3),))
    assert parallel.with_single_subtasks() == GRAPH
