"""A task's function that fails is reported with the line of the user's own file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.arguments import with_parts, with_repeats
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.spark.plans.plan import build_batch_task, build_task

TASK = Task(uid="count", inputs=("live",))


def broken(*_: Any) -> Any:
    """Fail in a library, two lines below."""
    return json.loads("{")


LINE = broken.__code__.co_firstlineno + 2


def reason(build: Callable[..., Any], function: Any, inputs: list[Any]) -> str:
    with pytest.raises(DefinitionError, match="TASK_FUNCTION_FAILED") as failed:
        build(TASK, function, inputs)
    return str(failed.value.parameters["reason"])


@pytest.mark.parametrize("build", [build_task, build_batch_task])
def test_the_line_is_that_of_the_file_of_the_function_and_not_of_a_library(build: Callable[..., Any]) -> None:
    found = reason(build, broken, [])
    assert found.startswith("JSONDecodeError: ") and found.endswith(f" (line {LINE})")


@pytest.mark.parametrize("function", [with_repeats(broken, []), with_parts(broken, [])], ids=["repeats", "parts"])
def test_the_line_is_found_through_the_wrappers_of_inputs(function: Any) -> None:
    assert reason(build_batch_task, function, []).endswith(f" (line {LINE})")


def test_what_has_no_line_is_reported_without() -> None:
    assert reason(build_batch_task, int, ["x"]) == "ValueError: invalid literal for int() with base 10: 'x'"


ACTIONS: dict[str, Callable[[DataFrame], object]] = {
    "count": lambda frame: frame.count(),
    "collect": lambda frame: frame.collect(),
    "show": lambda frame: frame.show(),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_function_that_asks_a_stream_for_its_rows_hears_why_there_are_none(action: str, spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    found = reason(build_task, lambda: ACTIONS[action](stream), [])
    assert found.startswith("it asks a stream for its rows") and " (line " in found
