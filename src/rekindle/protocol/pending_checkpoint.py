"""A checkpoint under way: who has still to acknowledge it, and how far it has come.

::

    ACKNOWLEDGING ──all have──► READY ──► WRITING ──manifest exists──► COMMITTING ──► settled [──► SEALING ──► sealed]
         │ declined, expired, subsumed,      │ the write
         │ a task failed or finished,        │ failed
         │ the job ended                     │
         └──────────► failed ◄───────────────┘

A checkpoint is *complete* once its manifest exists; from then on it cannot fail, it can only be late. READY is one that
waits for an earlier one to be committed. In SEALING it is settled and holds nothing up any more: only who asked for its
savepoint waits. Acknowledgements may come twice, or late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.protocol.operator_state import Closing
from rekindle.protocol.reasons import CheckpointKind, Reason


class Phase(Enum):
    """Where a pending checkpoint stands."""

    ACKNOWLEDGING = "acknowledging"
    READY = "ready"
    WRITING = "writing"
    COMMITTING = "committing"
    SEALING = "sealing"
    COMPLETE = "complete"
    FAILED = "failed"


_P = Phase
_GIVEN_UP = "declined, expired, subsumed, a task failed or closed, the job ended"

PHASE_STEPS: dict[tuple[Phase, Phase], str] = {
    (_P.ACKNOWLEDGING, _P.READY): "the last SnapshotTaken",
    (_P.READY, _P.WRITING): "the one before is committed",
    (_P.WRITING, _P.COMMITTING): "ManifestWritten",
    (_P.COMMITTING, _P.COMPLETE): "TransactionsCommitted",
    (_P.COMMITTING, _P.SEALING): "TransactionsCommitted, a savepoint",
    (_P.SEALING, _P.COMPLETE): "SavepointSealed, SavepointFailed",
    (_P.ACKNOWLEDGING, _P.FAILED): _GIVEN_UP,
    (_P.READY, _P.FAILED): _GIVEN_UP,
    (_P.WRITING, _P.FAILED): "ManifestFailed",
}
"""Every step of a checkpoint, and what takes it there. What is not here is a mistake."""

GIVEN_UP_IN = (Phase.ACKNOWLEDGING, Phase.READY)
"""Phases in which a checkpoint can be given up: once its manifest is being written, only that write can fail it."""


@dataclass(slots=True, kw_only=True)
class CheckpointRequest:
    """A checkpoint that is asked for, by a user or by the job."""

    kind: CheckpointKind
    #: whether its barriers overtake the data in the channels
    unaligned: bool = False
    #: who is answered when it has settled
    request: str | None = None
    directory: str | None = None
    #: whether its failure is counted
    counts: bool = True

    @property
    def requests(self) -> tuple[str, ...]:
        """Whom it answers."""
        return () if self.request is None else (self.request,)

    @property
    def subsumable(self) -> bool:
        """Whether a later one that is complete makes it needless. What was asked for, or is waited for, is not."""
        return self.kind is CheckpointKind.PERIODIC


@dataclass(slots=True, kw_only=True)
class PendingCheckpoint:
    """A checkpoint that was triggered and has not settled."""

    number: int
    asked: CheckpointRequest
    triggered_ms: int
    #: subtasks that have not acknowledged yet
    awaited: set[SubtaskId]
    #: last batch of each that has acknowledged
    batches: dict[SubtaskId, int] = field(default_factory=dict)
    #: had finished before it was triggered
    finished: tuple[SubtaskId, ...]
    #: subtasks that had called ``finish()`` when their snapshot was ordered
    ended: set[SubtaskId] = field(default_factory=set)
    #: tasks that hold union-list state in it
    _unions: set[str] = field(default_factory=set)
    phase: Phase = Phase.ACKNOWLEDGING

    @property
    def participants(self) -> int:
        """How many acknowledge it or had finished before."""
        return len(self.awaited) + len(self.batches) + len(self.finished)

    def closing(self, topology: Topology) -> Iterator[Closing]:
        """How far the tasks with union-list state have come to their end."""
        for uid in sorted(self._unions):
            yield Closing(
                task=uid,
                parallelism=topology.vertex(uid).parallelism,
                closed=sum(task.task == uid for task in self.finished),
                finished=sum(task.task == uid for task in self.ended),
                uses_union=True,
            )

    def acknowledge(self, task: SubtaskId, batch: int, uses_union: bool) -> None:
        """A subtask has taken its snapshot."""
        if self.phase is Phase.ACKNOWLEDGING and task in self.awaited:
            self.awaited.discard(task)
            self.batches[task] = batch
            if uses_union:
                self._unions.add(task.task)
            if not self.awaited:
                self.move(Phase.READY)

    def move(self, phase: Phase) -> None:
        """Move to another phase; AssertionError for a step that the table has not."""
        assert (self.phase, phase) in PHASE_STEPS, f"checkpoint {self.number}: {self.phase.value} to {phase.value}"
        self.phase = phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a checkpoint ended."""

    checkpoint: PendingCheckpoint
    #: None where it is complete and committed
    reason: Reason | None = None
    #: words on the reason, or why its savepoint failed
    detail: str = ""
    #: path of its savepoint
    savepoint: str | None = None
    #: it was settled before: this tells what came of its savepoint
    sealed: bool = False
