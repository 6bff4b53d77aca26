"""A job that is left alone for weeks: what the protocol remembers of it does not grow."""

from __future__ import annotations

import pickle

from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.requests import REMEMBERED
from tests.protocol.kit import A, B, checkpoint, committed, declined, running, sealed, taken, tell, tick, written


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


def test_a_request_that_is_delivered_again_much_later_is_still_known() -> None:
    job = running(A, B, checkpoint_tolerable_failures=2)
    live_on(job, 0, REMEMBERED - 1)
    assert tell(job, checkpoint("r5")) == ()
