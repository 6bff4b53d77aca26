"""Events: facts in the past tense, the only input of the protocol.

They carry no decision. Facts about a checkpoint that is no longer pending, repeated facts, and requests that were heard
before are legal and change nothing: messages may come late or twice. Facts about one task come in the order in which
they happened, except that the death of a query may be noticed late, and twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTask:
    """The state of a subtask in the storage when a driver starts."""

    #: True if it had finished and a completed checkpoint says so: it is not started again (FLIP-147, option 3)
    closed: bool = False
    #: True if it has finished its operator logic, but no completed checkpoint covers that yet
    ended: bool = False
    #: True if a drain ended it, not the end of its inputs
    drained: bool = False
    #: sentences on data that its end left unread or unflushed
    notes: tuple[str, ...] = ()
    #: number of its last batch record, -1 for none
    batch: int = -1
    #: last batch that a checkpoint has named to be committed, or that another run commits; -1 for none
    committed: int = -1
    #: producer → number of its batches that have been read, as of that batch record
    read: Mapping[SubtaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Event):
    """A driver has claimed a run and read the storage."""

    now_ms: int
    next_checkpoint: int = 1
    #: the newest checkpoint; its transactions may not all be committed yet
    latest_checkpoint: int | None = None
    #: True if it is known to be committed: nothing of it is left to do
    committed: bool = False
    tasks: Mapping[SubtaskId, RestoredTask] = field(default_factory=dict)
    #: True if a drain had begun and is to be carried through; any task that a drain has ended implies it, too
    draining: bool = False
    #: number of engines in a row that have died under this job in this process
    engine_failures: int = 0
    #: True if the run stops by itself once its sources have caught up with what is there
    available_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked(Event):
    """Time has passed. The only source of time: everything else happens at the last tick's `now_ms`.

    It is the driver's own time, not the time of day. A tick with an earlier time changes nothing.
    """

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(Event):
    """Base of facts about one subtask."""

    task: SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(TaskEvent):
    """The query of the task runs."""

    #: True if it is in backlog, see `BatchRecorded`
    backlog: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecorded(TaskEvent):
    """A batch record is durable: its outputs will never change."""

    batch: int
    #: producer → number of its batches that have been read by now; channels that were not read may be left out
    read: Mapping[SubtaskId, int] = field(default_factory=dict)
    #: number of rows of its output; None: they are not counted
    rows_out: int | None = field(default=None, compare=False)
    #: True while the task is in backlog: it still reads a history, and reads a live stream beside or after it
    backlog: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesEnded(TaskEvent):
    """Everything of every source chained into the task is in a batch record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp(TaskEvent):
    """The task has nothing left to do with what was there for it: its query waits for more.

    All that its sources had when it was started, and all that it was allowed to read of its channels, is in batch
    records, and so is what follows from that: the rows of windows that are over. Reported only in a run of what is
    available now; again, each time that it has read more of its channels since.
    """

    #: the last batch by then
    batch: int
    #: producer → number of its batches that had been read by then
    read: Mapping[SubtaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSuspended(TaskEvent):
    """The query was held at a batch boundary; nothing was flushed (EndOfData[finished=false])."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(TaskEvent):
    """The state was flushed, ``finish()`` of the sinks returned, and that is durable (EndOfData[finished=true])."""

    batch: int
    #: True if a drain ended it, not the end of its inputs
    drained: bool = False
    #: sentences on data that was left unread or unflushed
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClosed(TaskEvent):
    """The query and the sinks of the task are released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(TaskEvent):
    """The query of the task died, or an order to the task could not be carried out."""

    reason: str
    #: True if a restart would fail in the same way (bad input, a changed graph): do not restart
    permanent: bool = False
    #: code and parameters of the error; None: it has no code
    error: tuple[str, dict[str, object]] | None = None
    #: stack trace, for people
    trace: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken(TaskEvent):
    """A subtask acknowledged a checkpoint."""

    checkpoint: int
    #: last batch that belongs to the snapshot, -1 for none
    batch: int = -1
    #: True if it holds union-list state, which is whole only with that of all subtasks (FLIP-147, Operator state)
    uses_union: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDeclined(TaskEvent):
    """A subtask could not take its snapshot."""

    checkpoint: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWritten(Event):
    """The checkpoint is complete: its manifest exists."""

    checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFailed(Event):
    """The manifest could not be written."""

    checkpoint: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsCommitted(Event):
    """Every sink has committed what the checkpoint's manifest names."""

    checkpoint: int
    #: each sink that had something to commit, and the time it took, ms; for the history
    sink_commit_ms: tuple[tuple[str, int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A sink could not commit; the transactions stay prepared."""

    checkpoint: int
    detail: str
    #: True if another try would fail in the same way: do not try again
    permanent: bool = False
    #: code and parameters of the error; None: it has no code
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSealed(Event):
    """The copy for a savepoint is whole: its manifest is written."""

    checkpoint: int
    path: str
    #: size of the copy in bytes
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointFailed(Event):
    """The copy for a savepoint could not be made."""

    checkpoint: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequested(Event):
    """A checkpoint was asked for, or (with `directory`) a savepoint."""

    request: str
    directory: str | None = None
    #: for a savepoint: True to copy the data in the channels, too, instead of waiting until it is read
    unaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The job was asked to stop (FLIP-45), or to drain."""

    request: str
    drain: bool = False
    #: folder for a savepoint of the same cut; None: no savepoint is made
    directory: str | None = None
    #: True to name and copy the data in the channels, instead of waiting until it is read; not for a drain
    unaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """The job was asked to end now, without a checkpoint."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecorded(Event):
    """The result of the run is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDied(Event):
    """The engine is gone, with all of its queries."""

    reason: str
    #: True if this process can make another
    replaceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFenced(Event):
    """A newer run of this job exists: this driver has lost its right to continue."""

    newer_run: int


ALL: tuple[type[Event], ...] = (
    JobStarted, Ticked,
    TaskStarted, BatchRecorded, SourcesEnded, CaughtUp, TaskSuspended, TaskFinished, TaskClosed, TaskFailed,
    SnapshotTaken, SnapshotDeclined, ManifestWritten, ManifestFailed, TransactionsCommitted, CommitFailed,
    SavepointSealed, SavepointFailed,
    CheckpointRequested, StopRequested, CancelRequested,
    ResultRecorded, EngineDied, DriverFenced,
)  # fmt: skip
"""Every kind of event."""
