"""FLIP-147, "Support Checkpoints After Tasks Finished": one test for each sentence on tasks that are joined.

The sentences are quoted in the docstrings, with the section they stand in; those that hold for a task alone are in
`test_paper_flip147`, the tables of the life cycle in `test_life`, Operator state in `test_operator_state`, appendix 1
in `test_checkpoint_plan`, the handling of single barriers in `test_alignment`.

Not applicable: all on legacy sources, StreamSourceTask, RPC and mailbox (Spark has none); "for the first version, we
would still restart all the tasks and skip the execution" (ours are not started); the serialization of checkpoints.
"""

from __future__ import annotations

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.reasons import CheckpointKind
from rekindle.protocol.states import TaskStatus
from tests.protocol.kit import A, B, cancel, checkpoint, closed, failed, sources_ended, stop, taken
from tests.protocol.obedient import Obedient, graph

C, D = SubtaskId("c", 0), SubtaskId("d", 0)
A1, B1 = SubtaskId("a", 1), SubtaskId("b", 1)
CHAIN = graph(a="s", b="a")
JOIN = graph(a="s", b="t", c="a b")
LATE = "TASK_FINISHED_MEANWHILE: a task finished before it had acknowledged (a/0)"


def snapshots(world: Obedient, number: int) -> list[SubtaskId]:
    """Who was told to take its snapshot for a checkpoint, in order."""
    return [command.task for command in world.said(c.TakeSnapshot) if command.checkpoint == number]


def in_flight(world: Obedient, task: SubtaskId) -> list[dict[SubtaskId, tuple[int, int]]]:
    """What was in flight to a task in each of its snapshots."""
    return [dict(command.in_flight) for command in world.said(c.TakeSnapshot) if command.task == task]


def manifests(world: Obedient) -> list[int]:
    return [command.checkpoint for command in world.said(c.WriteManifest)]


def told(world: Obedient, kind: type[c.TaskCommand]) -> list[SubtaskId]:
    return [command.task for command in world.said(kind)]


# -- Motivation --------------------------------------------------------------------------------------------------------


def test_a_chain_of_bounded_tasks_commits_its_last_record_in_every_task() -> None:
    """Motivation 1: "the data sent after the last checkpoint would always not be able to be committed"."""
    world = Obedient(graph(a="s", b="a", c="b"))
    world.write(A, A)
    world.hear(sources_ended(A))
    (manifest,) = world.said(c.WriteManifest)
    assert manifest.transactions == {task: (0, world.batches[task]) for task in (A, B, C)}
    assert [result.state for result in world.said(c.RecordResult)] == ["FINISHED"]


def test_a_task_with_a_bounded_and_an_unbounded_producer_goes_on_with_checkpoints() -> None:
    """Motivation 2: "due to no periodic checkpoints are taken after the bounded sources finished"."""
    world = Obedient(JOIN, checkpoint_interval_ms=1_000)
    world.write(A, B)
    world.hear(sources_ended(A))
    world.tick(1_000)
    assert world.status(A) is TaskStatus.CLOSED
    world.write(B)
    world.tick(1_000)
    assert snapshots(world, 2) == [B, C]
    assert manifests(world) == [1, 2]


# -- Overall Design, option 3 ------------------------------------------------------------------------------------------


def test_a_pointwise_consumer_finishes_when_its_own_producer_has() -> None:
    """Option 3: "For the source tasks of POINTWISE inputs, the precedent tasks of the finished subtasks must also be
    finished"."""
    world = Obedient(graph({"a": 2, "b": 2}, a="s", b="a"))
    world.write(A, A1)
    world.hear(sources_ended(A))
    assert told(world, c.FinishTask) == [A, B]
    assert (world.status(A1), world.status(B1)) == (TaskStatus.RUNNING, TaskStatus.RUNNING)


def test_an_all_to_all_consumer_finishes_when_all_its_producers_have() -> None:
    """Option 3: "All the source tasks of ALL_TO_ALL inputs are finished"."""
    world = Obedient(graph({"a": 2}, a="s", b="a"))
    world.hear(sources_ended(A))
    assert told(world, c.FinishTask) == [A]
    world.hear(sources_ended(A1))
    assert told(world, c.FinishTask) == [A, A1, B]


