"""FLIP-45, "Reinforce Job Stop Semantic": one test for each sentence that applies to independent tasks.

The sentences are quoted in the docstrings. Where the text is silent, Flink's stop-with-savepoint is followed.
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
    cancel,
    checkpoint,
    closed,
    declined,
    discard,
    done,
    failed,
    finished,
    restored,
    running,
    seal_failed,
    sealed,
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

STOP_MANIFEST = c.WriteManifest(checkpoint=1, kind=CheckpointKind.STOP, triggered_ms=0, finished=())


def stop_failed(reason: str, *requests: str) -> tuple[c.Command, ...]:
    error = ("STOP_FAILED", {"job": "bids", "reason": reason})
    return tuple(c.AnswerRequest(request=request, error=error) for request in requests)


def refused(request: str, state: str) -> c.Command:
    return c.AnswerRequest(request=request, error=("STOP_REFUSED", {"job": "bids", "state": state}))


def test_a_checkpoint_is_always_taken_when_a_job_is_stopped() -> None:
    """Conclusion: "we should always (automatically) do a checkpoint ... when stopping job"."""
    job = running(A, B)
    assert job.handle(stop()) == (c.SuspendTask(task=A), c.SuspendTask(task=B))
    assert job.state is JobState.STOPPING
    assert job.handle(suspended(A)) == ()
    assert job.handle(suspended(B)) == snapshot(1, A, B)
    assert tell(job, taken(1, A), taken(1, B)) == (STOP_MANIFEST,)
    assert tell(job, *done(1))[1:] == (c.CloseTask(task=A), c.CloseTask(task=B))
    tell(job, closed(A))
    assert job.handle(closed(B)) == (c.RecordResult(state="STOPPED", checkpoint=1),)
    assert job.handle(e.ResultRecorded()) == (c.AnswerRequest(request="s1", checkpoint=1), c.Exit())


def test_the_checkpoint_of_a_stop_is_retained_whatever_the_retention_says() -> None:
    """Conclusion: "do a checkpoint (with retained checkpoint configured) when stopping job"."""
    job = running(checkpoint_retained=0)
    tell(job, stop(), suspended())
    assert discard(1) in tell(job, *done(1))


def test_a_job_that_was_stopped_resumes_without_rewinding() -> None:
    """Checkpoint: "Resuming a Flink job after stop should be able to load from the latest retained checkpoint without
    any source rewinding": no task is told to finish, flush or forget, each starts where its last record stands."""
    job = running()
    assert not any(isinstance(command, c.FinishTask) for command in job.handle(stop()))
    assert str(restored().story).count("StartTask") == 1


def test_a_stop_does_not_flush_and_a_drain_does() -> None:
    """Implementation: "After FLIP-34 we have introduced two different types for job stop": suspend and terminate."""
    assert running(A, B).handle(stop(drain=True)) == (
        c.FinishTask(task=A, drain=True),
        c.FinishTask(task=B, drain=True),
    )
    assert running().handle(stop()) == (c.SuspendTask(task=A),)


def test_a_drained_job_ends_with_everything_flushed_and_committed() -> None:
    job = running()
    tell(job, stop(drain=True))
    assert job.handle(finished(drained=True, notes=("half unread",))) == snapshot(1)
    tell(job, *done(1))
    assert job.handle(closed()) == (c.RecordResult(state="DRAINED", checkpoint=1, notes=("half unread",)),)
    answer = c.AnswerRequest(request="s1", checkpoint=1, notes=("half unread",))
    assert job.handle(e.ResultRecorded()) == (answer, c.Exit())


def test_cancel_takes_effect_while_a_stop_hangs() -> None:
    """Conclusion: "if user issues another cancel command for quick job termination when observing the stop process got
    stuck ... we should make sure the after-stop cancel command could take effect"."""
    job = running()
    tell(job, stop())
    assert job.handle(cancel()) == (c.RecordResult(state="CANCELED"),)
    told = ("CANCELED_MEANWHILE", {"job": "bids"})
    assert job.handle(e.ResultRecorded()) == (
        c.AnswerRequest(request="c1"),
        c.AnswerRequest(request="s1", error=told),
        c.KillTask(task=A),
        c.Exit(),
    )


def test_cancel_aborts_the_checkpoint_of_a_stop_that_hangs() -> None:
    job = running()
    tell(job, stop(), suspended())
    abort = c.AbortCheckpoint(checkpoint=1, reason="JOB_ENDED: the job ended")
    assert job.handle(cancel()) == (abort, c.RecordResult(state="CANCELED"))


