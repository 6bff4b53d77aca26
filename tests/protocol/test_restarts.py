"""The restart strategy, of a task, of a commit and of the job: a server that is away needs no person."""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import (
    DELAY_MS,
    A,
    B,
    checkpoint,
    commit,
    commit_failed,
    committed,
    declined,
    done,
    failed,
    finished,
    recorded,
    restored,
    running,
    sources_ended,
    started,
    statuses,
    stop,
    taken,
    tell,
    tick,
    written,
)

HOURS = 10


def test_the_pause_doubles_up_to_a_limit_and_there_is_no_last_try() -> None:
    restarts = Restarts(Config())
    pauses = [restarts.failed(number) for number in range(2_000)]
    assert pauses[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    assert set(pauses[6:]) == {60_000}
    assert restarts.granted == 2_000


def test_there_are_as_many_tries_as_are_allowed() -> None:
    restarts = Restarts(Config(restart_attempts=2))
    assert [restarts.failed(0) for _ in range(3)] == [1_000, 2_000, None]


def test_progress_and_a_long_time_without_a_failure_begin_a_new_row() -> None:
    restarts = Restarts(Config(restart_attempts=1, restart_window_ms=5_000))
    assert restarts.failed(0) == 1_000
    restarts.progressed()
    assert restarts.failed(1) == 1_000
    assert restarts.failed(6_001) == 1_000
    assert restarts.failed(10_000) is None


def test_a_pause_is_no_time_without_a_failure() -> None:
    """Pauses that are longer than the window would start the count anew each time, and there would be no last try."""
    restarts = Restarts(Config(restart_attempts=3, restart_window_ms=5_000, restart_delay_max_ms=60_000))
    now_ms, pauses = 0, list[int]()
    while (pause_ms := restarts.failed(now_ms)) is not None and len(pauses) < 100:
        pauses.append(pause_ms)
        now_ms += pause_ms + 4_000
    assert pauses == [1_000, 2_000, 4_000]


def test_a_commit_is_tried_again_for_as_long_as_the_server_is_away() -> None:
    job = running()
    tell(job, checkpoint(), taken(1), written(1))
    for _ in range(HOURS * 60):
        assert job.handle(commit_failed(1)) == ()
        assert tick(job, 60_000) == (commit(1),)
    assert job.handle(committed(1))[-1] == c.AnswerRequest(request="r1", checkpoint=1)


def test_a_commit_that_cannot_be_mended_ends_the_job_at_once() -> None:
    job = running()
    tell(job, checkpoint(), taken(1), written(1))
    lost = e.CommitFailed(checkpoint=1, detail="full", permanent=True)
    error = ("SINK_COMMIT_FAILED", {"sink": "-", "checkpoint": 1, "reason": "full"})
    assert job.handle(lost) == (c.RecordResult(state="FAILED", checkpoint=1, error=error),)


def test_a_task_starts_again_for_as_long_as_its_source_is_away() -> None:
    job = running()
    for _ in range(HOURS * 60):
        assert job.handle(failed()) == ()
        assert tick(job, 60_000) == (c.StartTask(task=A),)
        tell(job, started())
    assert job.state is JobState.RUNNING


def test_a_checkpoint_of_batches_from_before_a_failure_is_no_progress() -> None:
    job = running()
    failures = job.tasks.states[A].restarts
    tell(job, recorded(0), recorded(1), checkpoint(), taken(1), written(1), failed(), committed(1))
    assert failures.failures == 1, "it was being committed when the task failed"
    tick(job, DELAY_MS)
    tell(job, started(), checkpoint("r2"), e.SnapshotTaken(task=A, checkpoint=2, batch=1), written(2), committed(2))
    assert failures.failures == 1, "the batch that failed is the next"
    tell(job, recorded(2), checkpoint("r3"), e.SnapshotTaken(task=A, checkpoint=3, batch=2), written(3), committed(3))
    assert failures.failures == 0


def test_batches_of_an_earlier_run_are_no_progress() -> None:
    job = restored(latest=None, a=e.RestoredTask(batch=4))
    tell(job, started(), failed())
    tick(job, DELAY_MS)
    tell(job, started(), checkpoint(), e.SnapshotTaken(task=A, checkpoint=8, batch=4), written(8), committed(8))
    assert job.tasks.states[A].restarts.failures == 1


def test_a_drain_of_a_failing_task_is_answered_though_a_checkpoint_was_committed_after_the_failure() -> None:
    job = running(restart_delay_ms=3_600_000, restart_delay_max_ms=3_600_000)
    tell(job, recorded(0), recorded(1), checkpoint(), taken(1), written(1), failed(), committed(1))
    assert tell(job, stop(drain=True)) == (c.FinishTask(task=A, drain=True),)
    answers = [command for command in tell(job, failed()) if isinstance(command, c.AnswerRequest)]
    assert [(answer.request, answer.error and answer.error[0]) for answer in answers] == [("s1", "DRAIN_FAILING")]


def test_too_many_failed_checkpoints_start_every_task_again_and_the_job_goes_on() -> None:
    job = running(A, B, checkpoint_tolerable_failures=0)
    reason = "CHECKPOINT_DECLINED: a task declined it (no)"
    error = ("CHECKPOINTS_FAILING", {"failures": 1, "tolerable": 0, "reason": reason})
    assert c.ReportFailure(error=error) in tell(job, checkpoint(), declined(1))
    assert statuses(job) == (TaskStatus.RESTARTING, TaskStatus.RESTARTING)
    assert job.handle(checkpoint("r2")) == (), "none is taken before they are up again"
    assert tick(job, 999) == ()
    assert tick(job, 1) == (c.StartTask(task=A), c.StartTask(task=B))
    assert tell(job, started(A), started(B))[0] == c.TakeSnapshot(task=A, checkpoint=2, batch=-1)


def test_checkpoints_that_fail_for_hours_end_with_the_first_that_does_not() -> None:
    job = running(checkpoint_tolerable_failures=0)
    for number in range(1, HOURS * 60):
        assert tell(job, checkpoint(f"r{number}"))[0] == c.TakeSnapshot(task=A, checkpoint=number, batch=-1)
        tell(job, declined(number))
        assert c.StartTask(task=A) in tick(job, 60_000)
        tell(job, started())
    tell(job, checkpoint("good"), *done(HOURS * 60))
    assert (job.state, job.coordinator.settlement.completed.latest) == (JobState.RUNNING, HOURS * 60)
    assert job.coordinator.settlement.failures.restarts.failures == 0


def test_the_job_starts_again_as_often_as_is_allowed() -> None:
    job = running(checkpoint_tolerable_failures=0, restart_attempts=2)
    for number in (1, 2):
        tell(job, checkpoint(f"r{number}"), declined(number))
        tick(job, 60_000)
        tell(job, started())
    assert job.state is JobState.RUNNING
    tell(job, checkpoint("r3"), declined(3))
    assert job.state is JobState.FAILED


def test_a_final_checkpoint_that_fails_is_taken_again_and_what_has_ended_is_not_started() -> None:
    job = running(A, B, checkpoint_tolerable_failures=0)
    tell(job, sources_ended(A), finished(A), sources_ended(B), finished(B), declined(1))
    assert statuses(job) == (TaskStatus.WAITING, TaskStatus.WAITING)
    assert tick(job, 999) == ()
    assert [type(command) for command in tick(job, 1)] == [c.TakeSnapshot, c.TakeSnapshot]
    assert job.handle(commit_failed(7)) == (), "of a checkpoint that is not being committed"