def test_nothing_is_left_in_the_channels_of_a_subtask_that_is_finished() -> None:
    """Option 3: "all the remaining input records should not rely on ΔF": the input of a finished subtask is empty."""
    world = Obedient(CHAIN, slow=[B], checkpoint_mode="unaligned")
    world.write(A, A)
    world.hear(sources_ended(A), checkpoint("r1"))
    assert in_flight(world, B) == [{A: (0, 3)}]
    assert told(world, c.FinishTask) == [A]
    world.read(B)
    world.hear(checkpoint("r2"))
    assert in_flight(world, B)[-1] == {}
    assert told(world, c.FinishTask) == [A, B]


# -- Operator state ----------------------------------------------------------------------------------------------------


def union_world() -> Obedient:
    """A task of two subtasks with union-list state; snapshots are taken when the test says so."""
    world = Obedient(graph({"a": 2}, a="s"), keep=[c.TakeSnapshot])
    world.write(A, A1)
    return world


def acknowledge_union(world: Obedient, number: int) -> None:
    for task in (A, A1):
        world.hear(e.SnapshotTaken(task=task, checkpoint=number, batch=world.batches[task], uses_union=True))


def test_a_checkpoint_is_declined_while_a_task_with_union_state_has_finished_in_part() -> None:
    """UnionListState: "We will decline checkpoints if not all of the tasks called finished and received
    notifyCheckpointComplete"; it is told and not counted."""
    world = union_world()
    world.hear(sources_ended(A), checkpoint("r1"))
    acknowledge_union(world, 1)
    (aborted,) = world.said(c.AbortCheckpoint)
    assert aborted.reason.startswith("CHECKPOINT_DECLINED_TASK_CLOSING: ")
    assert manifests(world) == []
    assert world.job.coordinator.settlement.failures.count == 0
    assert world.status(A) is TaskStatus.WAITING


def test_a_task_with_union_state_finishes_all_at_once() -> None:
    """UnionListState: "if an operator checkpoints UnionListState, it can only finish all at once"."""
    world = union_world()
    world.hear(sources_ended(A), checkpoint("r1"))
    acknowledge_union(world, 1)
    world.hear(sources_ended(A1))
    acknowledge_union(world, 2)
    assert manifests(world) == [2]
    assert told(world, c.CloseTask) == [A, A1]


def test_a_task_with_union_state_all_of_which_runs_is_in_the_checkpoint() -> None:
    world = union_world()
    world.hear(checkpoint("r1"))
    acknowledge_union(world, 1)
    assert manifests(world) == [1]


# -- Checkpoint Format with Finished Tasks -----------------------------------------------------------------------------


def test_of_a_task_that_has_finished_in_part_the_others_give_their_state() -> None:
    """Checkpoint Format 2: "If some subtask of an operator are finished, the checkpoint would store the states
    collected from the other subtasks"."""
    world = Obedient(graph({"a": 2, "b": 2}, a="s", b="a"))
    world.write(A, A1)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"))
    assert (world.status(A), world.status(B)) == (TaskStatus.CLOSED, TaskStatus.CLOSED)
    assert snapshots(world, 2) == [A1, B1]
    assert world.said(c.WriteManifest)[-1].finished == (A, B)


# -- Triggering Checkpoints After Tasks Finished -----------------------------------------------------------------------


def test_while_all_run_only_the_sources_are_triggered_and_the_others_wait_for_their_barriers() -> None:
    """Triggering: "triggers the sources for new checkpoints and other tasks would receive barriers from the input
    channels"."""
    world = Obedient(CHAIN, slow=[B])
    world.write(A)
    world.hear(checkpoint())
    assert snapshots(world, 1) == [A]
    world.read(B)
    assert snapshots(world, 1) == [A, B]


def test_a_task_all_of_whose_producers_have_finished_is_triggered_itself() -> None:
    """Triggering, figure 2: "if we only trigger B for a new checkpoint, then Task C would have no idea about the new
    checkpoint and would not report its snapshot"."""
    world = Obedient(graph(a="s", b="t", c="a t2"))
    world.write(A, C)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"))
    assert world.status(A) is TaskStatus.CLOSED
    assert snapshots(world, 2) == [B, C]
    assert manifests(world) == [1, 2]


def test_a_two_phase_sink_behind_finished_tasks_gets_the_checkpoint_that_it_needs() -> None:
    """Triggering: "this does not work if C is a two-phase commit sink and requires one successful checkpoint before
    finish, which will cause deadlock"."""
    world = Obedient(CHAIN, slow=[B])
    world.write(A)
    world.hear(sources_ended(A), checkpoint("r1"))
    world.read(B)  # up to the barrier
    world.read(B)
    assert world.status(A) is TaskStatus.CLOSED
    assert snapshots(world, 2) == [B]
    assert world.job.exited


