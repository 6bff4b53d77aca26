"""FLIP-45, "Reinforce Job Stop Semantic": one test for each sentence, on tasks that are joined.

The sentences are quoted in the docstrings; those that hold for a task alone are in `test_paper_flip45`. Where the text
is silent, Flink's stop-with-savepoint is followed (its state machines are named where they are).
"""

from __future__ import annotations

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.reasons import CheckpointKind
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import DELAY_MS, A, B, cancel, checkpoint, closed, declined, failed, sealed, sources_ended, stop
from tests.protocol.obedient import Obedient, graph

C = SubtaskId("c", 0)
CHAIN = graph(a="s", b="a", c="b")
MODES = pytest.mark.parametrize("mode", ["aligned", "unaligned"])


def manifests(world: Obedient) -> list[tuple[int, CheckpointKind]]:
    return [(one.checkpoint, one.kind) for one in world.said(c.WriteManifest)]


def results(world: Obedient) -> list[tuple[str, int | None]]:
    return [(one.state, one.checkpoint) for one in world.said(c.RecordResult)]


def stopped(mode: str) -> Obedient:
    """A chain with a backlog in front of B and of C, stopped; B and C read when they are told to."""
    world = Obedient(CHAIN, slow=[B, C], checkpoint_mode=mode)
    world.write(A, A)
    world.read(B)
    world.write(A)
    world.hear(stop())
    return world


@MODES
def test_a_stop_of_a_graph_always_takes_exactly_one_checkpoint(mode: str) -> None:
    """Conclusion: "we should always (automatically) do a checkpoint (with retained checkpoint configured) when
    stopping job"."""
    world = stopped(mode)
    for task in (B, C, B, C) if mode == "aligned" else ():
        world.read(task)
    assert manifests(world) == [(1, CheckpointKind.STOP)]
    assert results(world) == [("STOPPED", 1)]


def test_an_aligned_stop_reads_what_is_in_the_channels_and_that_is_not_in_vain() -> None:
    """Motivation: without a checkpoint at the stop, "the wait for processing all inflight data [is] meaningless (all
    need to be processed again)"; here it is in the checkpoint."""
    world = stopped("aligned")
    assert manifests(world) == []
    for task in (B, C):
        world.read(task)
    assert {one.task: (one.batch, dict(one.in_flight)) for one in world.said(c.TakeSnapshot)} == {
        A: (2, {}), B: (1, {}), C: (0, {}),
    }  # fmt: skip


def test_an_unaligned_stop_names_what_is_in_the_channels_and_waits_for_no_task() -> None:
    world = stopped("unaligned")
    assert {one.task: dict(one.in_flight) for one in world.said(c.TakeSnapshot)} == {
        A: {}, B: {A: (2, 3)}, C: {B: (0, 1)},
    }  # fmt: skip
    assert world.job.exited


def test_an_aligned_stop_need_not_read_on_once_its_time_is_up() -> None:
    """As an aligned checkpoint with a time-out: what is in the channels is named instead."""
    world = Obedient(CHAIN, slow=[B, C], checkpoint_mode="aligned", checkpoint_aligned_timeout_ms=5_000)
    world.write(A, A)
    world.hear(stop())
    world.tick(4_999)
    assert manifests(world) == []
    world.tick(1)
    assert manifests(world) == [(1, CheckpointKind.STOP)]
    assert {one.task: dict(one.in_flight) for one in world.said(c.TakeSnapshot)} == {A: {}, B: {A: (0, 2)}, C: {}}
    assert results(world) == [("STOPPED", 1)]


@pytest.mark.parametrize("order", [stop(drain=True), stop(directory="file:///s")])
def test_a_drain_and_a_stop_with_a_savepoint_read_all_however_long_that_takes(order: e.StopRequested) -> None:
    world = Obedient(CHAIN, slow=[B, C], checkpoint_mode="aligned", checkpoint_aligned_timeout_ms=5_000)
    world.write(A, A)
    world.hear(order)
    world.tick(60_000)
    assert manifests(world) == []
    assert not world.job.exited


@pytest.mark.parametrize("first", [(), (stop("s0", directory="/unaligned"),)])
@pytest.mark.parametrize("directory", ["/unaligned", None])
def test_a_stop_that_is_asked_not_to_read_on_names_the_backlog_and_waits_for_no_task(
    first: tuple[e.StopRequested, ...], directory: str | None
) -> None:
    """FLIP-76: barriers overtake the data. So does that of a stop, also where one that waits is under way already."""
    world = Obedient(CHAIN, slow=[B, C], checkpoint_mode="aligned")
    world.write(A, A)
    world.hear(*first, stop(directory=directory, unaligned=True))
    saved = directory or (first and "/unaligned")
    assert {one.task: dict(one.in_flight) for one in world.said(c.TakeSnapshot)} == {A: {}, B: {A: (0, 2)}, C: {}}
    assert results(world) == [("STOPPED", 1)]
    assert [one.directory for one in world.said(c.SealSavepoint)] == ([saved] if saved else [])


