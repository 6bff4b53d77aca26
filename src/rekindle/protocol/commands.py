"""Commands: the actions that the protocol orders, executed in the order in which it returned them.

A crash may fall before, between and after any two. The docstring of a command says what it must have made durable
before the next one runs.
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

    #: number of the event that caused it, as in the story
    cause: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommand(Command):
    """Base of orders to one subtask. They are carried out one after the other, except `AllowReading`,
    `TakeSnapshot` and `KillTask`, which need not wait."""

    task: SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask(TaskCommand):
    """Start its query from its last batch record → `TaskStarted` or `TaskFailed`.

    A query of the task that still runs is stopped first: its death may have been reported too early. If the end of the
    task is durable by now (a death was reported while it was finishing), or all its sources have ended and it reads no
    channel, nothing is started → `SourcesEnded` or `TaskFinished`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSources(TaskCommand):
    """Stop reading the sources chained into the task; it continues to read its channels. No answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowReading(TaskCommand):
    """Let the task read the channel from `producer` up to a place: that many of the producer's batches. No answer."""

    producer: SubtaskId
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTask(TaskCommand):
    """Hold the query of the task at a batch boundary, whether it runs or not → `TaskSuspended` or `TaskFailed`.

    A task that is held already, or whose end is durable, stays unchanged.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTask(TaskCommand):
    """Hold the query, flush its state, call ``finish()`` on the sinks → `TaskFinished` or `TaskFailed`.

    With `drain`, the beginning of the drain is made durable before anything is flushed: after a crash it is carried
    through. If the end of the task is durable already → `TaskFinished` at once.
    """

    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseTask(TaskCommand):
    """Release the query and the sinks of the task → `TaskClosed` or `TaskFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTask(TaskCommand):
    """Interrupt the query of the task, and wait for nothing. No answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot(TaskCommand):
    """Snapshot the task after a recorded batch, once Spark has committed it → `SnapshotTaken` or `SnapshotDeclined`."""

    checkpoint: int
    #: last batch that belongs to the snapshot, -1 for none
    batch: int
    #: producer → places [from, to) in its channel that are in flight: from the place read up to the barrier
    in_flight: Mapping[SubtaskId, tuple[int, int]] = field(default_factory=dict)
    #: producer → number of its batches that need not be read any more: more than the batch record says, if the batches
    #: that followed put nothing into the channel
    read: Mapping[SubtaskId, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteManifest(Command):
    """Make the checkpoint complete: create its manifest → `ManifestWritten` or `ManifestFailed`."""

    checkpoint: int
    kind: CheckpointKind
    triggered_ms: int
    #: subtasks that had finished before it was triggered (FLIP-147), stored without state
    finished: tuple[SubtaskId, ...]
    #: subtask → first and last batch of the transactions that the manifest names
    transactions: Mapping[SubtaskId, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTransactions(Command):
    """Let every sink commit what the manifest, which is durable, names → `TransactionsCommitted` or `CommitFailed`."""

    permit: CommitPermit


@dataclass(frozen=True, slots=True, kw_only=True)
class SealSavepoint(Command):
    """Copy what the checkpoint names into `directory` → `SavepointSealed` or `SavepointFailed`.

    It comes after `TransactionsCommitted`, so that the copy names no pending transaction. Checkpoints and commits
    continue meanwhile; until one of the two events has come, each `DiscardOlder` pins the checkpoint.
    """

    checkpoint: int
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCheckpoint(Command):
    """Forget the snapshots of a checkpoint that failed; its files, if any, are orphans."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardOlder(Command):
    """Delete the files that only checkpoints beyond the retained ones need, after a check of the fence.

    It may be carried out late, or only the last of several; never one that a later one has replaced.
    """

    #: number of checkpoints to keep, at least 1: the job resumes from the newest (FLIP-45)
    keep: int
    #: further checkpoints to keep: savepoints are being made of them
    pinned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult(Command):
    """Record durably how the run ended → `ResultRecorded`. Answers come only after that."""

    state: str
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    #: code and parameters of the error, for FAILED; else None
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest(Command):
    """Answer a request. The facts in the answer are durable by now."""

    request: str
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    error: tuple[str, dict[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFailure(Command):
    """Report a failure that the job survives, and that no other command or event reports."""

    #: code and parameters
    error: tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOver(Command):
    """End this run without a result; the next run of this process continues with another engine.

    Requests without an answer are heard again there.
    """

    reason: str
    #: number of engines that have died in a row, for `JobStarted.engine_failures`
    failures: int
    #: pause before the next engine is made
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Command):
    """Leave the loop: the run is over. Nothing is written."""
