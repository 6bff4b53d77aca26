"""While a history is read that a live stream continues, periodic checkpoints may have an interval of their own."""

from __future__ import annotations

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from tests.protocol.kit import A, B, done, failed, finished, recorded, running, sources_ended, tell, tick


def job_of(during_ms: int | None, **config: int) -> JobMachine:
    settings = {"checkpoint_interval_ms": 1_000, "checkpoint_interval_during_backlog_ms": during_ms, **config}
    return running(A, B, **settings)


def behind(batch: int, task: SubtaskId = A) -> e.Event:
    """A batch after which the history is not read to its end."""
    return e.BatchRecorded(task=task, batch=batch, backlog=True)


def taken(said: tuple[c.Command, ...]) -> bool:
    return any(isinstance(one, c.TakeSnapshot) for one in said)


def test_the_interval_of_the_backlog_holds_until_no_task_is_in_it() -> None:
    job = job_of(60_000)
    tell(job, behind(0), behind(0, B))
    assert not taken(tick(job, 59_999))
    assert taken(tick(job, 1))
    tell(job, *done(1, A, B), recorded(1), behind(1, B))
    assert not taken(tick(job, 59_999)), "B is in it"
    assert taken(job.handle(recorded(2, B))), "it is counted from the last checkpoint"


def test_an_interval_of_zero_takes_none_in_the_backlog() -> None:
    job = job_of(0)
    job.handle(behind(0))
    assert not taken(tick(job, 10**9))
    assert taken(job.handle(recorded(1)))


def test_the_backlog_may_have_checkpoints_where_there_are_none_later() -> None:
    job = job_of(500, checkpoint_interval_ms=0)
    assert not taken(tick(job, 10**6))
    assert taken(job.handle(behind(0)))
    tell(job, *done(1, A, B), recorded(1))
    assert not taken(tick(job, 10**6))


def test_it_begins_with_the_start_of_a_task() -> None:
    job = job_of(0)
    tell(job, failed(), e.Ticked(now_ms=job.now_ms + 10_000), e.TaskStarted(task=A, backlog=True))
    assert not taken(tick(job, 10**6))


def test_without_an_interval_of_its_own_nothing_changes() -> None:
    job = job_of(None)
    job.handle(behind(0))
    assert not taken(tick(job, 999))
    assert taken(tick(job, 1))


@pytest.mark.parametrize("during_ms", [0, 60_000])
def test_the_pause_after_a_checkpoint_is_kept(during_ms: int) -> None:
    job = job_of(during_ms, checkpoint_min_pause_ms=5_000)
    assert taken(tick(job, 1_000))
    tell(job, *done(1, A, B), behind(0))
    assert not taken(tick(job, 4_999))
    assert not taken(job.handle(recorded(1)))
    assert taken(tick(job, 1))


def test_a_task_that_ends_in_its_backlog_holds_nothing_back() -> None:
    job = job_of(0)
    tell(job, behind(0), sources_ended(A))
    assert not taken(tick(job, 10**6))
    assert taken(job.handle(finished(A)))
