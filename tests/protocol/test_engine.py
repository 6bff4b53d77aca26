"""The engine dies: what still ends well without it, when the job moves to another, and when it has failed."""

from __future__ import annotations

import pytest

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.engine import GRACE_MS, TRIES
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState
from tests.protocol.kit import (
    A,
    B,
    closed,
    commit_failed,
    committed,
    created,
    failed,
    finished,
    recorded,
    running,
    sources_ended,
    suspended,
    taken,
    tell,
    tick,
    written,
)

LOST = e.EngineDied(reason="killed")
REPLACEABLE = e.EngineDied(reason="killed", replaceable=True)
STOP = e.StopRequested(request="s")


def result(said: tuple[c.Command, ...]) -> tuple[str, object]:
    """State and code of the result that is recorded."""
    (recorded,) = (one for one in said if isinstance(one, c.RecordResult))
    return recorded.state, recorded.error[0] if recorded.error else None


def after_the_grace(job: JobMachine) -> tuple[c.Command, ...]:
    return tick(job, GRACE_MS)


def test_where_no_other_can_be_made_the_job_fails_with_a_code() -> None:
    job = running()

    assert tell(job, LOST) == ()
    assert result(after_the_grace(job)) == ("FAILED", "SPARK_DIED")


def test_where_another_can_be_made_the_run_is_left_to_the_next_without_a_result_or_an_answer() -> None:
    job = running()
    tell(job, REPLACEABLE, e.CheckpointRequested(request="c"))

    said = after_the_grace(job)

    assert [type(one) for one in said] == [c.KillTask, c.FailOver, c.Exit]
    assert said[1] == c.FailOver(reason="killed", failures=1, delay_ms=Config().restart_delay_ms, cause=said[1].cause)
    assert tell(job, e.Ticked(now_ms=10**9), STOP, LOST) == (), "nothing is heard any more"


def test_engines_that_die_in_a_row_are_counted_and_end_the_job_at_last() -> None:
    job = created(restart_attempts=2)
    tell(job, e.JobStarted(now_ms=0, engine_failures=2), e.TaskStarted(task=A), REPLACEABLE)

    assert result(after_the_grace(job)) == ("FAILED", "SPARK_DIED")


def test_a_checkpoint_with_something_new_says_that_the_engines_do_not_die_in_a_row() -> None:
    job = created(restart_attempts=2)
    asked = e.CheckpointRequested(request="c")
    tell(job, e.JobStarted(now_ms=0, engine_failures=2), e.TaskStarted(task=A), recorded(1), asked)
    tell(job, taken(1), written(1), committed(1), REPLACEABLE)

    assert any(isinstance(one, c.FailOver) for one in after_the_grace(job))


def test_no_task_is_started_again_meanwhile_and_a_second_word_changes_nothing() -> None:
    job = running(restart_delay_ms=0)
    tell(job, LOST, failed(), failed(permanent=True), REPLACEABLE)

    assert job.engines.lost is not None and not job.engines.lost.replaceable
    assert tick(job, GRACE_MS - 1) == (), "a stop may still come"
    assert result(tick(job, 1)) == ("FAILED", "SPARK_DIED")


def test_a_stop_that_comes_a_moment_later_holds_each_task_where_it_stands() -> None:
    job = running(A, B)
    tell(job, failed(), LOST)

    assert [type(one) for one in tell(job, STOP)] == [c.SuspendTask, c.SuspendTask]
    tell(job, suspended(), suspended(B), taken(1), taken(1, B), written(1), committed(1), closed())
    assert result(tell(job, closed(B))) == ("STOPPED", None)


def test_a_task_whose_last_batch_the_engine_owes_cannot_be_held() -> None:
    job = running()
    tell(job, STOP, LOST)

    for _ in range(TRIES - 1):
        assert [type(one) for one in tell(job, failed())] == [c.SuspendTask]
    assert result(tell(job, failed())) == ("FAILED", "SPARK_DIED")


@pytest.mark.parametrize(
    "stop", [e.StopRequested(request="s", drain=True), e.StopRequested(request="s", directory="/save")]
)
def test_a_drain_and_a_savepoint_need_an_engine_and_are_left_to_the_next_run_at_once(stop: e.StopRequested) -> None:
    job = running()
    tell(job, stop)

    assert any(isinstance(one, c.FailOver) for one in tell(job, REPLACEABLE))
    assert job.state is JobState.STOPPING


def test_a_job_of_which_only_the_commit_is_missing_ends_as_if_nothing_had_happened() -> None:
    job = running()
    tell(job, sources_ended(), finished(), LOST)

    assert result(tell(job, taken(1), written(1), committed(1), closed())) == ("FINISHED", None)


def test_a_commit_that_fails_without_an_engine_is_left_to_the_next_run() -> None:
    job = running()
    tell(job, sources_ended(), finished(), taken(1), written(1), REPLACEABLE)

    assert any(isinstance(one, c.FailOver) for one in tell(job, commit_failed(1)))


def test_a_sink_that_cannot_be_closed_without_an_engine_is_left_to_the_next_run() -> None:
    job = running()
    tell(job, sources_ended(), finished(), taken(1), written(1), committed(1), REPLACEABLE)

    assert any(isinstance(one, c.FailOver) for one in tell(job, failed()))


def test_a_late_word_of_a_task_that_waits_counts_for_nothing() -> None:
    job = running()
    tell(job, sources_ended(), finished(), LOST, failed())

    assert job.engines.lost is not None and job.engines.lost.failures == 0
