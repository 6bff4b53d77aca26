"""Check that nothing which waits for a time waits for longer, by true time, whatever the machine's clock does.

What the protocol waits for by time is a table: a periodic checkpoint, another try at a commit, the restart of a task,
the expiry of a checkpoint. Of each, the settings say how long it may take at most. A `Punctuality` looks at the job
each time when that has heard of time, and knows how much has really passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rekindle.config import Config
from rekindle.protocol.job import JobMachine
from rekindle.protocol.pending_checkpoint import Phase
from rekindle.protocol.states import JobState, TaskStatus

BOUND_MS = 15_000
"""The delay allowed beyond what the settings say: the longest tick, and what each setting of a clock may take of it."""


class Wait(NamedTuple):
    """Something that waits for nothing but a time."""

    name: str
    #: changes when it begins to wait again
    since: object
    most_ms: int


class Punctuality:
    """A watcher of one run of a job."""

    def __init__(self, job: JobMachine, config: Config) -> None:
        self._job, self._config = job, config
        #: wait → true time when it was first seen
        self._seen: dict[Wait, int] = {}

    def late(self, true_ms: int) -> Iterator[str]:
        """Return what has waited for too long, in words."""
        self._seen = {wait: self._seen.get(wait, true_ms) for wait in _waits(self._job, self._config)}
        for wait, since_ms in self._seen.items():
            if true_ms - since_ms > wait.most_ms + BOUND_MS:
                yield f"times_are_kept: {wait.name} waits for more than {wait.most_ms} ms"


def _waits(job: JobMachine, config: Config) -> Iterator[Wait]:
    coordinator = job.coordinator
    if job.state.terminal or job.exited:
        return
    for task, state in job.tasks.states.items():
        if state.status is TaskStatus.RESTARTING:
            failures = (state.restarts.granted, coordinator.settlement.failures.restarts.granted)
            yield Wait(f"the restart of {task}", failures, config.restart_delay_max_ms)
    if coordinator.settlement.commits.again_ms is not None:
        yield Wait("a commit", coordinator.settlement.commits.again_ms, config.restart_delay_max_ms)
    for number, pending in coordinator.pending.items():
        if pending.phase is Phase.ACKNOWLEDGING:
            yield Wait(f"the expiry of checkpoint {number}", number, config.checkpoint_timeout_ms)
    running = all(state.status is TaskStatus.RUNNING for state in job.tasks.states.values())
    plain = job.state is JobState.RUNNING and job.stopping.stop is None and job.engines.lost is None
    interval_ms = coordinator.schedule.periodic.interval_ms
    if running and plain and interval_ms and not coordinator.busy:
        most_ms = max(interval_ms, config.checkpoint_min_pause_ms)
        if coordinator.schedule.periodic.due_ms == coordinator.schedule.not_before_ms:
            most_ms = config.restart_delay_max_ms  # too many have failed
        yield Wait("the next checkpoint", coordinator.schedule.periodic.due_ms, most_ms)