def test_cancel_takes_no_checkpoint_and_the_latest_stays() -> None:
    """Checkpoint: "Resuming a Flink job after cancellation involves source rewinding": nothing is taken or deleted."""
    job = running()
    tell(job, checkpoint(), *done(1))
    assert job.handle(cancel()) == (c.RecordResult(state="CANCELED", checkpoint=1),)


def test_a_savepoint_is_orthogonal_to_the_checkpoint_of_a_stop_and_of_the_same_cut() -> None:
    """Savepoint: "completely orthogonal with the fuzzy/sharp checkpoint process": it copies the stop's checkpoint."""
    job = running()
    tell(job, stop(directory="/save"), suspended(), taken(1))
    assert tell(job, *done(1)) == (c.SealSavepoint(checkpoint=1, directory="/save"), discard(pinned=(1,)))
    assert job.handle(sealed(1)) == (discard(), c.CloseTask(task=A))
    assert job.handle(closed()) == (c.RecordResult(state="STOPPED", checkpoint=1, savepoint="/save/1"),)
    answer = c.AnswerRequest(request="s1", checkpoint=1, savepoint="/save/1")
    assert job.handle(e.ResultRecorded()) == (answer, c.Exit())


def test_a_second_stop_is_harmless_and_both_are_answered_once() -> None:
    job = running()
    tell(job, stop("s1"), stop("s1"))
    assert job.handle(stop("s2")) == ()
    tell(job, suspended(), *done(1), closed())
    tell(job, stop("s3"))
    said = job.handle(e.ResultRecorded())
    assert said == (*(c.AnswerRequest(request=f"s{n}", checkpoint=1) for n in (1, 2, 3)), c.Exit())


def test_another_kind_of_stop_than_the_one_in_force_is_refused() -> None:
    job = running()
    tell(job, stop(directory="/save"))
    assert job.handle(stop("s2", drain=True)) == (refused("s2", "STOPPING"),)
    assert job.handle(stop("s3", directory="/other")) == (refused("s3", "STOPPING"),)
    assert job.handle(stop("s4", directory="/save")) == ()


def test_a_stop_waits_for_the_pending_checkpoint_and_does_not_cancel_it() -> None:
    job = running()
    tell(job, checkpoint(), stop())
    assert job.handle(suspended()) == ()
    answered = c.AnswerRequest(request="r1", checkpoint=1)
    assert tell(job, *done(1)) == (discard(), answered, *snapshot(2))


def test_the_failure_of_a_checkpoint_that_was_pending_does_not_give_up_the_stop() -> None:
    job = running(checkpoint_tolerable_failures=9)
    tell(job, checkpoint(), stop(), suspended())
    assert job.handle(declined(1))[-1:] == snapshot(2)
    assert job.state is JobState.STOPPING


def test_a_stop_whose_checkpoint_fails_is_given_up_and_the_job_goes_on() -> None:
    """Flink, stop-with-savepoint: savepoint fails → RUNNING, periodic checkpoints go on, the caller is told."""
    job = running(A, B, checkpoint_interval_ms=1_000)
    tell(job, stop("s1"), stop("s2"), suspended(A), suspended(B))
    reason = "CHECKPOINT_DECLINED: a task declined it (no)"
    assert job.handle(declined(1, B)) == (
        c.AbortCheckpoint(checkpoint=1, reason=reason),
        *stop_failed(reason, "s1", "s2"),
        c.StartTask(task=A),
        c.StartTask(task=B),
    )
    assert job.state is JobState.RUNNING
    tell(job, started(A), started(B))
    assert tick(job, 1_000) == snapshot(2, A, B)


def test_a_stop_whose_savepoint_fails_is_given_up_and_the_job_goes_on() -> None:
    job = running()
    tell(job, stop(directory="/save"), suspended(), *done(1))
    assert job.handle(seal_failed(1)) == (discard(), *stop_failed("full", "s1"), c.StartTask(task=A))
    tell(job, started())
    assert job.handle(stop("s2")) == (c.SuspendTask(task=A),)


def test_a_stop_that_is_given_up_does_not_start_what_had_finished_by_itself() -> None:
    """FLIP-147, Failover and Recovery: "Logically we could not restart the finished tasks"."""
    job = running(A, B)
    tell(job, sources_ended(A), finished(A), stop(), suspended(B))
    assert job.handle(declined(1))[-1] == c.StartTask(task=B)
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.STARTING)


