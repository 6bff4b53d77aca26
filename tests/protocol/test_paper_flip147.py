"""FLIP-147, "Support Checkpoints After Tasks Finished": one test for each sentence that applies to independent tasks.

The sentences are quoted in the docstrings, with the section they stand in.
"""

from __future__ import annotations

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.reasons import CheckpointKind
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import (
    DELAY_MS,
    A,
    B,
    checkpoint,
    closed,
    commit,
    committed,
    declined,
    discard,
    done,
    failed,
    finished,
    restored,
    running,
    snapshot,
    sources_ended,
    started,
    statuses,
    stop,
    suspended,
    taken,
    tell,
    tick,
    written,
)  # fmt: skip

OFF = "TASKS_FINISHED_FEATURE_OFF: some tasks have finished and checkpoint.after_tasks_finish is off"


def test_the_last_record_is_committed_by_a_checkpoint_after_finish() -> None:
    """Motivation: "wait for one more checkpoint after tasks emitted all the records to commit the last piece of
    data"."""
    job = running()
    assert job.handle(sources_ended()) == (c.FinishTask(task=A, drain=False),)
    assert job.handle(finished()) == snapshot(1)
    manifest = c.WriteManifest(checkpoint=1, kind=CheckpointKind.FINAL, triggered_ms=0, finished=())
    assert job.handle(taken(1)) == (manifest,)
    assert job.handle(written(1)) == (commit(1),)
    assert job.handle(committed(1)) == (discard(), c.CloseTask(task=A))
    assert job.handle(closed()) == (c.RecordResult(state="FINISHED", checkpoint=1),)
    assert job.handle(e.ResultRecorded()) == (c.Exit(),)
    assert job.state is JobState.FINISHED


def test_the_final_checkpoint_is_triggered_at_once_when_all_have_reached_the_end_of_data() -> None:
    """Final Checkpoint: waiting for the next period would delay the end (as shipped: FLINK-28386)."""
    job = running(A, B, checkpoint_interval_ms=3_600_000)
    tell(job, sources_ended(A), sources_ended(B), finished(A))
    assert job.handle(finished(B)) == snapshot(1, A, B)


def test_tasks_wait_at_the_same_time_and_end_with_one_checkpoint() -> None:
    """Final Checkpoint: "cause the tasks to wait for the last checkpoint / savepoint one-by-one, which is
    inefficient"."""
    job = running(A, B)
    tell(job, sources_ended(A), finished(A), sources_ended(B))
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.FINISHING)
    tell(job, finished(B))
    assert tell(job, *done(1, A, B)) == (discard(), c.CloseTask(task=A), c.CloseTask(task=B))
    tell(job, closed(B))
    assert job.handle(closed(A)) == (c.RecordResult(state="FINISHED", checkpoint=1),)


def test_a_task_that_ends_while_others_go_on_ends_with_the_next_checkpoint_whatever_its_kind() -> None:
    """Final Checkpoint: "It should be enough though to wait for notification for any checkpoint that started after
    finish()"."""
    job = running(A, B, checkpoint_interval_ms=1_000)
    tell(job, sources_ended(A), finished(A))
    assert tick(job, 1_000) == snapshot(1, A, B)
    assert tell(job, *done(1, A, B)) == (discard(), c.CloseTask(task=A))
    assert statuses(job) == (TaskStatus.CLOSING, TaskStatus.RUNNING)


def test_a_checkpoint_that_started_before_finish_does_not_end_the_task() -> None:
    """Final Checkpoint: "We need to wait for a checkpoint to complete, that started after the finish() method"."""
    job = running()
    tell(job, checkpoint(), sources_ended(), finished())
    assert tell(job, *done(1)) == (discard(), c.AnswerRequest(request="r1", checkpoint=1), *snapshot(2))
    assert statuses(job) == (TaskStatus.WAITING,)


def test_42_fails_and_43_ends_the_task() -> None:
    """Final Checkpoint, 42/43/44: "shutdown the task immediately after seeing first notifyCheckpointComplete(X),
    where X is any triggered checkpoint AFTER finish()". One at a time, so that 43 is triggered when 42 has failed."""
    job = running(checkpoint_tolerable_failures=9)
    job.coordinator.next_number = 42
    tell(job, sources_ended())
    assert job.handle(finished()) == snapshot(42)
    tell(job, declined(42))
    assert tick(job, DELAY_MS) == snapshot(43)
    assert tell(job, *done(43))[-1] == c.CloseTask(task=A)


