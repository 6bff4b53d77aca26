"""A periodic checkpoint that would say what the newest one says is left out; whatever changes brings the next."""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from tests.protocol.kit import (
    A,
    B,
    checkpoint,
    declined,
    done,
    finished,
    graph_of,
    recorded,
    running,
    sealed,
    snapshot,
    sources_ended,
    started,
    tell,
    tick,
)

EVERY_MS = 1_000


def test_one_that_would_say_what_the_last_one_says_is_left_out() -> None:
    job = running(checkpoint_interval_ms=EVERY_MS)
    tell(job, e.Ticked(now_ms=1_000), *done(1))
    completed = job.coordinator.settlement.completed
    assert completed.confirmed_ms is None
    for second in (2, 3, 4):
        assert job.handle(e.Ticked(now_ms=1_000 * second)) == ()
        assert completed.confirmed_ms == 1_000 * second
    job.handle(recorded(0))
    assert tick(job, 999) == ()  # they keep their rhythm
    assert tick(job, 1) == snapshot(2, batch=0)
    tell(job, *done(2))
    assert completed.confirmed_ms is None
    assert tick(job, 10_000) == ()


def test_what_was_recorded_while_one_was_taken_is_in_the_next() -> None:
    job = running(checkpoint_interval_ms=EVERY_MS)
    assert tick(job, 1_000) == snapshot(1)
    tell(job, recorded(0), *done(1))
    assert tick(job, 1_000) == snapshot(2, batch=0)


def both(job: JobMachine, number: int) -> None:
    """The next periodic checkpoint comes when it is due, of both tasks."""
    ordered = [command for command in tick(job, EVERY_MS) if isinstance(command, c.TakeSnapshot)]
    assert [(one.task, one.checkpoint) for one in ordered] == [(A, number), (B, number)]
    tell(job, *done(number, A, B))


def test_one_is_taken_where_only_the_place_in_a_channel_has_changed() -> None:
    job = JobMachine(graph_of(A, B, reads={"b": "a"}), Config(checkpoint_interval_ms=EVERY_MS))
    tell(job, e.JobStarted(now_ms=0), started(A), started(B), recorded(0))
    both(job, 1)
    assert tick(job, EVERY_MS) == ()
    job.handle(recorded(-1, B, a=1))  # what the channel held had nothing for it
    both(job, 2)
    assert tick(job, EVERY_MS) == ()


def test_one_is_taken_where_a_task_has_ended_without_another_batch() -> None:
    job = running(A, B, checkpoint_interval_ms=EVERY_MS)
    both(job, 1)
    tell(job, sources_ended(), finished())
    both(job, 2)


def test_what_is_asked_for_is_taken_though_nothing_has_changed() -> None:
    job = running(checkpoint_interval_ms=EVERY_MS)
    tell(job, checkpoint(), *done(1))
    assert job.handle(checkpoint("r2")) == snapshot(2)
    tell(job, *done(2))
    assert job.handle(checkpoint("s", "/save")) == snapshot(3)
    tell(job, *done(3), sealed(3))
    assert tick(job, 1_000) == ()


def test_the_first_of_a_run_is_taken() -> None:
    job = JobMachine(graph_of(A), Config(checkpoint_interval_ms=EVERY_MS))
    tell(job, e.JobStarted(now_ms=0, next_checkpoint=8, latest_checkpoint=7, committed=True), started())
    assert tick(job, 1_000) == snapshot(8)


def test_one_that_failed_is_tried_again_though_nothing_has_changed_since() -> None:
    job = running(checkpoint_interval_ms=EVERY_MS, checkpoint_tolerable_failures=9)
    tell(job, e.Ticked(now_ms=1_000), *done(1), recorded(0))
    assert tick(job, 1_000) == snapshot(2, batch=0)
    job.handle(declined(2))
    assert tick(job, 1_000) == snapshot(3, batch=0)


def test_one_that_is_committed_after_a_later_one_does_not_take_back_what_that_has_covered() -> None:
    job = running(A, B, checkpoint_interval_ms=EVERY_MS, checkpoint_max_concurrent=2, checkpoint_mode="aligned")
    tell(job, checkpoint("s", "/save"), recorded(0))
    assert tick(job, EVERY_MS) != ()
    tell(job, *done(2, A, B), *done(1, A, B), sealed(1))
    assert job.coordinator.settlement.completed.latest == 2
    assert tick(job, EVERY_MS) == ()