def test_a_drain_reads_all_also_when_it_is_asked_not_to() -> None:
    world = Obedient(CHAIN, slow=[B, C])
    world.write(A, A)
    world.hear(stop(drain=True, unaligned=True), stop("s2", drain=True, unaligned=True))
    assert manifests(world) == []


@MODES
def test_a_graph_that_was_stopped_resumes_where_it_stood_without_rewinding(mode: str) -> None:
    """Checkpoint: "Resuming a Flink job after stop should be able to load from the latest retained checkpoint without
    any source rewinding"."""
    world = stopped(mode)
    for task in (B, C, B, C) if mode == "aligned" else ():
        world.read(task)
    resumed = resume(world)
    assert [one.task for one in resumed.said(c.StartTask)] == [A, B, C]
    read = world.read_so_far[B][A]
    expected = [] if mode == "aligned" else [c.AllowReading(task=B, producer=A, upto=3)]
    assert [one for one in resumed.said(c.AllowReading) if one.task == B] == expected
    resumed.write(A)
    resumed.read(B)
    assert resumed.read_so_far[B] == {A: 4}
    assert read == (3 if mode == "aligned" else 2)


def resume(world: Obedient) -> Obedient:
    """Another run from the checkpoint of a stop."""
    known = {
        task: e.RestoredTask(
            batch=world.batches.get(task, -1),
            committed=world.batches.get(task, -1),
            read=dict(world.read_so_far.get(task, {})),
        )
        for task in (A, B, C)
    }
    facts = {"latest_checkpoint": 1, "next_checkpoint": 2, "committed": True, "tasks": known}
    return Obedient(CHAIN, slow=[B, C], facts=facts)


@MODES
def test_a_retained_checkpoint_may_be_restored_several_times(mode: str) -> None:
    """Implementation: "it's totally fine to restore from a retained checkpoint for multiple times or jobs"."""
    world = stopped(mode)
    first, second = resume(world), resume(world)
    assert first.log == second.log
    assert first.said(c.DiscardOlder) == [c.DiscardOlder(keep=3)], "no more than any checkpoint does"


def test_a_drain_ends_the_sources_and_lets_everything_flow_to_the_sinks() -> None:
    """Implementation: "After FLIP-34 we have introduced two different types for job stop": TERMINATE."""
    world = Obedient(CHAIN, slow=[B], checkpoint_mode="unaligned")
    world.write(A, A)
    world.hear(stop(drain=True))
    assert [one.task for one in world.said(c.FinishTask)] == [A]
    world.read(B)
    assert [one.task for one in world.said(c.FinishTask)] == [A, B, C]
    assert results(world) == [("DRAINED", 1)]


def test_sources_chained_into_a_task_that_also_reads_channels_are_stopped_and_its_channels_are_read_on() -> None:
    world = Obedient(graph(a="s", b="a t"), slow=[B])
    world.write(A)
    world.hear(stop())
    assert world.said(c.StopSources) == [c.StopSources(task=B)]
    assert world.status(B) is TaskStatus.RUNNING
    world.read(B)
    assert results(world) == [("STOPPED", 1)]


def test_sources_that_have_ended_or_restart_are_not_stopped_once_more() -> None:
    world = Obedient(graph(a="s", b="a t", c="a u"), slow=[B, C])
    world.write(A)
    world.hear(sources_ended(B), failed(C), stop())
    assert world.said(c.StopSources) == []


def test_a_task_that_restarts_when_a_stop_comes_is_started_again_for_what_lies_in_its_channels() -> None:
    world = Obedient(graph(a="s", b="a"), slow=[B])
    world.write(A)
    world.hear(failed(B), stop())
    assert [one.task for one in world.said(c.StartTask)] == [A, B, B]
    world.read(B)
    assert results(world) == [("STOPPED", 1)]


def test_a_cancel_takes_effect_while_a_stop_waits_for_a_task_that_does_not_read() -> None:
    """Conclusion: "And we should make sure the after-stop cancel command could take effect"."""
    world = stopped("aligned")
    assert world.job.state is JobState.STOPPING
    world.hear(cancel())
    assert results(world) == [("CANCELED", None)]
    assert [one.task for one in world.said(c.KillTask)] == [A, B, C]
    assert manifests(world) == []


def test_a_cancel_during_the_checkpoint_of_a_stop_keeps_the_one_before() -> None:
    """Checkpoint: "Resuming a Flink job after cancellation involves source rewinding": to the latest there is."""
    world = Obedient(CHAIN)
    world.write(A)
    world.hear(checkpoint())
    world.keep.add(c.WriteManifest)
    world.hear(stop(), cancel())
    assert results(world) == [("CANCELED", 1)]


def test_a_savepoint_of_a_stop_is_aligned_by_default_in_an_unaligned_job_too() -> None:
    """Savepoint: "completely orthogonal with the fuzzy/sharp checkpoint process"."""
    world = Obedient(CHAIN, slow=[B], checkpoint_mode="unaligned")
    world.write(A)
    world.hear(stop(directory="/save"))
    assert world.said(c.TakeSnapshot) == []
    world.read(B)
    assert all(not one.in_flight for one in world.said(c.TakeSnapshot))
    assert [one.savepoint for one in world.said(c.RecordResult)] == ["/save/1"]