def test_44_is_not_started_once_43_has_ended_the_tasks_and_its_late_messages_are_harmless() -> None:
    """Final Checkpoint, 42/43/44: "We should make sure though later checkpoints do not leave behind lingering
    resources"."""
    job = running()
    job.coordinator.next_number = 43
    tell(job, sources_ended(), finished(), *done(43))
    assert tick(job, 10**9) == ()
    assert tell(job, taken(44), written(44), committed(44)) == ()
    assert job.handle(closed()) == (c.RecordResult(state="FINISHED", checkpoint=43),)


def test_transactions_are_committed_before_the_task_is_closed() -> None:
    """Final Checkpoint, 42/43/44: "commit transactions from checkpoint 42 ... close operator", in this order."""
    job = running()
    tell(job, sources_ended(), finished(), taken(1))
    assert job.handle(written(1)) == (commit(1),)
    assert statuses(job) == (TaskStatus.WAITING,)
    assert job.handle(committed(1))[-1] == c.CloseTask(task=A)


def test_an_exception_in_finish_fails_the_task() -> None:
    """API: "Exceptions during this flushing of buffered should be propagated, in order to cause the operation to be
    recognized as failed, because the last data items are not processed properly"."""
    job = running()
    tell(job, sources_ended(), failed())
    assert statuses(job) == (TaskStatus.RESTARTING,)
    assert not job.coordinator.pending


def test_an_exception_in_finish_that_does_not_go_away_fails_the_job() -> None:
    """API: "An exception in this method causes the operator to fail"."""
    job = running(restart_attempts=0)
    assert tell(job, sources_ended(), failed())[-1].state == "FAILED"  # type: ignore[attr-defined]


def test_finish_comes_before_the_snapshot_and_close_after_its_completion() -> None:
    """API, termination phase: finish, snapshotState, notifyCheckpointComplete, close."""
    job = running()
    said = [type(one) for event in (sources_ended(), finished(), *done(1), closed()) for one in job.handle(event)]
    order = [c.FinishTask, c.TakeSnapshot, c.WriteManifest, c.CommitTransactions, c.DiscardOlder, c.CloseTask]
    assert said == [*order, c.RecordResult]


def test_fully_finished_tasks_are_not_started_on_restore() -> None:
    """Checkpoint Format: "so that we could skip the execution of this operator after recovery"."""
    job = restored(A, B, a=e.RestoredTask(closed=True))
    assert statuses(job) == (TaskStatus.CLOSED, TaskStatus.STARTING)
    assert "StartTask(cause=1, task=SubtaskId(task='a'" not in str(job.story)


def test_a_job_all_of_whose_tasks_had_finished_commits_what_is_left_and_ends() -> None:
    """Failover and Recovery: "We could only restart those tasks who have operators not fully finished"."""
    job = restored(a=e.RestoredTask(closed=True))
    assert job.state is JobState.RUNNING
    assert job.handle(committed(7)) == (discard(), c.RecordResult(state="FINISHED", checkpoint=7))


def test_a_task_that_finished_without_a_checkpoint_is_not_started_and_gets_its_checkpoint() -> None:
    """Failover and Recovery, with batch records: what is durable need not be run again."""
    job = restored(a=e.RestoredTask(ended=True))
    assert job.handle(committed(7)) == (discard(), *snapshot(8))
    assert tell(job, *done(8))[-1] == c.CloseTask(task=A)


def test_a_checkpoint_names_the_tasks_that_had_finished_and_asks_only_the_others() -> None:
    """Checkpoint Format: "If all the subtasks of an operator are finished, the checkpoint would store a flag"."""
    job = running(A, B)
    tell(job, sources_ended(A), finished(A), checkpoint(), *done(1, A, B), closed(A))
    assert job.handle(checkpoint("r2")) == snapshot(2, B)
    manifest = c.WriteManifest(checkpoint=2, kind=CheckpointKind.MANUAL, triggered_ms=0, finished=(A,))
    assert job.handle(taken(2, B)) == (manifest,)


def test_a_finished_task_of_an_earlier_run_is_named_by_the_next_checkpoint_too() -> None:
    job = restored(A, B, a=e.RestoredTask(closed=True))
    tell(job, committed(7), started(B), checkpoint())
    assert job.handle(taken(8, B))[0].finished == (A,)  # type: ignore[attr-defined]


def test_a_job_with_bounded_and_unbounded_tasks_goes_on_with_checkpoints() -> None:
    """Motivation 2: jobs with both "might have to replay a large amount of records ... due to no periodic
    checkpoints"."""
    job = running(A, B, checkpoint_interval_ms=1_000)
    tell(job, sources_ended(A), finished(A))
    tick(job, 1_000)
    tell(job, *done(1, A, B), closed(A))
    assert tick(job, 1_000) == snapshot(2, B)


