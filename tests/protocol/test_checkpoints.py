"""Checkpoints of a running job: when one is taken, who is asked, how it fails, who is told."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.checkpoint_schedule import QUEUE_LIMIT
from rekindle.protocol.pending_checkpoint import CheckpointRequest
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.states import JobState, TaskStatus
from rekindle.protocol.story import Story
from tests.protocol.kit import (
    A,
    B,
    cancel,
    checkpoint,
    closed,
    commit,
    commit_failed,
    committed,
    created,
    declined,
    discard,
    done,
    failed,
    finished,
    recorded,
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


def write(number: int, kind: CheckpointKind = CheckpointKind.MANUAL, triggered_ms: int = 0) -> c.Command:
    return c.WriteManifest(checkpoint=number, kind=kind, triggered_ms=triggered_ms, finished=())


def refusal(request: str, reason: str) -> c.Command:
    return c.AnswerRequest(request=request, error=("CHECKPOINT_REFUSED", {"reason": reason}))


def failure(number: int, reason: str, request: str = "r1") -> c.Command:
    error = ("CHECKPOINT_FAILED", {"checkpoint": number, "job": "bids", "reason": reason})
    return c.AnswerRequest(request=request, error=error)


def test_a_checkpoint_is_snapshot_manifest_commit_answer_in_this_order() -> None:
    job = running(A, B)
    assert job.handle(checkpoint()) == snapshot(1, A, B)
    assert job.handle(taken(1, A)) == ()
    assert job.handle(taken(1, B)) == (write(1),)
    assert job.handle(written(1)) == (commit(1),)
    assert job.handle(committed(1)) == (discard(), c.AnswerRequest(request="r1", checkpoint=1))


def test_a_savepoint_is_sealed_after_its_checkpoint_has_committed() -> None:
    job = running()
    tell(job, checkpoint(directory="/save"), taken(1))
    assert job.handle(written(1)) == (commit(1),)
    assert job.handle(committed(1)) == (c.SealSavepoint(checkpoint=1, directory="/save"), discard(pinned=(1,)))
    assert job.handle(sealed(1)) == (discard(), c.AnswerRequest(request="r1", checkpoint=1, savepoint="/save/1"))


def test_a_savepoint_that_cannot_be_written_is_reported_and_the_job_continues() -> None:
    job = running()
    tell(job, checkpoint(directory="/save"), *done(1))
    error = ("SAVEPOINT_FAILED", {"path": "/save", "reason": "full"})
    assert job.handle(seal_failed(1)) == (discard(), c.AnswerRequest(request="r1", checkpoint=1, error=error))
    assert job.state is JobState.RUNNING


@pytest.mark.parametrize(
    "again", [taken(1), declined(1), written(1), e.ManifestFailed(checkpoint=1, detail=""), commit_failed(1),
              committed(1), sealed(1), seal_failed(1)]
)  # fmt: skip
def test_repeated_messages_of_every_phase_are_harmless(again: e.Event) -> None:
    job = running()
    said: list[c.Command] = list(job.handle(checkpoint(directory="/save")))
    heard = [taken(1), written(1), committed(1), sealed(1)]
    own_phase = {e.SnapshotDeclined: 1, e.ManifestFailed: 2, e.CommitFailed: 3, e.SavepointFailed: 4}
    start = own_phase.get(type(again), heard.index(again) + 1 if again in heard else 0)
    for position, event in enumerate(heard, 1):
        said += job.handle(event)
        if position >= start:
            said += job.handle(again)
    assert [type(command).__name__ for command in said] == [
        "TakeSnapshot", "WriteManifest", "CommitTransactions", "SealSavepoint", "DiscardOlder",
        "DiscardOlder", "AnswerRequest"
    ]  # fmt: skip


def test_messages_of_an_aborted_checkpoint_do_not_touch_the_next_one() -> None:
    job = running(checkpoint_tolerable_failures=9)
    tell(job, checkpoint(), declined(1), checkpoint("r2"))
    for late in (taken(1), declined(1), written(1), committed(1)):
        assert job.handle(late) == ()
    assert job.handle(taken(2)) == (write(2),)


def test_periodic_checkpoints_come_by_the_interval() -> None:
    job = running(checkpoint_interval_ms=1_000)
    assert tick(job, 999) == ()
    assert tick(job, 1) == snapshot(1)
    assert tick(job, 5_000) == ()
    job.handle(recorded(0))
    assert tell(job, *done(1)) == (discard(), *snapshot(2, batch=0))


def test_the_pause_counts_from_the_end_of_the_last_checkpoint() -> None:
    job = running(checkpoint_interval_ms=1_000, checkpoint_min_pause_ms=5_000)
    tick(job, 1_000)
    tick(job, 3_000)
    tell(job, recorded(0), *done(1))
    assert tick(job, 4_999) == ()
    assert tick(job, 1) == snapshot(2, batch=0)


def test_the_pause_does_not_hold_up_a_checkpoint_that_was_asked_for() -> None:
    job = running(checkpoint_interval_ms=1_000, checkpoint_min_pause_ms=5_000)
    tell(job, checkpoint(), *done(1))
    assert job.handle(checkpoint("r2")) == snapshot(2)


def test_an_interval_of_zero_turns_periodic_checkpoints_off() -> None:
    assert tick(running(), 10**9) == ()


def test_one_checkpoint_at_a_time_and_savepoints_before_checkpoints_before_the_older() -> None:
    job = running(checkpoint_interval_ms=1_000)
    tell(job, checkpoint("r1"), checkpoint("r2"), checkpoint("r3"), checkpoint("s1", "/x"), checkpoint("s2", "/y"))
    tick(job, 1_000)
    order = []
    for number in range(1, 7):
        (pending,) = job.coordinator.pending.values()
        order.append(pending.asked.requests or pending.asked.kind)
        job.handle(recorded(number))
        tell(job, *done(number), sealed(number))
    # The second savepoint waits until the first is made, which nothing else does.
    assert order == [("r1",), ("s1",), ("r2",), ("s2",), ("r3",), CheckpointKind.PERIODIC]


def test_checkpoints_and_commits_go_on_while_a_savepoint_is_made_and_what_it_is_made_of_is_kept() -> None:
    job = running(checkpoint_retained=1)
    tell(job, checkpoint("s", "/save"), *done(1))
    for number in (2, 3):
        assert job.handle(checkpoint(f"r{number}")) == snapshot(number)
        assert tell(job, *done(number))[-2:] == (
            discard(1, pinned=(1,)),
            c.AnswerRequest(request=f"r{number}", checkpoint=number),
        )
    answer = c.AnswerRequest(request="s", checkpoint=1, savepoint="/save/1")
    assert job.handle(sealed(1)) == (discard(1), answer)


def test_a_stop_does_not_wait_for_a_savepoint_of_another_request() -> None:
    job = running()
    tell(job, checkpoint("s", "/save"), *done(1), stop(), suspended(), *done(2))
    (result,) = job.handle(closed())
    assert isinstance(result, c.RecordResult)
    assert result.state == "STOPPED"
    cut_short = c.AnswerRequest(
        request="s", error=("SAVEPOINT_FAILED", {"path": "/save", "reason": "the job has ended meanwhile"})
    )
    assert job.handle(e.ResultRecorded())[0] == cut_short
    assert job.handle(sealed(1)) == ()


def test_a_job_that_ends_by_itself_waits_for_a_savepoint_that_is_being_made() -> None:
    job = running()
    tell(job, checkpoint("s", "/save"), *done(1), sources_ended(), finished(), *done(2))
    assert job.handle(closed()) == ()
    said = job.handle(sealed(1))
    assert [type(one) for one in said] == [c.DiscardOlder, c.AnswerRequest, c.RecordResult]


def test_a_full_queue_refuses_the_next_request() -> None:
    job = running()
    for number in range(QUEUE_LIMIT + 1):
        tell(job, checkpoint(f"r{number}"))
    assert job.handle(checkpoint("one")) == (refusal("one", "too many requests are waiting"),)


def test_a_request_waits_until_all_tasks_run() -> None:
    job = running(A, B)
    tell(job, failed(B))
    assert job.handle(checkpoint()) == ()
    tick(job, 1_000)
    assert job.handle(started(B)) == snapshot(1, A, B)


def test_a_request_that_is_delivered_twice_is_answered_once() -> None:
    job = running()
    tell(job, checkpoint())
    assert job.handle(checkpoint()) == ()
    assert tell(job, *done(1)) == (discard(), c.AnswerRequest(request="r1", checkpoint=1))
    assert job.handle(checkpoint()) == ()
    assert not job.coordinator.pending


def test_a_checkpoint_that_takes_too_long_is_aborted() -> None:
    job = running(checkpoint_timeout_ms=1_000, checkpoint_tolerable_failures=1)
    tell(job, checkpoint())
    reason = "CHECKPOINT_EXPIRED: it was not complete within checkpoint.timeout"
    assert tick(job, 999) == ()
    assert tick(job, 1) == (c.AbortCheckpoint(checkpoint=1, reason=reason), failure(1, reason))


def test_time_cannot_abort_a_checkpoint_whose_manifest_is_being_written() -> None:
    job = running(checkpoint_timeout_ms=1_000)
    tell(job, checkpoint(), taken(1))
    assert tick(job, 5_000) == ()
    assert job.handle(written(1)) == (commit(1),)


def test_a_manifest_that_cannot_be_written_fails_the_checkpoint() -> None:
    job = running(checkpoint_tolerable_failures=1)
    tell(job, checkpoint(), taken(1))
    reason = "FINALIZE_CHECKPOINT_FAILURE: its manifest could not be written (full)"
    assert job.handle(e.ManifestFailed(checkpoint=1, detail="full")) == (
        c.AbortCheckpoint(checkpoint=1, reason=reason),
        failure(1, reason),
    )


def test_more_failures_in_a_row_than_tolerated_fail_the_job_where_it_may_not_start_again() -> None:
    job = running(checkpoint_tolerable_failures=1, restart_attempts=0)
    tell(job, checkpoint(), declined(1), checkpoint("r2"))
    reason = "CHECKPOINT_DECLINED: a task declined it (no)"
    error = ("CHECKPOINTS_FAILING", {"failures": 2, "tolerable": 1, "reason": reason})
    assert job.handle(declined(2))[-1] == c.RecordResult(state="FAILED", error=error)


def test_a_success_resets_the_count_of_failures() -> None:
    job = running(checkpoint_tolerable_failures=1)
    for number in (1, 3, 5):
        tell(job, checkpoint(f"r{number}"), declined(number), checkpoint(f"q{number}"), *done(number + 1))
        assert job.coordinator.settlement.completed.latest == number + 1
    assert job.state is JobState.RUNNING


def test_a_failed_task_does_not_count_as_a_failed_checkpoint() -> None:
    job = running(checkpoint_tolerable_failures=0)
    tell(job, checkpoint(), failed())
    assert job.state is JobState.RUNNING


def test_a_savepoint_that_fails_does_not_count_as_a_failed_checkpoint() -> None:
    job = running(checkpoint_tolerable_failures=0)
    reason = "CHECKPOINT_DECLINED: a task declined it (no)"
    assert tell(job, checkpoint(directory="/save"), declined(1))[-1] == failure(1, reason)
    assert job.state is JobState.RUNNING


def test_a_commit_that_fails_is_tried_again_with_a_pause_that_doubles() -> None:
    job = running()
    tell(job, checkpoint(), taken(1), written(1))
    for pause_ms in (1_000, 2_000, 4_000):
        assert job.handle(commit_failed(1)) == ()
        assert tick(job, pause_ms - 1) == ()
        assert tick(job, 1) == (commit(1),)
    assert job.handle(committed(1))[-1] == c.AnswerRequest(request="r1", checkpoint=1)


def test_no_checkpoint_is_taken_while_transactions_are_still_to_be_committed() -> None:
    job = running()
    tell(job, checkpoint(), taken(1), written(1), commit_failed(1))
    assert job.handle(checkpoint("r2")) == ()
    tick(job, 1_000)
    assert job.handle(committed(1))[-1:] == snapshot(2)


def test_a_commit_that_goes_on_failing_fails_the_job() -> None:
    job = running(restart_attempts=1)
    tell(job, checkpoint(), taken(1), written(1), commit_failed(1))
    tick(job, 1_000)
    error = ("SINK_COMMIT_FAILED", {"sink": "-", "checkpoint": 1, "reason": "full"})
    assert job.handle(commit_failed(1)) == (c.RecordResult(state="FAILED", checkpoint=1, error=error),)


def test_a_commit_that_was_called_failed_and_went_through_is_not_tried_again_on_another_checkpoint() -> None:
    job = running()
    tell(job, checkpoint("r1"), checkpoint("r2"), taken(1), written(1), commit_failed(1))
    assert job.handle(committed(1))[-1:] == snapshot(2)
    assert tick(job, 60_000) == ()


def test_a_recovered_commit_that_was_called_failed_and_went_through_is_not_tried_again() -> None:
    job = restored()
    tell(job, started(), commit_failed(7), committed(7))
    assert tick(job, 60_000) == ()


def test_a_start_commits_the_newest_manifest_before_anything_else_and_no_checkpoint_comes_before_that() -> None:
    job = restored()
    assert str(job.story).index("CommitTransactions") < str(job.story).index("StartTask")
    tell(job, started())
    assert job.handle(checkpoint()) == ()
    assert job.handle(commit_failed(7)) == ()
    assert tick(job, 1_000) == (commit(7),)
    assert job.handle(committed(7)) == (discard(), *snapshot(8))


def test_what_a_driver_that_died_after_a_commit_has_left_is_cleaned_up_by_the_next_start() -> None:
    facts: Any = {"now_ms": 0, "next_checkpoint": 8}
    assert discard() in created().handle(e.JobStarted(**facts, latest_checkpoint=7, committed=True))
    assert discard() not in created().handle(e.JobStarted(**facts)), "there is nothing"
    job = created()
    assert discard() not in job.handle(e.JobStarted(**facts, latest_checkpoint=7)), "what it names is committed first"
    assert discard() in job.handle(committed(7))


def test_the_newest_checkpoint_is_kept_whatever_the_setting_says() -> None:
    assert tell(running(checkpoint_retained=0), checkpoint(), *done(1))[0] == discard(1)
    assert tell(running(checkpoint_retained=5), checkpoint(), *done(1))[0] == discard(5)


def test_a_final_checkpoint_is_not_held_up_by_the_failure_of_another_one() -> None:
    job = running(A, B, checkpoint_tolerable_failures=9)
    tell(job, checkpoint(), sources_ended(A), sources_ended(B), finished(A), declined(1, B))
    assert job.handle(finished(B)) == snapshot(2, A, B)


def test_a_final_checkpoint_that_failed_is_tried_again_after_the_pause() -> None:
    job = running(checkpoint_tolerable_failures=9)
    tell(job, sources_ended(), finished(), declined(1))
    assert tick(job, 999) == ()
    assert tick(job, 1) == snapshot(2)


def test_a_final_checkpoint_that_fails_too_often_fails_the_job() -> None:
    job = running(checkpoint_tolerable_failures=0, restart_attempts=0)
    assert tell(job, sources_ended(), finished(), declined(1))[-1].state == "FAILED"  # type: ignore[attr-defined]


def test_the_pending_checkpoint_of_a_job_that_fails_is_aborted_and_its_requests_get_the_reason() -> None:
    job = running()
    tell(job, checkpoint("r1"), checkpoint("r2"))
    error = ("TASK_FAILED", {"task": "a/0", "reason": "boom"})
    tell(job, failed(permanent=True))
    assert job.handle(e.ResultRecorded()) == (
        c.AnswerRequest(request="r1", error=error),
        c.AnswerRequest(request="r2", error=error),
        c.KillTask(task=A),
        c.Exit(),
    )


def test_a_request_for_a_checkpoint_that_is_being_committed_is_answered_at_a_cancel() -> None:
    job = running()
    tell(job, checkpoint(), taken(1), written(1), cancel())
    told = ("CANCELED_MEANWHILE", {"job": "bids"})
    assert tell(job, e.ResultRecorded())[:2] == (
        c.AnswerRequest(request="c1"),
        c.AnswerRequest(request="r1", error=told),
    )


def test_a_request_that_comes_while_the_job_stops_is_refused() -> None:
    job = running()
    tell(job, checkpoint("r1"), checkpoint("r2"))
    assert job.handle(stop()) == (refusal("r2", "the job is stopping"), c.SuspendTask(task=A))
    assert job.handle(checkpoint("r3")) == (refusal("r3", "the job is stopping"),)


def test_a_request_that_waits_when_the_job_finishes_is_refused_not_called_a_success() -> None:
    job = running()
    tell(job, sources_ended(), finished(), taken(1), written(1), checkpoint("late", "/save"), committed(1))
    tell(job, e.TaskClosed(task=A))
    assert refusal("late", "the job has ended") in job.handle(e.ResultRecorded())


@pytest.mark.parametrize(
    ("statuses_", "flag", "planned"),
    [
        ({A: TaskStatus.RUNNING, B: TaskStatus.WAITING}, True, ((A, B), ())),
        ({A: TaskStatus.CLOSED, B: TaskStatus.RUNNING}, True, ((B,), (A,))),
        ({A: TaskStatus.CLOSED, B: TaskStatus.RUNNING}, False, Reason.TASKS_FINISHED_FEATURE_OFF),
        ({A: TaskStatus.WAITING, B: TaskStatus.RUNNING}, False, ((A, B), ())),
        ({A: TaskStatus.CLOSED, B: TaskStatus.CLOSED}, True, Reason.ALL_TASKS_FINISHED),
        *(
            ({A: TaskStatus.RUNNING, B: status}, True, Reason.NOT_ALL_REQUIRED_TASKS_RUNNING)
            for status in TaskStatus
            if status not in (TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.CLOSED)
        ),
    ],
)
def test_a_checkpoint_asks_every_task_that_has_not_finished(
    statuses_: dict, flag: bool, planned: tuple | Reason
) -> None:
    job = running(A, B, checkpoint_after_tasks_finish=flag)
    for task, status in statuses_.items():
        job.tasks.states.become(task, status)
    job.coordinator.schedule.ask(CheckpointRequest(kind=CheckpointKind.MANUAL))
    commands = job.coordinator.advance(0, job.tasks.states.statuses, None, periodic=False)
    if planned is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING:
        assert commands == () and job.coordinator.schedule.queue, "it waits until they do"
    elif isinstance(planned, Reason):
        assert commands == (c.AbortCheckpoint(checkpoint=1, reason=planned.explained()),)
    else:
        assert commands == snapshot(1, *planned[0])
        assert job.coordinator.pending[1].finished == planned[1]


def test_reasons_that_count_are_those_that_count_in_flink() -> None:
    counting = {reason.name for reason in Reason if reason.counts}
    assert counting == {"CHECKPOINT_DECLINED", "CHECKPOINT_EXPIRED", "FINALIZE_CHECKPOINT_FAILURE"}


def test_a_coordinator_is_busy_with_a_recovery_or_a_checkpoint_only() -> None:
    job = running()
    assert not job.coordinator.busy
    tell(job, checkpoint())
    assert job.coordinator.busy
    assert restored().coordinator.busy
    assert not created().coordinator.busy


def test_a_story_keeps_the_last_lines_and_shortens_long_ones() -> None:
    story = Story(limit=2)
    for step in range(3):
        story.step = step
        story.tell("x" * 300 if step == 2 else step, ["said"])
    first, last = str(story).splitlines()
    assert first == "    1 1 → 'said'"
    assert len(last) < 200 and last.endswith("... → 'said'")


def test_a_request_during_a_stop_that_was_given_up_is_taken_again() -> None:
    job = running()
    tell(job, stop(), suspended(), declined(1), started())
    assert statuses(job) == (TaskStatus.RUNNING,)
    assert job.handle(checkpoint()) == snapshot(2)


def test_a_newest_checkpoint_that_is_known_to_be_committed_is_shown_and_not_committed_again() -> None:
    job = created()
    commands = job.handle(e.JobStarted(now_ms=0, next_checkpoint=8, latest_checkpoint=7, committed=True))
    assert commands == (discard(), c.StartTask(task=A)), "a driver may have died before it had cleaned up"
    assert job.coordinator.settlement.completed.latest == 7
