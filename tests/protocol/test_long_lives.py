"""A job that is left alone for weeks: what the protocol remembers of it does not grow."""

from __future__ import annotations

import pickle

from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.requests import REMEMBERED
from tests.protocol.kit import (
    A,
    B,
    checkpoint,
    closed,
    committed,
    declined,
    finished,
    running,
    sealed,
    sources_ended,
    taken,
    tell,
    tick,
    written,
)


def live_on(job: JobMachine, first: int, last: int) -> None:
    """Batches, requests, savepoints and checkpoints, some of which fail."""
    for number in range(first, last):
        tick(job, 1_000)
        for task in (A, B):
            tell(job, e.BatchRecorded(task=task, batch=number))
        new = job.coordinator.next_number
        tell(job, checkpoint(f"r{number}", "saves" if number % 50 == 0 else None))
        if number % 7 == 0:
            assert tell(job, declined(new)), "it was pending"
            continue
        tell(job, taken(new, A), taken(new, B), written(new))
        assert tell(job, committed(new)), "it was complete"
        if number % 50 == 0:
            tell(job, sealed(new))


def test_the_protocol_forgets_what_is_over() -> None:
    job = running(A, B, checkpoint_tolerable_failures=2)
    live_on(job, 0, REMEMBERED + 500)
    size = len(pickle.dumps(job))
    live_on(job, REMEMBERED + 500, 2 * REMEMBERED + 500)
    assert len(pickle.dumps(job)) < 1.05 * size


def test_a_task_that_is_closed_remembers_no_checkpoints_that_have_failed_since() -> None:
    job = running(A, B, checkpoint_tolerable_failures=10_000)
    tell(job, sources_ended(B), finished(B))
    tell(job, checkpoint(), taken(1, A), taken(1, B), written(1), committed(1), closed(B))

    def fail(first: int, last: int) -> int:
        for number in range(first, last):
            new = job.coordinator.next_number
            assert tell(job, checkpoint(f"f{number}"), declined(new), checkpoint(f"g{number}"))
            assert tell(job, taken(new + 1, A), written(new + 1), committed(new + 1))
        return len(pickle.dumps(job))

    size = fail(0, REMEMBERED)
    assert fail(REMEMBERED, 3 * REMEMBERED) < 1.05 * size


def test_a_request_that_is_delivered_again_much_later_is_still_known() -> None:
    job = running(A, B, checkpoint_tolerable_failures=2)
    live_on(job, 0, REMEMBERED - 1)
    assert tell(job, checkpoint("r5")) == ()
