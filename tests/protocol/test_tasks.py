"""Tasks: how they start, fail and are started again, and which late or doubled messages they survive."""

from __future__ import annotations

import pytest

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import Ended
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import (
    DELAY_MS,
    A,
    B,
    checkpoint,
    closed,
    committed,
    created,
    done,
    failed,
    finished,
    refuses,
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


def test_a_first_start_starts_every_task() -> None:
    job = created(A, B)
    assert job.handle(e.JobStarted(now_ms=0)) == (c.StartTask(task=A), c.StartTask(task=B))
    assert job.state is JobState.RUNNING


def test_nothing_is_done_before_the_job_has_started() -> None:
    assert created().handle(e.Ticked(now_ms=10**9)) == ()


def test_a_command_names_the_step_that_led_to_it() -> None:
    (command,) = running().handle(sources_ended())
    assert command.cause == 3


def test_time_never_goes_back() -> None:
    job = running()
    tell(job, e.Ticked(now_ms=500), e.Ticked(now_ms=400))
    assert job.now_ms == 500


def test_a_failed_task_is_started_again_after_a_pause_that_doubles_up_to_a_limit() -> None:
    job = running(restart_attempts=9, restart_delay_ms=1_000, restart_delay_max_ms=3_000)
    for pause_ms in (1_000, 2_000, 3_000, 3_000):
        assert job.handle(failed()) == ()
        assert tick(job, pause_ms - 1) == ()
        assert tick(job, 1) == (c.StartTask(task=A),)
        tell(job, started())


def test_a_failed_task_restarts_alone() -> None:
    job = running(A, B)
    tell(job, failed(A))
    assert statuses(job) == (TaskStatus.RESTARTING, TaskStatus.RUNNING)
    assert tick(job, DELAY_MS) == (c.StartTask(task=A),)


def test_a_task_that_fails_too_often_in_a_row_fails_the_job() -> None:
    job = running(restart_attempts=1)
    tell(job, failed())
    tick(job, DELAY_MS)
    error = ("RESTARTS_EXHAUSTED", {"task": "a/0", "attempts": 2, "reason": "boom"})
    assert job.handle(failed()) == (c.RecordResult(state="FAILED", error=error),)


def test_a_completed_checkpoint_resets_the_count_of_failures() -> None:
    job = running(restart_attempts=1)
    for number in (1, 2, 3):
        tell(job, failed())
        tick(job, DELAY_MS)
        tell(job, started(), checkpoint(f"r{number}"), *done(number))
        assert job.coordinator.settlement.completed.latest == number
    assert job.state is JobState.RUNNING


def test_a_checkpoint_without_a_new_batch_says_nothing_of_a_task_that_fails_in_the_next() -> None:
    job = running(restart_attempts=2)
    for number in (1, 2):
        tell(job, failed())
        tick(job, DELAY_MS * 2)
        tell(job, started(), checkpoint(f"r{number}"))
        tell(job, e.SnapshotTaken(task=A, checkpoint=number, batch=4), *done(number)[1:])
    tell(job, failed())
    assert job.state is JobState.RUNNING
    tick(job, DELAY_MS * 4)
    tell(job, started(), failed())
    assert job.state is JobState.FAILED


def test_a_failure_that_would_repeat_itself_is_not_tried_again() -> None:
    error = ("TASK_FAILED", {"task": "a/0", "reason": "boom"})
    assert running().handle(failed(permanent=True)) == (c.RecordResult(state="FAILED", error=error),)


def test_one_death_that_is_noticed_twice_counts_once() -> None:
    job = running()
    tell(job, failed(), failed())
    assert job.tasks.states[A].restarts.failures == 1


def test_the_end_of_the_inputs_finishes_a_task_once() -> None:
    job = running()
    assert job.handle(sources_ended()) == (c.FinishTask(task=A, drain=False),)
    assert job.handle(sources_ended()) == ()


def test_a_task_may_find_its_sources_ended_before_its_query_is_up() -> None:
    job = created()
    tell(job, e.JobStarted(now_ms=0))
    assert job.handle(sources_ended()) == (c.FinishTask(task=A, drain=False),)
    assert job.handle(started()) == ()
    assert statuses(job) == (TaskStatus.FINISHING,)


def test_a_task_that_failed_while_finishing_finishes_again_and_need_not_come_up_for_it() -> None:
    job = running()
    tell(job, sources_ended(), failed())
    assert tick(job, DELAY_MS) == (c.FinishTask(task=A, drain=False),)
    assert job.handle(sources_ended()) == ()


def test_a_death_noticed_before_a_task_was_held_does_not_make_the_hold_illegal() -> None:
    job = running()
    tell(job, stop(), failed())
    assert statuses(job) == (TaskStatus.RESTARTING,)
    assert job.handle(suspended()) == snapshot(1)
    assert tick(job, 60_000) == ()


def test_a_start_that_failed_during_a_stop_is_followed_by_the_answer_of_the_hold() -> None:
    job = created()
    tell(job, e.JobStarted(now_ms=0), stop(), failed())
    assert job.handle(suspended()) == snapshot(1)


def test_a_hold_that_was_ordered_twice_may_be_answered_twice() -> None:
    job = running()
    tell(job, stop(), failed())
    assert tick(job, DELAY_MS) == (c.SuspendTask(task=A),)
    assert job.handle(suspended()) == snapshot(1)
    assert job.handle(suspended()) == ()
    assert tell(job, *done(1))[-1] == c.CloseTask(task=A)


def test_a_task_that_finished_although_its_death_was_noticed_is_finished() -> None:
    job = running()
    tell(job, sources_ended(), failed())
    assert job.handle(finished()) == snapshot(1)
    assert tick(job, 60_000) == ()


def test_a_task_that_finished_while_its_death_was_noticed_is_finished_once() -> None:
    job = running()
    tell(job, sources_ended(), failed())
    assert tick(job, DELAY_MS) == (c.FinishTask(task=A, drain=False),)
    assert job.handle(finished(notes=("one",))) == snapshot(1)
    # The order was given twice, and the second finds the end durable.
    assert job.handle(finished(notes=("one",))) == ()
    assert job.answers.notes == ["one"]


def test_a_task_that_had_finished_stays_finished_when_a_stop_holds_it() -> None:
    job = running()
    tell(job, sources_ended(), failed(), stop(), finished(), suspended())
    assert job.tasks.states[A].ended is Ended.FINISHED
    tell(job, *done(1), closed())
    assert job.state is JobState.FINISHED


def test_a_start_that_is_reported_after_a_death_does_not_cancel_the_restart() -> None:
    job = created()
    tell(job, e.JobStarted(now_ms=0), failed(), started())
    assert tick(job, DELAY_MS) == (c.StartTask(task=A),)


def test_a_query_that_was_started_twice_may_come_up_twice() -> None:
    job = created()
    tell(job, e.JobStarted(now_ms=0), failed())
    assert tick(job, DELAY_MS) == (c.StartTask(task=A),)
    assert tell(job, started(), started()) == ()
    assert statuses(job) == (TaskStatus.RUNNING,)


def test_a_task_that_finished_between_two_starts_of_it_is_finished() -> None:
    job = running(A, B)
    tell(job, sources_ended(), failed())
    tick(job, DELAY_MS)
    tell(job, started(), finished())
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.RUNNING)


