"""How tasks and jobs end: the small records that `job` and `tasks` keep of it. No rules in here."""

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
class Stop:
    """A stop or drain in force."""

    drain: bool
    begun_ms: int = 0
    #: a plain stop that names what is in the channels instead of waiting until it is read
    unaligned: bool = False
    directory: str | None = None
    #: requests to answer; none where a drain is carried through after a crash
    requests: list[str] = field(default_factory=list)
    savepoint: str | None = None
    #: whether its checkpoint has settled, with the savepoint or without
    settled: bool = False
    #: why there is no savepoint, if the job ends without the one that was asked for
    savepoint_failure: str = "every task had ended before it could be taken"

    def may_overtake(self, now_ms: int, limit_ms: int) -> bool:
        """Whether what is in the channels need not be read any more: as of an aligned checkpoint, its time is up."""
        plain = not self.drain and self.directory is None
        return plain and not self.unaligned and 0 < limit_ms <= now_ms - self.begun_ms

    def overtake(self) -> None:
        """Name what is in the channels instead of waiting until it is read."""
        self.unaligned = True

    def settle(self, savepoint: str | None, failure: str) -> None:
        """Note what came of its checkpoint: the savepoint, or why there is none."""
        self.savepoint, self.savepoint_failure, self.settled = savepoint, failure, True

    @property
    def waits_for_savepoint(self) -> bool:
        """Return True if the job runs until the checkpoint that makes the savepoint has settled."""
        return self.directory is not None and not self.settled

    @property
    def owes_savepoint(self) -> bool:
        """Whether one was asked for and has not been made."""
        return self.directory is not None and self.savepoint is None


def final_state(ends: set[Ended | None]) -> JobState:
    """What a job is called whose tasks ended in these ways."""
    worst = next(how for how in reversed(Ended) if how in ends)
    return worst.value