def test_whatever_still_runs_behind_two_levels_of_finished_tasks_is_the_new_root() -> None:
    """Triggering: "the tasks who are still running but have no running precedent tasks"."""
    world = Obedient(graph(a="s", b="a", c="b t", d="c"))
    world.hear(sources_ended(A), checkpoint("r1"))
    assert (world.status(A), world.status(B)) == (TaskStatus.CLOSED, TaskStatus.CLOSED)
    world.slow.add(D)
    world.write(C)
    world.hear(checkpoint("r2"))
    assert snapshots(world, 2) == [C]
    world.read(D)
    assert snapshots(world, 2) == [C, D]


def test_a_task_may_be_reported_finished_after_its_descendant() -> None:
    """Triggering 1: "some tasks might report FINISHED after its descendant tasks"."""
    world = Obedient(graph(a="s", b="a", d="t"), keep=[c.CloseTask])
    world.hear(sources_ended(A), checkpoint("r1"))
    world.hear(closed(B), checkpoint("r2"))
    assert snapshots(world, 2) == []  # it would wait for a task that is about to go
    world.hear(closed(A))
    assert snapshots(world, 2) == [D]
    assert world.said(c.WriteManifest)[-1].finished == (A, B)


def test_a_task_that_finishes_between_its_plan_and_its_acknowledgement_fails_every_such_checkpoint_at_once() -> None:
    """Triggering 2: "when a task finish, it iterates all the pending checkpoints to do the detection"."""
    world = Obedient(graph(a="s", d="t"), keep=[c.TakeSnapshot, c.CloseTask], checkpoint_max_concurrent=3)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"), checkpoint("r3"))
    world.hear(*(taken(1, task) for task in (A, D)), *(taken(number, D) for number in (2, 3)))
    assert world.job.coordinator.pending.keys() == {2, 3}
    world.hear(closed(A))
    assert [(one.checkpoint, one.reason) for one in world.said(c.AbortCheckpoint)] == [(2, LATE), (3, LATE)]
    assert not world.job.coordinator.pending


def test_the_failure_of_a_checkpoint_that_missed_a_finished_task_is_not_counted() -> None:
    """Triggering: "Since checkpoint timeout would block the next checkpoint and cause failover by default"."""
    world = Obedient(graph(a="s", d="t"), keep=[c.TakeSnapshot, c.CloseTask], checkpoint_max_concurrent=3)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"), taken(1, A), taken(1, D), closed(A))
    assert world.job.coordinator.settlement.failures.count == 0
    world.hear(checkpoint("r3"))
    assert snapshots(world, 3) == [D]


# -- Make CheckpointBarrierHandler Support EndOfPartition --------------------------------------------------------------


def test_a_task_that_has_ended_and_is_not_closed_takes_part_in_checkpoints() -> None:
    """Barriers 1: "the task has received all the EndOfPartition, but not finished yet (due to waiting for the last
    checkpoint ...)"."""
    world = Obedient(graph(a="s", b="a", d="t"))
    world.hear(sources_ended(A))
    assert (world.status(A), world.status(B)) == (TaskStatus.WAITING, TaskStatus.WAITING)
    world.hear(checkpoint())
    assert snapshots(world, 1) == [A, D, B]


def test_the_end_of_a_channel_counts_as_aligned_for_the_pending_checkpoints_and_for_all_that_follow() -> None:
    """Barriers 2: "EndOfPartition from one input channel would mark this channel as aligned for all the pending and
    following checkpoints"."""
    world = Obedient(JOIN, slow=[B, C], checkpoint_max_concurrent=2)
    world.keep.add(c.TakeSnapshot)
    world.hear(sources_ended(A))
    world.read(C)  # all of A
    world.write(B)
    world.hear(checkpoint("r1"), taken(1, A), taken(1, B), checkpoint("r2"))
    assert snapshots(world, 1) == [A, B]  # C is behind: B's barrier lies behind a batch that it has not read
    world.hear(taken(2, A), taken(2, B))
    world.read(C)
    assert snapshots(world, 1) == [A, B, C]
    assert snapshots(world, 2) == [A, B, C]
    world.hear(taken(1, C))
    assert world.status(A) is TaskStatus.CLOSED
    world.hear(taken(2, C), checkpoint("r3"))
    assert snapshots(world, 3) == [B, C]