def test_a_stop_that_is_given_up_when_all_had_finished_ends_naturally() -> None:
    job = running()
    tell(job, sources_ended(), stop(), finished(), declined(1))
    assert job.state is JobState.RUNNING
    assert tick(job, DELAY_MS) == snapshot(2)
    tell(job, *done(2))
    assert job.handle(closed()) == (c.RecordResult(state="FINISHED", checkpoint=2),)


def test_a_good_savepoint_and_a_failed_stop_is_failed_not_restarted_and_the_path_is_in_the_error() -> None:
    """Flink: "A savepoint has been created at: %s, but the corresponding job failed during stopping." """
    job = running()
    tell(job, stop(directory="/save"), suspended(), *done(1), sealed(1))
    error = ("STOP_FAILED_AFTER_SAVEPOINT", {"savepoint": "/save/1", "reason": "boom"})
    result = c.RecordResult(state="FAILED", checkpoint=1, savepoint="/save/1", error=error)
    assert job.handle(failed()) == (result,)
    answer = c.AnswerRequest(request="s1", checkpoint=1, savepoint="/save/1", error=error)
    assert job.handle(e.ResultRecorded())[0] == answer


def test_the_path_of_a_good_savepoint_is_reported_when_a_cancel_overtakes_the_stop() -> None:
    job = running()
    tell(job, stop(directory="/save"), suspended(), *done(1), sealed(1))
    assert job.handle(cancel()) == (c.RecordResult(state="CANCELED", checkpoint=1, savepoint="/save/1"),)


def test_a_stop_during_the_pause_before_a_restart_does_not_wait_for_it() -> None:
    job = running()
    tell(job, failed())
    assert job.handle(stop()) == (c.SuspendTask(task=A),)
    assert tick(job, 60_000) == ()
    assert job.handle(suspended()) == snapshot(1)


def test_a_task_that_fails_during_a_stop_is_held_after_the_pause_and_not_started() -> None:
    job = running()
    tell(job, stop(), failed())
    assert tick(job, DELAY_MS) == (c.SuspendTask(task=A),)


def test_a_task_that_fails_during_a_drain_is_finished_after_the_pause_and_not_started() -> None:
    job = running()
    tell(job, stop(drain=True), failed())
    assert tick(job, DELAY_MS) == (c.FinishTask(task=A, drain=True),)


def test_a_hold_that_comes_during_a_drain_changes_nothing() -> None:
    job = running()
    tell(job, stop(drain=True))
    assert job.handle(suspended()) == ()
    assert statuses(job) == (TaskStatus.FINISHING,)


def test_inputs_that_end_during_a_stop_do_not_flush() -> None:
    job = running()
    tell(job, stop())
    assert job.handle(sources_ended()) == ()
    tell(job, suspended(), *done(1))
    assert job.handle(closed())[0].state == "STOPPED"  # type: ignore[attr-defined]


def test_a_stop_that_comes_after_the_sources_ended_lets_the_job_finish() -> None:
    job = running()
    tell(job, sources_ended())
    assert job.handle(stop()) == ()
    tell(job, finished(), *done(1))
    assert job.handle(closed())[0].state == "FINISHED"  # type: ignore[attr-defined]


def test_a_task_that_finished_and_one_that_was_held_make_a_stopped_job() -> None:
    job = running(A, B)
    tell(job, sources_ended(A), finished(A), stop(), suspended(B), *done(1, A, B), closed(A))
    assert job.handle(closed(B))[0].state == "STOPPED"  # type: ignore[attr-defined]


def test_a_drain_after_crash_is_carried_through() -> None:
    """Architecture, an ending: the flush of a drain cannot be taken back."""
    job = restored(A, B, draining=True, a=e.RestoredTask(ended=True, drained=True))
    assert job.state is JobState.STOPPING
    assert "FinishTask(cause=1, task=SubtaskId(task='b', subtask=0), drain=True)" in str(job.story)
    tell(job, e.TransactionsCommitted(checkpoint=7))
    assert job.handle(finished(B, drained=True)) == snapshot(8, A, B)
    tell(job, *done(8, A, B), closed(A))
    assert job.handle(closed(B))[0].state == "DRAINED"  # type: ignore[attr-defined]


def test_a_drain_that_had_ended_one_task_is_carried_through_for_all_although_no_other_had_begun() -> None:
    job = restored(A, B, draining=False, a=e.RestoredTask(ended=True, drained=True))
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.FINISHING)