def test_a_start_that_is_reported_to_a_task_that_waits_changes_nothing() -> None:
    job = running(A, B)
    tell(job, sources_ended(), failed())
    tick(job, DELAY_MS)
    tell(job, finished(), started())
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.RUNNING)


def test_a_death_noticed_after_a_task_has_ended_changes_nothing() -> None:
    job = running(A, B)
    tell(job, sources_ended(), finished(), failed())
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.RUNNING)
    tell(job, checkpoint(), *done(1, A, B), closed(), failed())
    assert statuses(job) == (TaskStatus.CLOSED, TaskStatus.RUNNING)


def test_a_hold_reported_after_its_stop_was_given_up_changes_nothing() -> None:
    job = running(checkpoint_timeout_ms=1_000)
    tell(job, stop(), failed())
    tick(job, DELAY_MS)
    tell(job, suspended())
    assert tick(job, 1_000)[-1] == c.StartTask(task=A)
    assert job.handle(suspended()) == ()
    assert statuses(job) == (TaskStatus.STARTING,)
    assert job.handle(started()) == ()
    assert statuses(job) == (TaskStatus.RUNNING,)


@pytest.mark.parametrize("late", [started(), sources_ended(), suspended(), finished()])
def test_the_answer_of_an_order_given_twice_may_come_while_the_task_is_being_closed(late: e.Event) -> None:
    job = running()
    tell(job, stop(), failed(), suspended(), *done(1))
    assert job.handle(late) == ()
    assert statuses(job) == (TaskStatus.CLOSING,)
    assert job.tasks.states[A].ended is Ended.SUSPENDED


def test_a_failure_that_has_a_code_of_its_own_keeps_it() -> None:
    error: tuple[str, dict[str, object]] = ("FILE_VANISHED", {"source": "s", "path": "p"})
    assert running().handle(failed(permanent=True, error=error)) == (c.RecordResult(state="FAILED", error=error),)


def test_a_task_that_cannot_be_closed_fails_the_job() -> None:
    job = running()
    tell(job, sources_ended(), finished(), *done(1))
    error = ("TASK_FAILED", {"task": "a/0", "reason": "boom"})
    assert job.handle(failed()) == (c.RecordResult(state="FAILED", checkpoint=1, error=error),)


def test_a_failure_aborts_the_checkpoint_that_waits_for_the_task() -> None:
    job = running(A, B)
    tell(job, checkpoint(), taken(1, B))
    reason = "TASK_FAILURE: a task failed (boom)"
    error = ("CHECKPOINT_FAILED", {"checkpoint": 1, "job": "bids", "reason": reason})
    assert job.handle(failed()) == (
        c.AbortCheckpoint(checkpoint=1, reason=reason),
        c.AnswerRequest(request="r1", error=error),
    )


@pytest.mark.parametrize("before", [(taken(1),), (taken(1), written(1))], ids=["writing", "committing"])
def test_a_failure_does_not_harm_a_checkpoint_that_has_all_it_needs(before: tuple[e.Event, ...]) -> None:
    job = running()
    tell(job, checkpoint(), *before)
    assert job.handle(failed()) == ()
    rest = (written(1), committed(1))[len(before) - 1 :]
    assert c.AnswerRequest(request="r1", checkpoint=1) in tell(job, *rest)
    assert statuses(job) == (TaskStatus.RESTARTING,)


def test_a_finished_task_of_an_earlier_run_is_not_started_and_the_open_one_is() -> None:
    job = created(A, B)
    start = e.JobStarted(
        now_ms=0, next_checkpoint=8, latest_checkpoint=7, tasks={A: e.RestoredTask(closed=True), B: e.RestoredTask()}
    )
    assert job.handle(start)[1:] == (c.StartTask(task=B),)
    assert refuses(job, started(A))


def test_a_task_whose_end_no_checkpoint_has_seen_waits_for_one() -> None:
    job = restored(A, B, latest=None, a=e.RestoredTask(ended=True, notes=("left",)))
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.STARTING)
    assert job.answers.notes == ["left"]
