"""The stop in force: at most one stop or drain at a time; requests for the same one wait for it together.

The effects of a stop on tasks and checkpoints are decided in `rules`, the answers at the end in `answers`.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import AskedSavepoint, Error, Stop


class Stopping:
    """The stop or drain of one job, if one is in force."""

    def __init__(self, name: str, config: Config) -> None:
        self._name = name
        self._aligned_timeout_ms = config.checkpoint_aligned_timeout_ms
        #: the stop or drain in force; None: there is none
        self.stop: Stop | None = None
        #: True if the run stops by itself once its sources have caught up with what is there
        self.available_now = False

    def begin_run(self, *, available_now: bool) -> None:
        """Take in whether the run stops by itself."""
        self.available_now = available_now

    def begin(self, event: e.StopRequested, *, unaligned: bool, now_ms: int) -> Stop:
        """Put a stop into force; `unaligned`: True if the checkpoints of the job are unaligned by default."""
        in_its_mode = unaligned and event.directory is None
        self.stop = Stop(
            drain=event.drain,
            overtake_ms=now_ms + self._aligned_timeout_ms if self._aligned_timeout_ms else None,
            unaligned=(in_its_mode or event.unaligned) and not event.drain,
            savepoint=None if event.directory is None else AskedSavepoint(directory=event.directory),
            requests=[event.request],
        )
        return self.stop

    def begin_by_itself(self) -> Stop:
        """Put a stop into force that no one has asked for: its data is read by all tasks, however long that takes."""
        self.stop = Stop(drain=False)
        return self.stop

    def carry_through(self) -> None:
        """Put a drain into force that an earlier run has begun: its flush cannot be taken back."""
        self.stop = Stop(drain=True)

    def is_other(self, event: e.StopRequested) -> bool:
        """Return True if a stop is in force that differs from the requested one."""
        stop = self.stop
        if stop is None:
            return False
        directory = stop.savepoint.directory if stop.savepoint else None
        return stop.drain != event.drain or event.directory not in (None, directory)

    def failing(self, task: SubtaskId, reason: str) -> tuple[c.AnswerRequest, ...]:
        """Answer the requests for a drain that a task fails again and again; the drain stays in force."""
        stop = self.stop
        if stop is None or not stop.drain:
            return ()
        requests, stop.requests = stop.requests, []
        error: Error = ("DRAIN_FAILING", {"job": self._name, "task": str(task), "reason": reason})
        return tuple(c.AnswerRequest(request=request, error=error) for request in requests)

    def give_up(self, stop: Stop, reason: str) -> tuple[c.AnswerRequest, ...]:
        """End the stop in force; return the answers to the requests for it."""
        self.stop = None
        error: Error = ("STOP_FAILED", {"job": self._name, "reason": reason})
        return tuple(c.AnswerRequest(request=request, error=error) for request in stop.requests)
