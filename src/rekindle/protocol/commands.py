"""What is to be done: imperatives, executed in the order in which they were returned.

A crash may fall before, between and after any two. What a command must have made durable before the next one runs is
said on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.reasons import CheckpointKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Base of all commands."""

    #: number of the event that led to it, as in the story
    cause: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommand(Command):
    """Base of orders to one subtask. They are carried out one after the other, except `AllowReading`,
    `TakeSnapshot` and `KillTask`, which need not wait."""

    task: SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask(TaskCommand):
    """Start its query from its last batch record → `TaskStarted` or `TaskFailed`.

    A query of it that still runs is stopped first: its death may have been reported too early. Where its end is durable
    by now (a death was reported while it was finishing), or all its sources have ended and it reads no channel, nothing
    is started → `SourcesEnded` or `TaskFinished`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSources(TaskCommand):
    """Give it nothing more of the sources chained into it; its channels are read on. No answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowReading(TaskCommand):
    """Let it read the channel from `producer` up to a place: that many of the producer's batches. No answer."""

    producer: SubtaskId
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTask(TaskCommand):
    """Hold its query at a batch boundary, whether it runs or not → `TaskSuspended` or `TaskFailed`.

    Harmless on a task that is held already or whose end is durable.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTask(TaskCommand):
    """Hold its query, flush its state, call ``finish()`` on its sinks → `TaskFinished` or `TaskFailed`.

    With `drain`, that a drain has begun is made durable before anything is flushed: after a crash it is carried
    through. Where its end is durable already → `TaskFinished` at once.
    """

    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseTask(TaskCommand):
    """Release its query and its sinks → `TaskClosed` or `TaskFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTask(TaskCommand):
    """Interrupt its query, wait for nothing. No answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot(TaskCommand):
    """Snapshot it after a batch that is recorded, once Spark has committed that → `SnapshotTaken` or
    `SnapshotDeclined`."""

    checkpoint: int
    #: last batch that belongs to it, -1 for none
    batch: int
    #: producer → places in its channel: from where it has read up to the barrier, in flight
    in_flight: Mapping[SubtaskId, tuple[int, int]] = field(default_factory=dict)
    #: producer → how many of its batches need not be read any more: more than the batch's record says where those that
    #: followed put nothing into the channel
    read: Mapping[SubtaskId, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteManifest(Command):
    """Make the checkpoint complete: create its manifest → `ManifestWritten` or `ManifestFailed`."""

    checkpoint: int
    kind: CheckpointKind
    triggered_ms: int
    #: subtasks that had finished before it was triggered (FLIP-147), stored without state
    finished: tuple[SubtaskId, ...]
    #: subtask → its first and last batch whose transactions it names
    transactions: Mapping[SubtaskId, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTransactions(Command):
    """Let every sink commit what the manifest names; the manifest must be durable → `TransactionsCommitted` or
    `CommitFailed`."""

    permit: CommitPermit


@dataclass(frozen=True, slots=True, kw_only=True)
class SealSavepoint(Command):
    """Copy what the checkpoint names into `directory` → `SavepointSealed` or `SavepointFailed`.

    Comes after `TransactionsCommitted`, so that the copy names no pending transaction. Checkpoints and commits continue
    meanwhile; until one of the two events has come, each `DiscardOlder` pins the checkpoint.
    """

    checkpoint: int
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCheckpoint(Command):
    """Forget what was gathered for a checkpoint that failed; its files, if any, are orphans."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardOlder(Command):
    """Delete what only checkpoints beyond the retained ones need. Looks at the fence first.

    It may be carried out late, or only the last of several; never one that a later one has replaced.
    """

    #: at least 1: the newest one is what the job resumes from (FLIP-45)
    keep: int
    #: checkpoints that are kept beside those: savepoints are made of them
    pinned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult(Command):
    """Make durable how the run ended → `ResultRecorded`. Answers come only after that."""

    state: str
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    #: code and parameters of the error, for FAILED
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest(Command):
    """Answer a request. What the answer says is durable by now."""

    request: str
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFailure(Command):
    """Show a failure that the job lives through, and that no other command or event tells."""

    #: code and parameters
    error: tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOver(Command):
    """Leave this run, without a result, to the next one of this process, which has another engine.

    Requests that have no answer are heard again there.
    """

    reason: str
    #: engines that have died in a row, for `JobStarted.engine_failures`
    failures: int
    #: pause before the next one is made
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Command):
    """The run is over: leave the loop. Writes nothing."""
