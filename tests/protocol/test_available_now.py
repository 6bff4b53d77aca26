"""A run of what is available now: it stops by itself once its sources have caught up, and flushes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.config import Config
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState, TaskStatus
from tests.protocol.kit import (
    DELAY_MS,
    A,
    B,
    checkpoint,
    closed,
    created,
    done,
    failed,
    finished,
    graph_of,
    recorded,
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

C, D = SubtaskId("c", 0), SubtaskId("d", 0)


def caught_up(task: SubtaskId = A, batch: int = -1, **read: int) -> e.Event:
    return e.CaughtUp(task=task, batch=batch, read={SubtaskId(uid, 0): batches for uid, batches in read.items()})


def of_what_is_there(job: JobMachine) -> JobMachine:
    """Start a job in a run of what is available now; its tasks run."""
    tell(job, e.JobStarted(now_ms=0, available_now=True), *(started(task) for task in job.tasks.states))
    return job


def available(*tasks: SubtaskId, **config: Any) -> JobMachine:
    return of_what_is_there(created(*tasks, **config))


def test_it_stops_once_its_source_has_caught_up_and_the_next_run_resumes_there() -> None:
    job = available()
    assert job.handle(caught_up()) == (c.SuspendTask(task=A),)
    assert job.state is JobState.STOPPING
    assert job.handle(suspended()) == snapshot(1), "no flush: the windows stay open for the next run"
    tell(job, *done(1))
    assert c.RecordResult(state="STOPPED", checkpoint=1) in job.handle(closed())


def test_it_waits_for_each_source() -> None:
    job = available(A, B)
    assert job.handle(caught_up(A)) == ()
    assert job.handle(caught_up(B)) == (c.SuspendTask(task=A), c.SuspendTask(task=B))


def test_a_source_that_ends_need_not_catch_up() -> None:
    job = available(A, B)
    assert job.handle(caught_up(A)) == ()
    assert job.handle(sources_ended(B)) == (c.FinishTask(task=B, drain=False),)
    assert c.SuspendTask(task=A) in job.handle(finished(B))


def test_it_does_not_wait_for_the_source_of_a_task_that_has_finished() -> None:
    job = available(A, B)
    tell(job, sources_ended(B), finished(B))
    assert c.SuspendTask(task=A) in job.handle(caught_up(A))


def test_one_whose_sources_all_end_finishes() -> None:
    job = available(A, B)
    tell(job, sources_ended(A), sources_ended(B), finished(A))
    assert job.state is JobState.RUNNING
    assert job.handle(finished(B)) == snapshot(1, A, B)
    tell(job, *done(1, A, B), closed(A))
    assert c.RecordResult(state="FINISHED", checkpoint=1) in job.handle(closed(B))


def test_any_other_run_goes_on() -> None:
    assert running().handle(caught_up()) == ()


def chain(mode: str = "aligned") -> JobMachine:
    """`a`, whose source is endless, is read by `b`, and that by `c`."""
    graph = graph_of(A, B, C, reads={"b": "a", "c": "b"})
    config = Config(checkpoint_interval_ms=0, checkpoint_mode=mode, checkpoint_aligned_timeout_ms=1_000)
    return of_what_is_there(JobMachine(graph, config))


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_what_was_there_goes_through_all_tasks(mode: str) -> None:
    """Whoever looks at the tables after such a run expects there what was there before it."""
    job = chain(mode)
    tell(job, recorded(0), caught_up(A, 0), recorded(0, B, a=1), caught_up(B, 0, a=1))
    assert tell(job, recorded(0, C, b=1)) == ()
    assert tick(job, 3_600_000) == (), "however long that takes"
    assert job.handle(caught_up(C, 0, b=1)) == (c.SuspendTask(task=A),)
    assert tell(job, e.TaskSuspended(task=A, batch=0)) == (c.SuspendTask(task=B),)
    assert tick(job, 3_600_000) == ()
    assert tell(job, e.TaskSuspended(task=B, batch=0)) == (c.SuspendTask(task=C),)


def test_a_window_that_a_task_closes_late_is_read_by_those_that_had_caught_up() -> None:
    job = chain()
    tell(job, recorded(0), recorded(0, B, a=1), caught_up(B, 0, a=1), recorded(0, C, b=1), caught_up(C, 0, b=1))
    assert c.SuspendTask(task=A) not in tell(job, recorded(1), caught_up(A, 1)), "its last batch had no data"
    assert c.SuspendTask(task=A) not in tell(job, recorded(1, B, a=2), caught_up(B, 1, a=2))
    assert c.SuspendTask(task=A) in tell(job, recorded(1, C, b=2), caught_up(C, 1, b=2))


def test_what_comes_after_that_holds_no_one_up() -> None:
    """Timers, and streams that cannot be bound, make batches without end."""
    job = chain()
    tell(job, recorded(0), caught_up(A, 0), recorded(0, B, a=1), recorded(1), recorded(0, C))
    assert c.SuspendTask(task=A) not in tell(job, caught_up(B, 0, a=1))
    assert c.SuspendTask(task=A) in tell(job, recorded(1, C, b=1), recorded(2), caught_up(C, 1, b=1))


def test_all_of_a_task_that_has_finished_is_read() -> None:
    graph = graph_of(A, B, D, reads={"b": "a"})
    job = of_what_is_there(JobMachine(graph, Config(checkpoint_interval_ms=0)))
    tell(job, recorded(0), caught_up(D), caught_up(B, -1, a=0), sources_ended(A), e.TaskFinished(task=A, batch=0))
    assert job.state is JobState.RUNNING
    assert c.FinishTask(task=B, drain=False) in tell(job, recorded(0, B, a=1))
    assert c.SuspendTask(task=D) in tell(job, e.TaskFinished(task=B, batch=1))


def test_a_task_that_fails_has_to_catch_up_again() -> None:
    """What it had read then may be what it has failed of, and its query asks the sources anew."""
    job = available(A, B)
    tell(job, caught_up(A), failed(A))
    assert tick(job, DELAY_MS) == (c.StartTask(task=A),)
    tell(job, started(A))
    assert job.handle(caught_up(B)) == ()
    assert c.SuspendTask(task=A) in job.handle(caught_up(A))


def test_a_word_that_comes_late_from_a_query_that_has_died_counts_for_nothing() -> None:
    job = available(A, B)
    tell(job, failed(A), caught_up(A))
    assert job.handle(caught_up(B)) == ()
    assert statuses(job) == (TaskStatus.RESTARTING, TaskStatus.RUNNING)


def test_a_stop_whose_checkpoint_fails_is_tried_again_once_all_have_caught_up_again() -> None:
    job = available()
    tell(job, caught_up(), suspended(), taken(1))
    assert job.handle(e.ManifestFailed(checkpoint=1, detail="full"))[-1] == c.StartTask(task=A)
    assert job.state is JobState.RUNNING
    tell(job, started())
    assert c.SuspendTask(task=A) in job.handle(caught_up())


def test_where_no_checkpoint_may_follow_the_end_of_a_task_it_fails_and_does_not_try_for_ever() -> None:
    job = available(A, B, checkpoint_after_tasks_finish=False)
    tell(job, sources_ended(A), finished(A), checkpoint(), *done(1, A, B), closed(A))
    said = tell(job, caught_up(B), suspended(B))
    assert any(isinstance(one, c.RecordResult) and one.state == "FAILED" for one in said)


def test_one_who_asks_for_a_stop_meanwhile_is_answered_by_it() -> None:
    job = available()
    tell(job, caught_up(), stop("s1"), suspended(), taken(1), written(1), *done(1)[2:])
    tell(job, closed())
    assert c.AnswerRequest(request="s1", checkpoint=1) in job.handle(e.ResultRecorded())


def test_a_checkpoint_that_waits_is_refused_as_by_any_stop() -> None:
    job = available()
    tell(job, checkpoint("r1"), checkpoint("r2"))
    refused = ("CHECKPOINT_REFUSED", {"reason": "the job is stopping"})
    assert c.AnswerRequest(request="r2", error=refused) in job.handle(caught_up())


def test_it_may_be_drained() -> None:
    job = available()
    assert c.FinishTask(task=A, drain=True) in job.handle(stop(drain=True))
    assert job.handle(caught_up()) == ()