def test_a_pending_checkpoint_is_not_cancelled_when_a_task_finishes() -> None:
    """Do Not Cancel Pending Checkpoint on Finish: "tasks finish should not fail the checkpoints"."""
    job = running(A, B)
    tell(job, checkpoint(), taken(1, B), sources_ended(A))
    assert job.handle(finished(A)) == ()
    assert job.handle(taken(1, A))[0].checkpoint == 1  # type: ignore[attr-defined]


def test_a_task_that_finishes_waits_for_the_pending_checkpoint() -> None:
    """Do Not Cancel Pending Checkpoint on Finish: "waiting for all the pending checkpoints to finish before task get
    finished"."""
    job = running()
    tell(job, checkpoint(), sources_ended())
    assert job.handle(finished()) == ()


def test_no_checkpoint_while_a_task_is_neither_running_nor_waiting() -> None:
    """Triggering: a task that cannot acknowledge would make it "fail due to timeout", so it is not begun."""
    job = running(A, B)
    tell(job, sources_ended(A))
    assert job.handle(checkpoint()) == ()
    assert job.handle(finished(A)) == snapshot(1, A, B)


def test_a_checkpoint_fails_at_once_when_a_task_fails_before_it_acknowledged() -> None:
    """Triggering: "it would be better to detect the trigger failure as earlier as possible"."""
    job = running(A, B)
    tell(job, checkpoint())
    assert isinstance(job.handle(failed(A))[0], c.AbortCheckpoint)


def test_with_the_feature_off_no_checkpoint_is_taken_after_a_task_has_finished() -> None:
    """Feature flag: "Feature toggle for enabling checkpointing after tasks finish"; a refusal is told, not counted."""
    job = running(A, B, checkpoint_after_tasks_finish=False)
    tell(job, sources_ended(A), finished(A), checkpoint(), *done(1, A, B), closed(A))
    error = ("CHECKPOINT_FAILED", {"checkpoint": 2, "job": "bids", "reason": OFF})
    assert job.handle(checkpoint("r2")) == (
        c.AbortCheckpoint(checkpoint=2, reason=OFF),
        c.AnswerRequest(request="r2", error=error),
    )
    assert job.state is JobState.RUNNING


def test_with_the_feature_off_a_last_record_that_cannot_be_committed_is_an_error_and_not_an_end() -> None:
    """Motivation 1: "the data sent after the last checkpoint would always not be able to be committed"."""
    job = running(A, B, checkpoint_after_tasks_finish=False)
    tell(job, sources_ended(A), finished(A), checkpoint(), *done(1, A, B), closed(A), sources_ended(B))
    error = ("CHECKPOINTS_FAILING", {"failures": 1, "tolerable": 0, "reason": OFF})
    assert job.handle(finished(B)) == (
        c.AbortCheckpoint(checkpoint=2, reason=OFF),
        c.RecordResult(state="FAILED", checkpoint=1, error=error),
    )


def test_with_the_feature_off_a_stop_after_a_task_has_finished_is_given_up() -> None:
    job = running(A, B, checkpoint_after_tasks_finish=False)
    tell(job, sources_ended(A), finished(A), checkpoint(), *done(1, A, B), closed(A), stop())
    assert job.handle(suspended(B))[-1] == c.StartTask(task=B)


def test_with_the_feature_off_a_job_whose_tasks_end_together_finishes() -> None:
    job = running(A, B, checkpoint_after_tasks_finish=False)
    tell(job, sources_ended(A), finished(A), sources_ended(B), finished(B), *done(1, A, B), closed(A))
    assert job.handle(closed(B)) == (c.RecordResult(state="FINISHED", checkpoint=1),)


def test_records_are_flushed_at_a_natural_end_and_at_a_drain_and_not_at_a_stop() -> None:
    """Changes to the Operator APIs: "for the third case ... we should not flush all the records"."""
    assert running().handle(sources_ended()) == (c.FinishTask(task=A, drain=False),)
    assert running().handle(stop(drain=True)) == (c.FinishTask(task=A, drain=True),)
    assert running().handle(stop()) == (c.SuspendTask(task=A),)


def test_a_savepoint_comes_after_the_task_has_finished_so_that_no_record_follows_it() -> None:
    """Final Checkpoint 2: "first finish the task and then trigger a savepoint so that they could be unified"."""
    job = running()
    assert tell(job, stop(drain=True, directory="/save")) == (c.FinishTask(task=A, drain=True),)
    assert job.handle(finished(drained=True)) == snapshot(1)
