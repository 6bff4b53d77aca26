"""How tasks and jobs end: the small records that are kept of it. No rules in here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import JobState, TaskStatus

#: code and parameters of an error that is reported
Error = tuple[str, dict[str, object]]


class Ended(Enum):
    """How a task ended its data; the worst of them, which comes last here, names the job's end."""

    FINISHED = JobState.FINISHED
    DRAINED = JobState.DRAINED
    SUSPENDED = JobState.STOPPED


@dataclass(slots=True, kw_only=True)
class TaskState:
    """What the job knows of a subtask."""

    status: TaskStatus
    #: whether sources are chained into it
    has_sources: bool = True
    #: everything of them is in a batch record
    sources_ended: bool = False
    #: a completed checkpoint with new batches is progress
    restarts: Restarts
    #: last batch that a checkpoint of this run has covered
    checkpointed: int = -1
    #: when it is started again
    restart_ms: int | None = None
    #: set once it has ended its data
    ended: Ended | None = None
    #: first checkpoint whose snapshot of it was taken after its end
    final_from: int | None = None
    #: whether such a checkpoint is complete
    covered: bool = False

    def end(self, how: Ended) -> None:
        """Note how it has ended its data; it waits for no restart any more."""
        self.ended, self.restart_ms = how, None


@dataclass(slots=True, kw_only=True)
class AskedSavepoint:
    """The savepoint that a stop was asked for."""

    directory: str
    #: where it is; None while it is not made, and for good where it could not be
    path: str | None = None
    #: why there is none, if the job ends without it
    failure: str = "every task had ended before it could be taken"
    #: whether its checkpoint has settled, with the savepoint or without
    settled: bool = False

    def settle(self, path: str | None, failure: str) -> None:
        """Note what came of it: where it is, or why there is none."""
        self.path, self.failure, self.settled = path, failure, True


@dataclass(slots=True, kw_only=True)
class Stop:
    """A stop or drain in force."""

    drain: bool
    #: when what is in the channels need not be read any more; None: it is always read
    overtake_ms: int | None = None
    #: a plain stop that names what is in the channels instead of waiting until it is read
    unaligned: bool = False
    savepoint: AskedSavepoint | None = None
    #: requests to answer; none where a drain is carried through after a crash
    requests: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether it neither flushes nor makes a savepoint: each task may be held where it is."""
        return not self.drain and self.savepoint is None

    @property
    def waits_for_savepoint(self) -> bool:
        """Return True if the job runs until the checkpoint that makes the savepoint has settled."""
        return self.savepoint is not None and not self.savepoint.settled

    def may_overtake(self, now_ms: int) -> bool:
        """Whether what is in the channels need not be read any more: as of an aligned checkpoint, its time is up."""
        due = self.overtake_ms is not None and now_ms >= self.overtake_ms
        return self.plain and not self.unaligned and due

    def overtake(self) -> None:
        """Name what is in the channels instead of waiting until it is read."""
        self.unaligned = True

    def join(self, request: str, *, unaligned: bool) -> None:
        """Answer another request, too."""
        self.requests.append(request)
        self.unaligned |= unaligned and not self.drain


def final_state(ends: set[Ended | None]) -> JobState:
    """What a job is called whose tasks ended in these ways."""
    worst = next(how for how in reversed(Ended) if how in ends)
    return worst.value