def test_who_has_ended_waits_until_its_consumers_have_read_all_of_it() -> None:
    """Barriers: "the upstream tasks would wait till the downstream tasks to process all the pending records before
    exit"."""
    world = Obedient(graph(a="s", b="a t"), slow=[B], checkpoint_mode="unaligned")
    world.write(A, A)
    world.hear(sources_ended(A), checkpoint())
    assert manifests(world) == [1]
    assert world.status(A) is TaskStatus.WAITING
    world.read(B)
    assert world.status(A) is TaskStatus.CLOSED


def test_unaligned_checkpoints_go_on_while_a_consumer_of_an_ended_task_catches_up() -> None:
    """Barriers: "During this period, the unaligned checkpoints or checkpoints with timeout could be done normally"."""
    world = Obedient(CHAIN, slow=[B], checkpoint_mode="unaligned")
    world.write(A, A)
    world.hear(sources_ended(A), checkpoint("r1"), checkpoint("r2"), checkpoint("r3"))
    assert manifests(world) == [1, 2, 3]
    assert in_flight(world, B) == [{A: (0, 3)}] * 3


def test_checkpoints_with_timeout_go_on_while_a_consumer_of_an_ended_task_catches_up() -> None:
    """Barriers: "This is similar for the aligned checkpoints with timeout"."""
    world = Obedient(CHAIN, slow=[B], checkpoint_aligned_timeout_ms=500)
    world.write(A, A)
    world.hear(sources_ended(A), checkpoint("r1"))
    world.tick(499)
    assert manifests(world) == []
    world.tick(1)
    assert manifests(world) == [1]
    assert in_flight(world, B) == [{A: (0, 3)}]


def test_a_slow_consumer_holds_up_its_own_producers_only() -> None:
    world = Obedient(graph(a="s", b="t", c="b", d="a u"), slow=[C], checkpoint_mode="unaligned")
    world.write(B)
    world.hear(sources_ended(A), sources_ended(B), checkpoint())
    assert (world.status(A), world.status(B)) == (TaskStatus.CLOSED, TaskStatus.WAITING)


# -- Do Not Cancel Pending Checkpoint on Finish ------------------------------------------------------------------------


def test_a_task_that_ends_in_the_middle_of_a_chain_does_not_cancel_a_pending_checkpoint() -> None:
    """Do Not Cancel: "tasks finish should not fail the checkpoints"."""
    world = Obedient(graph(a="s", b="a", c="b t"), slow=[C], keep=[c.CloseTask])
    world.write(A)
    world.hear(checkpoint(), sources_ended(A))
    assert world.status(B) is TaskStatus.WAITING
    assert manifests(world) == []
    world.read(C)
    assert manifests(world) == [1]
    assert world.said(c.AbortCheckpoint) == []


# -- Failover and Recovery ---------------------------------------------------------------------------------------------


def resumed(**read: int) -> Obedient:
    """A is known to have finished with five batches; `read`: how many of them B had read."""
    known = {
        A: e.RestoredTask(closed=True, batch=4, committed=4),
        B: e.RestoredTask(batch=1, committed=1, read={SubtaskId(uid, 0): place for uid, place in read.items()}),
    }
    facts = {"next_checkpoint": 8, "latest_checkpoint": 7, "committed": True, "tasks": known}
    return Obedient(graph(a="s", b="a t"), slow=[B], facts=facts)


def test_a_finished_task_that_was_read_to_its_end_is_neither_started_nor_asked() -> None:
    """Failover: "Logically we could not restart the finished tasks on failover"."""
    world = resumed(a=5)
    assert told(world, c.StartTask) == [B]
    world.hear(checkpoint())
    assert snapshots(world, 8) == [B]
    assert world.said(c.WriteManifest)[-1].finished == (A,)


def test_a_finished_task_that_was_not_read_to_its_end_is_not_started_and_what_it_left_is_read() -> None:
    """Failover: "We could only restart those tasks who have operators not fully finished"."""
    world = resumed(a=2)
    assert told(world, c.StartTask) == [B]
    assert world.said(c.AllowReading) == [c.AllowReading(task=B, producer=A, upto=5)]
    assert world.status(A) is TaskStatus.WAITING
    world.read(B)
    assert world.status(A) is TaskStatus.CLOSED


