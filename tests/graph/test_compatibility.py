"""Which changes of a job a checkpoint survives."""

from __future__ import annotations

import pytest

from rekindle.errors import RestoreError
from rekindle.graph.compatibility import check_graph
from rekindle.graph.job_graph import JobGraph, Task

GRAPH = JobGraph(name="bids", tasks=(Task(uid="hourly", inputs=("history", "live")), Task(uid="new", inputs=("live",))))


def refusal(saved: dict[str, list[str]], **options: bool) -> RestoreError:
    with pytest.raises(RestoreError) as raised:
        check_graph(GRAPH, saved, "/save/1", **options)
    assert "/save/1" in raised.value.message
    return raised.value


def test_a_job_as_it_was_and_a_task_added_to_it_are_restored() -> None:
    check_graph(GRAPH, {"hourly": ["history", "live"]}, "/save/1")


def test_inputs_in_another_order_are_another_graph() -> None:
    error = refusal({"hourly": ["live", "history"]})
    assert error.code == "GRAPH_CHANGED"
    assert "task hourly read live, history and now reads history, live" in error.message


def test_state_of_tasks_that_are_gone_is_not_dropped_silently() -> None:
    error = refusal({"z": ["live"], "daily": ["live"], "hourly": ["history", "live"]})
    assert error.code == "STATE_NOT_RESTORED"
    assert "daily, z" in error.message


def test_state_of_tasks_that_are_gone_is_dropped_where_that_is_allowed_and_the_rest_is_still_compared() -> None:
    check_graph(GRAPH, {"daily": ["live"], "new": ["live"]}, "/save/1", allow_non_restored_state=True)
    assert refusal({"daily": ["live"], "new": []}, allow_non_restored_state=True).code == "GRAPH_CHANGED"
