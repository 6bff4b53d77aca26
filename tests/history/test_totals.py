"""The counts of a job over all of its runs, where its tasks have changed in between."""

from __future__ import annotations

import pytest

from rekindle.graph.job_graph import JobGraph, Task
from rekindle.history.totals import taken_over
from rekindle.ids import SubtaskId
from rekindle.storage.documents.status import Status, TaskStatusDocument

BOTH = (SubtaskId("old", 1), SubtaskId("old", 0))


def status_of(*subtasks: SubtaskId) -> Status:
    """A status in which subtask n of each task has read and written 10 * (n + 1) rows."""
    shown = []
    for task in subtasks:
        rows = 10 * (task.subtask + 1)
        counts = {"rows_in": rows, "rows_of_sources": rows, "rows_out": rows, "batches": 1}
        shown.append(
            TaskStatusDocument(uid=task.task, subtask=task.subtask, status="closed", batch=task.subtask, **counts)
        )
    return Status(job="job", state="STOPPED", run=1, host="here", pid=1, beat=1, written_ms=1, tasks=tuple(shown))


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        pytest.param(Task(uid="old", inputs=(), parallelism=2), [10, 20], id="as it was"),
        pytest.param(Task(uid="old", inputs=(), parallelism=1), [30], id="fewer subtasks"),
        pytest.param(Task(uid="old", inputs=(), parallelism=3), [10, 20, None], id="more subtasks"),
        pytest.param(Task(uid="new", inputs=(), parallelism=2, was="old"), [10, 20], id="renamed"),
        pytest.param(Task(uid="new", inputs=(), parallelism=1, was="old"), [30], id="renamed, with fewer subtasks"),
        pytest.param(Task(uid="new", inputs=(), parallelism=1), [None], id="another task"),
    ],
)
def test_a_task_keeps_its_counts_when_it_is_renamed_or_has_other_subtasks(task: Task, rows: list[int | None]) -> None:
    graph = JobGraph(name="job", tasks=(task,))
    subtasks = [SubtaskId(task.uid, number) for number in range(task.parallelism)]

    found = taken_over(status_of(*BOTH), graph, subtasks)

    for counts in ("rows_in", "rows_of_sources", "rows_out"):
        assert [getattr(found.get(subtask), counts, None) for subtask in subtasks] == rows


def test_a_name_that_is_still_in_use_is_no_rename() -> None:
    """A `was=` may stay once a checkpoint has the new uid."""
    new, other = SubtaskId("new", 0), SubtaskId("old", 0)
    graph = JobGraph(name="job", tasks=(Task(uid="new", inputs=(), was="old"), Task(uid="old", inputs=())))

    found = taken_over(status_of(new, other), graph, (new, other))

    assert {task: one.rows_in for task, one in found.items()} == {new: 10, other: 10}


def test_a_first_run_takes_nothing_over() -> None:
    assert taken_over(None, JobGraph(name="job"), ()) == {}