def test_checkpoints_are_taken_while_what_a_finished_task_left_is_still_read() -> None:
    world = resumed(a=2)
    world.hear(checkpoint())
    assert snapshots(world, 8) == [A]
    world.read(B)
    assert snapshots(world, 8) == [A, B]
    assert manifests(world) == [8]


def test_a_task_that_fails_is_restarted_and_its_finished_producer_is_not() -> None:
    world = Obedient(graph(a="s", b="a t"), restart_delay_ms=1_000)
    world.hear(sources_ended(A), failed(B))
    world.tick(1_000)
    assert told(world, c.StartTask) == [A, B, B]
    assert world.status(A) is TaskStatus.WAITING


# -- Changes of the Operator APIs related to Finish --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "drained", "result"),
    [([sources_ended(A), sources_ended(B)], False, "FINISHED"), ([stop(drain=True)], True, "DRAINED")],
    ids=["natural", "drain"],
)
def test_at_a_natural_end_and_at_a_drain_every_task_of_a_graph_flushes(
    ending: list[e.Event], drained: bool, result: str
) -> None:
    """Operator APIs: "For the first two cases, the job would not be expected to be restarted, thus we should flush all
    the records and commit all the records"."""
    world = Obedient(JOIN)
    world.write(A, B)
    world.hear(*ending)
    assert world.said(c.FinishTask) == [c.FinishTask(task=task, drain=drained) for task in (A, B, C)]
    assert world.said(c.WriteManifest)[-1].transactions[C] == (0, world.batches[C])
    assert [one.state for one in world.said(c.RecordResult)] == [result]


def test_at_a_stop_no_task_of_a_graph_flushes() -> None:
    """Operator APIs: "triggering all the timers would cause wrong result after restarting"."""
    world = Obedient(JOIN)
    world.write(A, B)
    world.hear(stop())
    assert world.said(c.FinishTask) == []
    assert told(world, c.SuspendTask) == [A, B, C]


def test_an_exception_in_finish_of_one_task_fails_that_task_and_the_others_keep_what_they_have() -> None:
    """Operator APIs, finish(): "An exception in this method causes the operator to fail"."""
    world = Obedient(CHAIN, keep=[c.FinishTask], restart_delay_ms=1_000)
    world.hear(sources_ended(A), e.TaskFinished(task=A, batch=0))
    world.hear(recorded_by_b(), failed(B))
    assert (world.status(A), world.status(B)) == (TaskStatus.WAITING, TaskStatus.RESTARTING)
    world.keep.clear()
    world.tick(1_000)
    assert told(world, c.FinishTask) == [A, B, B]
    assert world.job.exited


def recorded_by_b() -> e.Event:
    return e.BatchRecorded(task=B, batch=0, read={A: 1})


def test_a_graph_that_is_canceled_closes_nothing_by_the_protocol_and_kills_everything_that_is_open() -> None:
    """Operator APIs, close(): "in the case of a failure and canceling": the driver closes whatever was killed."""
    world = Obedient(CHAIN)
    world.hear(cancel())
    assert told(world, c.KillTask) == [A, B]


# -- Final Checkpoint and Stopping Job With Savepoint ------------------------------------------------------------------


def test_a_task_finishes_as_soon_as_all_its_channels_have_ended_and_waits_for_no_checkpoint_to_do_so() -> None:
    """Final Checkpoint 1: "call finish() immediately after the new event is aligned for all the input channels"."""
    world = Obedient(graph(a="s", b="t", c="a b", d="c"))
    world.write(A, B)
    world.hear(sources_ended(A))
    assert told(world, c.FinishTask) == [A]
    world.keep.add(c.TakeSnapshot)
    world.hear(sources_ended(B))
    assert told(world, c.FinishTask) == [A, B, C, D]
    assert manifests(world) == []


def test_a_task_finishes_only_when_it_has_read_what_its_producers_flushed() -> None:
    """Final Checkpoint, non-source tasks: "Aligned On EndOfUserRecordsEvent"."""
    world = Obedient(CHAIN, slow=[B])
    world.hear(sources_ended(A))
    assert told(world, c.FinishTask) == [A]
    world.read(B)
    assert told(world, c.FinishTask) == [A, B]


