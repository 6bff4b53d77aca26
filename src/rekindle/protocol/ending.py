"""Records of how tasks and jobs end. This module has no rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rekindle.protocol.events import CaughtUp
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import JobState, TaskStatus

#: code and parameters of an error that is reported
Error = tuple[str, dict[str, object]]


class Ended(Enum):
    """The way a task ended its data. The worst of all tasks, which comes last here, names the end of the job."""

    FINISHED = JobState.FINISHED
    DRAINED = JobState.DRAINED
    SUSPENDED = JobState.STOPPED


@dataclass(slots=True, kw_only=True)
class TaskState:
    """The state of a subtask in the protocol."""

    status: TaskStatus
    #: True if sources are chained into it
    has_sources: bool = True
    #: True if its rows go to a sink
    has_sinks: bool = False
    #: True once everything of its sources is in a batch record
    sources_ended: bool = False
    #: the last word of its query that it has caught up; None: there is none
    caught_up: CaughtUp | None = None
    #: its failures in a row; a completed checkpoint with new batches is progress
    restarts: Restarts
    #: a checkpoint is progress if it covers a later batch: this one was covered before, or recorded before a failure
    progress_after: int = -1
    #: time at which it is started again; None: it waits for no restart
    restart_ms: int | None = None
    #: the way it has ended its data; None: it has not
    ended: Ended | None = None
    #: first checkpoint whose snapshot of it was taken after its end; None: none yet
    final_from: int | None = None
    #: True once a checkpoint from `final_from` on is complete
    covered: bool = False

    def catch_up(self, word: CaughtUp) -> None:
        """Note that it has caught up; the word of a query that has failed meanwhile counts for nothing."""
        if self.status in (TaskStatus.STARTING, TaskStatus.RUNNING):
            self.caught_up = word

    def end(self, how: Ended) -> None:
        """Note how the subtask has ended its data; it waits for no restart any more."""
        self.ended, self.restart_ms = how, None


@dataclass(slots=True, kw_only=True)
class AskedSavepoint:
    """The savepoint that a stop was asked for."""

    directory: str
    #: path where it is; None: it is not made yet, or could not be made
    path: str | None = None
    #: reason in words, if the job ends without it
    failure: str = "every task had ended before it could be taken"
    #: True once its checkpoint has settled, with the savepoint or without
    settled: bool = False

    def settle(self, path: str | None, failure: str) -> None:
        """Note the path of the savepoint, or why there is none."""
        self.path, self.failure, self.settled = path, failure, True


@dataclass(slots=True, kw_only=True)
class Stop:
    """A stop or drain in force."""

    drain: bool
    #: time from which data in the channels need not be read any more; None: it is always read
    overtake_ms: int | None = None
    #: True if its checkpoint names the data in the channels instead of waiting until it is read
    unaligned: bool = False
    savepoint: AskedSavepoint | None = None
    #: requests to answer; empty if a drain is carried through after a crash
    requests: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Return whether the stop neither flushes nor makes a savepoint: each task may be held where it is."""
        return not self.drain and self.savepoint is None

    @property
    def waits_for_savepoint(self) -> bool:
        """Return True if the job runs until the checkpoint that makes the savepoint has settled."""
        return self.savepoint is not None and not self.savepoint.settled

    def may_overtake(self, now_ms: int) -> bool:
        """Return whether a plain, aligned stop has used up its time: data in the channels need not be read any more."""
        due = self.overtake_ms is not None and now_ms >= self.overtake_ms
        return self.plain and not self.unaligned and due

    def overtake(self) -> None:
        """Let the checkpoint name the data in the channels, instead of waiting until it is read."""
        self.unaligned = True

    def join(self, request: str, *, unaligned: bool) -> None:
        """Answer another request, too."""
        self.requests.append(request)
        self.unaligned |= unaligned and not self.drain


def final_state(ends: set[Ended | None]) -> JobState:
    """Return the state of a job whose tasks ended in these ways."""
    worst = next(how for how in reversed(Ended) if how in ends)
    return worst.value
