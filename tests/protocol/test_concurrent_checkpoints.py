"""Several checkpoints under way at a time, in graphs of several tasks: who goes first, who waits, who gives way."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.commands import TakeSnapshot, WriteManifest
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import A, B, checkpoint, closed, committed, declined, failed, sources_ended, stop, written
from tests.protocol.obedient import Obedient, graph

C = SubtaskId("c", 0)
CHAIN = graph(a="s", b="a")
JOIN = graph(a="s", b="t", c="a b")
APART = graph(a="s", b="t")
SUBSUMED = "CHECKPOINT_SUBSUMED: a later one was complete before it"


def pending(world: Obedient) -> list[int]:
    return [*world.job.coordinator.pending]


def manifests(world: Obedient) -> list[int]:
    return [one.checkpoint for one in world.said(WriteManifest)]


def begun(world: Obedient) -> list[int]:
    """Checkpoints that were triggered, in order."""
    return [*dict.fromkeys(one.checkpoint for one in world.said(TakeSnapshot))]


def acknowledged(number: int, *tasks: SubtaskId) -> list[e.Event]:
    return [e.SnapshotTaken(task=task, checkpoint=number, batch=-1) for task in tasks]


def aborted(world: Obedient) -> dict[int, str]:
    return {one.checkpoint: one.reason for one in world.said(c.AbortCheckpoint)}


def several(kinds: str, **config: Any) -> Obedient:
    """A and B, apart, and several checkpoints that nobody has acknowledged: (p)eriodic, (m)anual, (s)avepoint."""
    settings: dict[str, Any] = {"checkpoint_max_concurrent": 4, "checkpoint_interval_ms": 1_000, **config}
    world = Obedient(APART, keep=[TakeSnapshot], **settings)
    for position, kind in enumerate(kinds):
        if kind == "p":
            world.tick(1_000)
        else:
            world.hear(checkpoint(f"r{position}", directory="/save" if kind == "s" else None))
    assert len(pending(world)) == len(kinds)
    return world


def test_a_subtask_takes_part_in_a_checkpoint_if_it_acknowledges_it_or_had_finished_before() -> None:
    world = Obedient(graph(a="s", b="a t"))
    world.hear(sources_ended(A), checkpoint("r1"))
    assert world.status(A) is TaskStatus.CLOSED
    world.keep.add(TakeSnapshot)
    world.hear(checkpoint("r2"))
    under_way = world.job.coordinator.pending[2]
    assert (under_way.participants, under_way.finished, under_way.awaited) == (2, (A,), {B})


# -- manifests ---------------------------------------------------------------------------------------------------------


def test_manifests_are_written_one_after_the_other_each_when_the_one_before_is_committed() -> None:
    world = several("mm")
    world.keep |= {WriteManifest, c.CommitTransactions}
    world.hear(*acknowledged(1, A, B), *acknowledged(2, A, B))
    assert manifests(world) == [1]
    world.hear(written(1))
    assert manifests(world) == [1]
    world.hear(committed(1))
    assert manifests(world) == [1, 2]


def test_one_that_all_have_acknowledged_does_not_expire_while_the_one_before_is_committed() -> None:
    world = several("mp", checkpoint_timeout_ms=60_000, checkpoint_max_concurrent=2)
    world.keep.add(c.CommitTransactions)
    world.hear(*acknowledged(1, A, B), *acknowledged(2, A, B))
    world.tick(3_600_000)
    assert (aborted(world), pending(world), world.job.state) == ({}, [1, 2], JobState.RUNNING)
    world.hear(committed(1))
    assert manifests(world) == [1, 2]


def test_of_several_that_are_ready_the_oldest_manifest_is_written_first() -> None:
    world = several("mmm")
    world.keep.add(WriteManifest)
    world.hear(*acknowledged(1, A, B), *acknowledged(3, A, B), *acknowledged(2, A, B))
    world.hear(written(1))
    world.hear(written(2))
    assert manifests(world) == [1, 2, 3]


def test_a_later_checkpoint_does_not_wait_for_an_earlier_one_that_is_not_acknowledged() -> None:
    world = several("mm")
    world.hear(*acknowledged(2, A, B))
    assert manifests(world) == [2]
    assert pending(world) == [1]


def test_manifests_are_written_while_the_savepoint_of_an_earlier_checkpoint_is_being_sealed() -> None:
    world = several("sm")
    world.keep.add(c.SealSavepoint)
    world.hear(*acknowledged(1, A, B), *acknowledged(2, A, B))
    assert manifests(world) == [1, 2]
    assert world.said(c.DiscardOlder)[-1].pinned == (1,)
    world.hear(e.SavepointSealed(checkpoint=1, path="/save/1"))
    assert world.said(c.DiscardOlder)[-1].pinned == ()


def test_the_newest_checkpoint_stays_the_newest_when_an_earlier_one_completes_after_it() -> None:
    world = several("mm")
    world.hear(*acknowledged(2, A, B), *acknowledged(1, A, B))
    assert manifests(world) == [2, 1]
    assert world.job.coordinator.settlement.completed.latest == 2


def test_no_batch_is_named_by_two_manifests_in_whichever_order_they_complete() -> None:
    world = Obedient(APART, keep=[TakeSnapshot], checkpoint_max_concurrent=4)
    world.write(A)
    world.hear(checkpoint("r1"))
    world.write(A)
    world.hear(checkpoint("r2"))
    for number in (2, 1):
        world.hear(e.SnapshotTaken(task=A, checkpoint=number, batch=number - 1), *acknowledged(number, B))
    assert [dict(one.transactions) for one in world.said(WriteManifest)] == [{A: (0, 1)}, {}]


# -- subsumption -------------------------------------------------------------------------------------------------------


def test_a_completed_checkpoint_subsumes_the_periodic_ones_before_it() -> None:
    world = several("ppm")
    world.hear(*acknowledged(3, A, B))
    assert aborted(world) == {1: SUBSUMED, 2: SUBSUMED}
    assert pending(world) == []


def test_a_completed_checkpoint_subsumes_none_that_is_later() -> None:
    world = several("pp")
    world.hear(*acknowledged(1, A, B))
    assert pending(world) == [2]


@pytest.mark.parametrize("kinds", ["sp", "mp"])
def test_a_checkpoint_that_was_asked_for_is_not_subsumed(kinds: str) -> None:
    """Flink, PendingCheckpointTest: canBeSubsumed is false for savepoints."""
    world = several(kinds)
    world.hear(*acknowledged(2, A, B))
    assert pending(world) == [1]
    world.hear(*acknowledged(1, A, B))
    assert [one.request for one in world.said(c.AnswerRequest) if one.error is None] == ["r0"]


def test_a_periodic_checkpoint_that_is_ready_and_not_yet_written_is_subsumed_too() -> None:
    world = several("pm")
    world.keep.add(WriteManifest)
    world.hear(*acknowledged(2, A, B), *acknowledged(1, A, B))
    assert manifests(world) == [2]
    world.hear(written(2))
    assert (aborted(world), pending(world)) == ({1: SUBSUMED}, [])
    assert manifests(world) == [2]


def test_a_subsumed_checkpoint_is_not_counted_as_a_failure() -> None:
    world = several("pp")
    world.hear(*acknowledged(2, A, B))
    assert aborted(world) == {1: SUBSUMED}
    assert (world.job.state, world.job.coordinator.settlement.failures.count) == (JobState.RUNNING, 0)


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 2, 3])
def test_as_many_checkpoints_are_under_way_as_the_setting_says(room: int) -> None:
    world = Obedient(APART, keep=[TakeSnapshot], checkpoint_max_concurrent=room)
    world.hear(*(checkpoint(f"r{position}") for position in range(5)))
    assert begun(world) == [*range(1, room + 1)]
    world.hear(*acknowledged(1, A, B))
    assert begun(world) == [*range(1, room + 2)]


def test_an_unaligned_checkpoint_waits_until_it_is_alone() -> None:
    """Flink: "maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled"; here one savepoint may be."""
    world = several("m")
    world.hear(e.CheckpointRequested(request="u", directory="/save", unaligned=True))
    assert pending(world) == [1]
    world.hear(*acknowledged(1, A, B))
    assert pending(world) == [2]


def test_nothing_goes_beside_an_unaligned_checkpoint() -> None:
    world = Obedient(APART, keep=[TakeSnapshot], checkpoint_max_concurrent=4)
    world.hear(e.CheckpointRequested(request="u", directory="/save", unaligned=True), checkpoint("r1"))
    assert pending(world) == [1]
    world.hear(*acknowledged(1, A, B))
    assert pending(world) == [2]


def test_a_checkpoint_that_all_tasks_wait_for_goes_alone() -> None:
    world = several("mm")
    world.hear(sources_ended(A), sources_ended(B))
    assert pending(world) == [1, 2]
    world.hear(*acknowledged(1, A, B))
    assert pending(world) == [2]
    world.hear(*acknowledged(2, A, B))
    assert pending(world) == [3]


def test_one_that_has_been_overtaken_is_unaligned_and_lets_none_beside_it() -> None:
    world = Obedient(
        CHAIN, slow=[B], keep=[TakeSnapshot], checkpoint_max_concurrent=2, checkpoint_aligned_timeout_ms=500
    )
    world.write(A)
    world.hear(checkpoint("r1"))
    world.tick(500)
    world.hear(checkpoint("r2"))
    assert pending(world) == [1]


# -- going over to unaligned -------------------------------------------------------------------------------------------


def overtaking(*requests: e.Event) -> Obedient:
    world = Obedient(CHAIN, slow=[B], checkpoint_max_concurrent=3, checkpoint_aligned_timeout_ms=500)
    world.write(A)
    world.hear(*requests)
    return world


def test_the_oldest_checkpoint_is_overtaken_when_its_time_to_align_is_up() -> None:
    world = overtaking(checkpoint("r1"))
    world.tick(499)
    assert manifests(world) == []
    world.tick(1)
    assert world.said(TakeSnapshot)[-1] == TakeSnapshot(task=B, checkpoint=1, batch=-1, in_flight={A: (0, 1)})
    assert manifests(world) == [1]


def test_the_next_one_is_overtaken_when_it_has_become_the_oldest() -> None:
    world = overtaking(checkpoint("r1"), checkpoint("r2"))
    world.keep.add(TakeSnapshot)
    world.tick(500)
    assert world.job.coordinator.pending[2].asked.unaligned is False
    world.hear(e.SnapshotTaken(task=B, checkpoint=1, batch=-1))
    assert world.said(TakeSnapshot)[-1] == TakeSnapshot(task=B, checkpoint=2, batch=-1, in_flight={A: (0, 1)})


def test_one_that_is_overtaken_once_is_not_overtaken_again() -> None:
    world = overtaking(checkpoint("r1"))
    world.keep.add(TakeSnapshot)
    world.tick(500)
    said = len(world.said(TakeSnapshot))
    world.tick(500)
    assert len(world.said(TakeSnapshot)) == said


def test_a_savepoint_stays_aligned_however_long_it_takes() -> None:
    world = overtaking(checkpoint("r1", directory="/save"))
    world.tick(60_000)
    assert manifests(world) == []
    world.read(B)
    assert all(not one.in_flight for one in world.said(TakeSnapshot))


def test_a_checkpoint_behind_a_savepoint_waits_for_it() -> None:
    world = overtaking(checkpoint("r1", directory="/save"), checkpoint("r2"))
    world.tick(60_000)
    assert manifests(world) == []
    world.read(B)
    assert manifests(world) == [1, 2]


def test_without_the_setting_a_checkpoint_stays_aligned() -> None:
    world = Obedient(CHAIN, slow=[B])
    world.write(A)
    world.hear(checkpoint("r1"))
    world.tick(500_000)
    assert manifests(world) == []


# -- giving up ---------------------------------------------------------------------------------------------------------


def test_a_task_that_was_held_back_continues_when_a_checkpoint_is_declined() -> None:
    world = Obedient(JOIN, slow=[C], keep=[TakeSnapshot], checkpoint_tolerable_failures=9)
    world.write(B)
    world.hear(checkpoint())
    world.write(A)
    assert world.allowed[C] == {B: 1}
    world.hear(declined(1, A))
    assert world.allowed[C] == {A: 1, B: 1}


def test_a_task_that_was_held_back_continues_when_a_checkpoint_has_expired() -> None:
    world = Obedient(JOIN, slow=[C], checkpoint_timeout_ms=1_000, checkpoint_tolerable_failures=9)
    world.write(B)
    world.hear(checkpoint())
    world.write(A)
    world.tick(1_000)
    assert world.allowed[C] == {A: 1, B: 1}


def test_a_task_that_fails_gives_up_the_checkpoints_that_wait_for_acknowledgements_and_no_others() -> None:
    world = several("mmm")
    world.keep.add(WriteManifest)
    world.hear(*acknowledged(1, A, B), *acknowledged(2, A, B), failed(A))
    assert [*aborted(world)] == [3]
    world.hear(written(1))
    world.hear(written(2))
    assert (manifests(world), world.job.coordinator.settlement.completed.latest) == ([1, 2], 2)


def test_a_late_message_of_one_that_was_given_up_does_not_touch_the_others() -> None:
    world = several("mm", checkpoint_tolerable_failures=9)
    world.hear(declined(1), *acknowledged(1, A, B))
    assert (manifests(world), pending(world)) == ([], [2])


def test_a_request_for_a_checkpoint_that_failed_is_answered_and_the_others_wait_on() -> None:
    world = several("mm", checkpoint_tolerable_failures=9)
    world.hear(declined(1))
    assert [(one.request, one.error and one.error[0]) for one in world.said(c.AnswerRequest)] == (
        [("r0", "CHECKPOINT_FAILED")]
    )


def test_a_task_that_is_closed_without_its_acknowledgement_fails_the_checkpoint_of_a_graph() -> None:
    """A lost acknowledgement (FLIP-147, Triggering 2): the others go on, and the next checkpoint leaves it out."""
    world = Obedient(graph(a="s", b="a t"), keep=[TakeSnapshot, c.CloseTask], checkpoint_max_concurrent=2)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"), *acknowledged(2, B), *acknowledged(1, A, B))
    world.hear(closed(A))
    assert [*aborted(world)] == [2]
    world.keep.clear()
    world.hear(checkpoint("r3"))
    assert [(one.task, one.checkpoint) for one in world.said(TakeSnapshot)][-1:] == [(B, 3)]
    assert world.said(WriteManifest)[-1].finished == (A,)


def test_a_stop_waits_for_all_that_are_pending_and_is_not_subsumed_by_them() -> None:
    world = several("mp")
    world.hear(stop())
    assert pending(world) == [1, 2]
    world.hear(*acknowledged(2, A, B), *acknowledged(1, A, B))
    assert pending(world) == [3]
    assert [world.status(task) for task in (A, B)] == [TaskStatus.WAITING] * 2