def test_a_chain_of_two_phase_tasks_ends_with_one_checkpoint() -> None:
    """Final Checkpoint: "This would cause the tasks to wait for the last checkpoint / savepoint one-by-one, which is
    inefficient"."""
    world = Obedient(graph(a="s", b="a", c="b", d="c"))
    world.write(A)
    world.hear(sources_ended(A))
    (manifest,) = world.said(c.WriteManifest)
    assert (manifest.checkpoint, manifest.kind) == (1, CheckpointKind.FINAL)
    assert told(world, c.CloseTask) == [A, B, C, D]


def test_the_savepoint_of_a_drain_comes_when_every_task_has_finished() -> None:
    """Final Checkpoint 2: "first finish the task and then trigger a savepoint so that they could be unified with the
    final checkpoint process and avoid confused records after savepoint"."""
    world = Obedient(CHAIN)
    world.write(A)
    world.hear(stop(drain=True, directory="/save"))
    order = [type(thing) for thing in world.log if isinstance(thing, c.FinishTask | c.TakeSnapshot | c.SealSavepoint)]
    assert order == [c.FinishTask] * 2 + [c.TakeSnapshot] * 2 + [c.SealSavepoint]
    assert not any(isinstance(thing, e.BatchRecorded) for thing in world.log[world.log.index(seal(world)) :])


def seal(world: Obedient) -> c.Command:
    return world.said(c.SealSavepoint)[0]


def test_the_end_of_data_that_is_not_finished_goes_through_the_whole_graph() -> None:
    """Final Checkpoint, both tables, Stop with Savepoint: "Emit EndOfData[finished = false]"."""
    world = Obedient(graph(a="s", b="a", c="b"))
    world.write(A)
    world.hear(stop())
    assert [type(thing) for thing in world.log if isinstance(thing, e.TaskSuspended | e.TaskFinished)] == (
        [e.TaskSuspended] * 3
    )


def concurrent_world() -> Obedient:
    """After finish() of A, with B running: 42, 43 and 44 are triggered and nobody has acknowledged."""
    world = Obedient(
        graph(a="s", b="t"),
        keep=[c.TakeSnapshot, c.CloseTask],
        facts={"next_checkpoint": 42},
        checkpoint_interval_ms=1_000,
        checkpoint_max_concurrent=3,
    )
    world.write(A)
    world.hear(sources_ended(A))
    for _ in range(3):
        world.tick(1_000)
    assert [*world.job.coordinator.pending] == [42, 43, 44]
    return world


def complete(world: Obedient, number: int) -> None:
    for task in (A, B):
        world.hear(e.SnapshotTaken(task=task, checkpoint=number, batch=world.batches.get(task, -1)))


def test_the_first_completed_checkpoint_after_finish_ends_the_task_though_an_earlier_one_is_pending() -> None:
    """42/43/44: "shutdown the task immediately after seeing first notifyCheckpointComplete(X), where X is any
    triggered checkpoint AFTER finish()"; 43 comes first, since there is no "guarantee ... the order in which they will
    arrive"."""
    world = concurrent_world()
    complete(world, 43)
    assert manifests(world) == [43]
    assert told(world, c.CloseTask) == [A]


def test_the_first_completed_checkpoint_commits_what_belongs_to_the_ones_before_it() -> None:
    """42/43/44: "commit transactions from checkpoint 42, (and 43 if they were created, depends on the user code)"."""
    world = concurrent_world()
    complete(world, 43)
    assert world.said(c.WriteManifest)[0].transactions[A] == (0, 1)


def test_a_later_checkpoint_that_was_acknowledged_before_the_task_was_closed_is_still_valid() -> None:
    """42/43/44: "If checkpoint 44 completes afterwards, it will still be valid"; what is left of A for it is empty."""
    world = concurrent_world()
    world.hear(e.SnapshotTaken(task=A, checkpoint=44, batch=1))
    complete(world, 43)
    world.hear(closed(A), e.SnapshotTaken(task=B, checkpoint=44, batch=-1))
    assert manifests(world) == [43, 44]
    assert A not in world.said(c.WriteManifest)[1].transactions
    assert world.job.coordinator.settlement.completed.latest == 44


def test_a_checkpoint_that_the_closed_task_had_not_acknowledged_fails_and_leaves_nothing_behind() -> None:
    """42/43/44: "We should make sure though later checkpoints do not leave behind lingering resources"."""
    world = concurrent_world()
    complete(world, 43)
    world.hear(closed(A))
    assert (44, LATE) in [(one.checkpoint, one.reason) for one in world.said(c.AbortCheckpoint)]
    assert not world.job.coordinator.pending
