"""Where the subtasks of a new lineage begin; needs no Spark."""

from __future__ import annotations

import pytest

from rekindle.graph.job_graph import Task
from rekindle.start.restore import Start, starts_of
from rekindle.storage.documents.batch import End
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot


def stood(
    batch: int, watermark_ms: int | None = None, *, ended: bool = False, drained: bool = False
) -> SubtaskSnapshot:
    end = End(batch=batch, run=1, drained=drained, watermark_before_flush_ms=watermark_ms, batch_before_flush=batch)
    return SubtaskSnapshot(batch=batch, watermark_ms=watermark_ms, end=end if ended or drained else None)


def starts(*old: SubtaskSnapshot, parallelism: int | None = None, undo_drain: bool = False) -> list[Start]:
    manifest = Manifest(
        checkpoint=1,
        job="job",
        kind="periodic",
        run=1,
        lineage=1,
        triggered_ms=0,
        completed_ms=0,
        graph={"work": ["history"]},
        tasks={"work": dict(enumerate(old))},
    )
    task = Task(uid="work", inputs=("history",), parallelism=parallelism or len(old))
    return [*starts_of(manifest, task, undo_drain=undo_drain)]


def test_each_goes_on_where_it_stood() -> None:
    assert [start.old.subtask for start in starts(stood(3), stood(5))] == [0, 1]


@pytest.mark.parametrize("parallelism", [1, 4])
def test_other_subtasks_all_go_on_with_the_query_that_got_farthest(parallelism: int) -> None:
    begun = starts(stood(3), stood(5), parallelism=parallelism)
    assert [start.old.subtask for start in begun] == [1] * parallelism


def test_none_knows_more_of_the_time_than_the_one_who_knew_least_of_those_that_go_on() -> None:
    assert [start.watermark_ms for start in starts(stood(3, 700), stood(5, 300))] == [300, 300]
    assert [start.watermark_ms for start in starts(stood(3, 700), stood(5, 300, ended=True))] == [700, 700]
    assert [start.watermark_ms for start in starts(stood(3, 700), stood(-1))] == [0, 0]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_what_has_finished_is_over_whatever_the_number_of_its_subtasks(parallelism: int) -> None:
    begun = starts(stood(3, ended=True), stood(5, ended=True), parallelism=parallelism)
    assert all(start.end is not None for start in begun)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_what_has_finished_in_part_starts_again_as_a_whole(parallelism: int) -> None:
    """FLIP-147: what the others have left unread may reach the subtasks that had finished."""
    assert all(start.end is None for start in starts(stood(3, ended=True), stood(5), parallelism=parallelism))


def test_a_drain_that_is_undone_ends_no_task_and_takes_the_time_back() -> None:
    begun = starts(stood(3, 700, drained=True), stood(5, 300, ended=True), undo_drain=True)
    assert [(start.end, start.watermark_ms) for start in begun] == [(None, 700)] * 2
    assert all(start.end is not None for start in starts(stood(3, 700, drained=True), stood(5, ended=True)))


def test_only_what_has_finished_for_good_has_no_query_any_more() -> None:
    assert [start.has_query for start in starts(stood(3, ended=True), stood(5, ended=True), parallelism=3)] == [
        False
    ] * 3
    assert all(start.has_query for start in starts(stood(3, ended=True), stood(5)))
    # A drain can be undone later, whoever goes on from here now.
    for undo_drain in (True, False):
        assert all(
            start.has_query for start in starts(stood(3, drained=True), stood(5, ended=True), undo_drain=undo_drain)
        )