def test_a_drain_whose_checkpoint_fails_is_tried_again_and_not_given_up() -> None:
    job = running(checkpoint_tolerable_failures=1, restart_attempts=0)
    tell(job, stop(drain=True), finished(drained=True), declined(1))
    assert tick(job, DELAY_MS) == snapshot(2)
    assert job.handle(declined(2))[-1].state == "FAILED"  # type: ignore[attr-defined]


def test_a_drain_whose_savepoint_fails_ends_drained_and_the_request_for_the_savepoint_gets_the_reason() -> None:
    job = running()
    tell(job, stop(drain=True, directory="/save"), finished(drained=True), *done(1))
    assert job.handle(seal_failed(1)) == (discard(), c.CloseTask(task=A))
    notes = ("The savepoint could not be made: full",)
    assert job.handle(closed()) == (c.RecordResult(state="DRAINED", checkpoint=1, notes=notes),)
    error = ("SAVEPOINT_FAILED", {"path": "/save", "reason": "full"})
    assert job.handle(e.ResultRecorded())[0] == c.AnswerRequest(request="s1", checkpoint=1, notes=notes, error=error)


def test_a_stop_that_asks_for_a_savepoint_ends_with_that_savepoint_not_with_an_earlier_checkpoint() -> None:
    """Flink, StopWithSavepointWhenWaitingForFinalCheckpoint: "exit only after 7", the savepoint, not after 6."""
    job = running()
    tell(job, sources_ended(), finished())
    assert job.handle(stop(directory="/save")) == ()
    assert tell(job, *done(1)) == (discard(), *snapshot(2))
    tell(job, *done(2))
    assert job.handle(sealed(2))[-1] == c.CloseTask(task=A)


def test_a_savepoint_that_was_asked_for_too_late_is_an_error_and_not_silently_missing() -> None:
    job = running()
    tell(job, sources_ended(), finished(), *done(1), stop(directory="/save"))
    tell(job, closed())
    (answer, _) = job.handle(e.ResultRecorded())
    assert isinstance(answer, c.AnswerRequest)
    assert answer.error is not None and answer.error[0] == "SAVEPOINT_FAILED"


def test_requests_that_come_while_the_result_is_being_recorded_are_answered_with_it() -> None:
    job = running()
    tell(job, sources_ended(), finished(), *done(1), closed())
    for request in (checkpoint("r9"), stop("s8"), stop("s9", directory="/save"), cancel("c9")):
        assert job.handle(request) == ()
    assert job.handle(e.ResultRecorded()) == (
        c.AnswerRequest(request="r9", error=("CHECKPOINT_REFUSED", {"reason": "the job has ended"})),
        c.AnswerRequest(request="s8", checkpoint=1),
        refused("s9", "FINISHED"),
        c.AnswerRequest(request="c9", error=("JOB_NOT_RUNNING", {"job": "bids", "state": "FINISHED"})),
        c.Exit(),
    )


def test_a_second_cancel_is_harmless() -> None:
    job = running()
    tell(job, cancel("c1"), cancel("c2"), stop("s1"))
    told = ("CANCELED_MEANWHILE", {"job": "bids"})
    assert job.handle(e.ResultRecorded())[:3] == (
        c.AnswerRequest(request="c1"),
        c.AnswerRequest(request="c2"),
        c.AnswerRequest(request="s1", error=told),
    )


def test_a_driver_that_lost_its_right_writes_nothing_and_leaves() -> None:
    """Architecture: one driver runs a job at a time; the requests are the newer run's to answer."""
    job = running(A, B)
    tell(job, checkpoint(), stop())
    assert job.handle(e.DriverFenced(newer_run=2)) == (c.KillTask(task=A), c.KillTask(task=B), c.Exit())
    assert tell(job, suspended(A), stop("s2"), e.ResultRecorded(), e.DriverFenced(newer_run=3)) == ()


def test_a_driver_that_lost_its_right_while_it_recorded_its_result_leaves_too() -> None:
    job = running()
    tell(job, cancel())
    assert job.handle(e.DriverFenced(newer_run=2)) == (c.KillTask(task=A), c.Exit())


def test_a_stop_is_not_answered_before_its_result_is_durable() -> None:
    """Architecture, an ending: "The answer to a stop is durable before it is reported"."""
    job = running()
    said = [command for event in (stop(), suspended(), *done(1), closed()) for command in job.handle(event)]
    assert not any(isinstance(command, c.AnswerRequest) for command in said)
    assert written(1) and isinstance(said[-1], c.RecordResult)
