"""What has happened: past-tense facts, the only things the protocol ever hears.

They carry no decision. Facts about a checkpoint that is no longer pending, repeated ones, and requests that were heard
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
    """What the storage says of a subtask when a driver starts."""

    #: it had finished and a completed checkpoint says so: it is not started again (FLIP-147, option 3)
    closed: bool = False
    #: it has finished its operator logic, but no completed checkpoint has seen that yet
    ended: bool = False
    #: a drain ended it, not the end of its inputs
    drained: bool = False
    #: what its end left unread or unflushed, in words
    notes: tuple[str, ...] = ()
    #: its last batch record, -1 for none
    batch: int = -1
    #: last batch that a checkpoint has named to be committed, or that was another run's to commit; -1 for none
    committed: int = -1
    #: producer → how many of its batches have been read, as of that record
    read: Mapping[SubtaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Event):
    """A driver has claimed a run and read the storage."""

    now_ms: int
    next_checkpoint: int = 1
    #: the newest checkpoint; its transactions may not all be committed yet
    latest_checkpoint: int | None = None
    #: it is known to be committed: nothing of it is left to do
    committed: bool = False
    tasks: Mapping[SubtaskId, RestoredTask] = field(default_factory=dict)
    #: a drain had begun and is to be carried through; follows also from any task that a drain has ended
    draining: bool = False
    #: how many engines in a row have died under this job in this process
    engine_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked(Event):
    """Time has passed. The only source of time: everything else happens at the last tick's `now_ms`.

    It is the driver's own time, no time of day. One that goes back changes nothing.
    """

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(Event):
    """Base of facts about one subtask."""

    task: SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(TaskEvent):
    """Its query is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecorded(TaskEvent):
    """A batch record is durable: its outputs will never change."""

    batch: int
    #: producer → how many of its batches have been read by now; channels that were not read may be left out
    read: Mapping[SubtaskId, int] = field(default_factory=dict)
    #: rows of its output, where they are counted: for people, and compared with nothing
    rows_out: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesEnded(TaskEvent):
    """Everything of every source chained into it is in a batch record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSuspended(TaskEvent):
    """Its query was held at a batch boundary; nothing was flushed (EndOfData[finished=false])."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(TaskEvent):
    """Its state was flushed, ``finish()`` of its sinks returned, and that is durable (EndOfData[finished=true])."""

    batch: int
    #: a drain ended it, not the end of its inputs
    drained: bool = False
    #: what was left unread or unflushed, in words
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClosed(TaskEvent):
    """Its query and its sinks are released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(TaskEvent):
    """Its query died, or an order to it could not be carried out."""

    reason: str
    #: nothing would be different the next time (bad input, a changed graph): do not restart
    permanent: bool = False
    #: code and parameters of the error that it was, where it has one
    error: tuple[str, dict[str, object]] | None = None
    #: where it was raised, for people
    trace: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken(TaskEvent):
    """A subtask acknowledged a checkpoint."""

    checkpoint: int
    #: last batch that belongs to it, -1 for none
    batch: int = -1
    #: it holds union-list state, which is whole only with that of all subtasks (FLIP-147, Operator state)
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
    #: each sink that had something to commit, and how long that took; for the history
    sink_commit_ms: tuple[tuple[str, int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A sink could not commit; the transactions stay prepared."""

    checkpoint: int
    detail: str
    #: nothing would be different the next time: do not try again
    permanent: bool = False
    #: code and parameters of the error that it was, where it has one
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSealed(Event):
    """The copy is whole: its manifest is written."""

    checkpoint: int
    path: str
    #: bytes of the copy
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointFailed(Event):
    """The copy could not be made."""

    checkpoint: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequested(Event):
    """A checkpoint was asked for, or (with `directory`) a savepoint."""

    request: str
    directory: str | None = None
    #: for a savepoint: whether what is in the channels is copied too, instead of waiting until it is read
    unaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The job was asked to stop (FLIP-45), or to drain."""

    request: str
    drain: bool = False
    #: where a savepoint of the same cut is to go; None: none
    directory: str | None = None
    #: whether what is in the channels is named, and copied, instead of waiting until it is read; not for a drain
    unaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """The job was asked to end now, without a checkpoint."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecorded(Event):
    """How the run ended is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDied(Event):
    """What runs the queries is gone, with all of them."""

    reason: str
    #: this process can make another
    replaceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFenced(Event):
    """A newer run of this job exists: this driver has lost its right to continue."""

    newer_run: int


ALL: tuple[type[Event], ...] = (
    JobStarted,
    Ticked,
    TaskStarted,
    BatchRecorded,
    SourcesEnded,
    TaskSuspended,
    TaskFinished,
    TaskClosed,
    TaskFailed,
    SnapshotTaken,
    SnapshotDeclined,
    ManifestWritten,
    ManifestFailed,
    TransactionsCommitted,
    CommitFailed,
    SavepointSealed,
    SavepointFailed,
    CheckpointRequested,
    StopRequested,
    CancelRequested,
    ResultRecorded,
    EngineDied,
    DriverFenced,
)
"""Every event there is."""