def test_a_stop_waits_for_the_checkpoints_that_are_pending_in_the_graph() -> None:
    world = Obedient(CHAIN, slow=[C], checkpoint_max_concurrent=2)
    world.write(A)
    world.hear(checkpoint("r1"), checkpoint("r2"), stop())
    assert manifests(world) == []
    world.read(C)
    assert [number for number, _ in manifests(world)] == [1, 2, 3]
    assert manifests(world)[-1] == (3, CheckpointKind.STOP)


def test_a_stop_whose_checkpoint_fails_lets_everything_that_was_held_run_again() -> None:
    """Flink, StopWithSavepointTest: "savepoint fails" → EXECUTING, the future fails."""
    world = Obedient(CHAIN, keep=[c.TakeSnapshot])
    world.write(A)
    world.hear(stop(), declined(1, B))
    assert world.job.state is JobState.RUNNING
    assert [world.status(task) for task in (A, B, C)] == [TaskStatus.RUNNING] * 3
    assert [(one.request, one.error and one.error[0]) for one in world.said(c.AnswerRequest)] == [("s1", "STOP_FAILED")]
    world.keep.clear()
    world.write(A)
    world.hear(stop("s2"))
    world.tick(DELAY_MS)
    assert results(world) == [("STOPPED", 2)]


def test_a_stop_that_fails_does_not_start_what_had_finished_by_itself_in_the_middle_of_the_graph() -> None:
    world = Obedient(graph(a="s", b="a", c="b t"), keep=[c.TakeSnapshot])
    world.hear(sources_ended(A), stop(), declined(1, C))
    assert [world.status(task) for task in (A, B, C)] == [TaskStatus.WAITING, TaskStatus.WAITING, TaskStatus.RUNNING]


def test_a_good_savepoint_and_a_task_that_cannot_be_closed_is_failed_and_never_restarted() -> None:
    """Flink, StopWithSavepointTest: "savepoint ok", task failure → FAILED with the path, whatever the restarts."""
    world = Obedient(CHAIN, keep=[c.CloseTask], restart_attempts=99)
    world.hear(stop(directory="/save"), closed(A), failed(B))
    (result,) = world.said(c.RecordResult)
    assert (result.state, result.savepoint) == ("FAILED", "/save/1")
    assert result.error == ("STOP_FAILED_AFTER_SAVEPOINT", {"savepoint": "/save/1", "reason": "boom"})


def test_tasks_do_not_end_before_the_savepoint_of_a_stop_is_there() -> None:
    """Flink, StopWithSavepointTerminationHandlerImplTest: "order savepoint -> termination enforced"."""
    world = Obedient(CHAIN, keep=[c.SealSavepoint])
    world.hear(stop(directory="/save"))
    assert world.said(c.CloseTask) == []
    world.hear(sealed(1))
    assert [one.task for one in world.said(c.CloseTask)] == [A, B, C]


# -- the worst end wins ------------------------------------------------------------------------------------------------


JOIN = graph(a="s", b="t", c="a b")


def test_a_task_behind_a_finished_and_a_stopped_one_is_stopped() -> None:
    """Flink, testDrainFlagComputation: all ended, at least one EndOfData(NO_DRAIN) → STOPPED."""
    world = Obedient(JOIN)
    world.hear(sources_ended(A), stop())
    assert [one.task for one in world.said(c.FinishTask)] == [A]
    assert [one.task for one in world.said(c.SuspendTask)] == [B, C]
    assert results(world) == [("STOPPED", 1)]


def test_a_task_behind_a_finished_and_a_drained_one_is_drained() -> None:
    """Flink, testDrainFlagComputation: all channels EndOfData(DRAIN) → DRAINED."""
    world = Obedient(JOIN)
    world.hear(sources_ended(A), stop(drain=True))
    assert world.said(c.FinishTask) == [
        c.FinishTask(task=A, drain=False),
        c.FinishTask(task=B, drain=True),
        c.FinishTask(task=C, drain=True),
    ]
    assert results(world) == [("DRAINED", 1)]


def test_a_task_with_a_source_that_ended_and_a_stopped_producer_is_stopped() -> None:
    world = Obedient(graph(a="s", b="a t"))
    world.hear(sources_ended(B))
    assert world.status(B) is TaskStatus.RUNNING
    world.hear(stop())
    assert [one.task for one in world.said(c.SuspendTask)] == [A, B]


def test_some_ended_channels_are_no_end() -> None:
    """Flink, testDrainFlagComputation: "some channels ended" → NOT_END_OF_USER_DATA."""
    world = Obedient(JOIN)
    world.hear(sources_ended(A))
    assert [one.task for one in world.said(c.FinishTask)] == [A]
    assert world.status(C) is TaskStatus.RUNNING
