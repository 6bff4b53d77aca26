"""A checkpoint under way: its phase, and the subtasks that have still to acknowledge it.

::

    ACKNOWLEDGING ──all have──► READY ──► WRITING ──manifest exists──► COMMITTING ──► settled [──► SEALING ──► sealed]
         │ declined, expired, subsumed,      │ the write
         │ a task failed or finished,        │ failed
         │ the job ended                     │
         └──────────► failed ◄───────────────┘

A checkpoint is *complete* once its manifest exists; from then on it cannot fail, it can only be late. In READY it waits
for an earlier one to be committed, however long that takes: it does not expire. In SEALING it is settled and holds
nothing up any more: only the request for its savepoint waits. Acknowledgements may come twice, or late.
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
    """The phase of a checkpoint that was triggered."""

    ACKNOWLEDGING = "acknowledging"
    READY = "ready"
    WRITING = "writing"
    COMMITTING = "committing"
    SEALING = "sealing"
    COMPLETE = "complete"
    FAILED = "failed"


_P = Phase
PHASE_STEPS: dict[tuple[Phase, Phase], str] = {
    (_P.ACKNOWLEDGING, _P.READY): "the last SnapshotTaken",
    (_P.READY, _P.WRITING): "the one before is committed",
    (_P.WRITING, _P.COMMITTING): "ManifestWritten",
    (_P.COMMITTING, _P.COMPLETE): "TransactionsCommitted",
    (_P.COMMITTING, _P.SEALING): "TransactionsCommitted, a savepoint",
    (_P.SEALING, _P.COMPLETE): "SavepointSealed, SavepointFailed",
    (_P.ACKNOWLEDGING, _P.FAILED): "declined, expired, subsumed, a task failed or closed, the job ended",
    (_P.READY, _P.FAILED): "subsumed, its union state is not whole, the job ended",
    (_P.WRITING, _P.FAILED): "ManifestFailed",
}
"""Every legal step of a checkpoint → its cause in words."""

GIVEN_UP_IN = (Phase.ACKNOWLEDGING, Phase.READY)
"""Phases in which a checkpoint can be given up: once its manifest is being written, only that write can fail it."""


@dataclass(slots=True, kw_only=True)
class CheckpointRequest:
    """A checkpoint that is asked for, by a user or by the job."""

    kind: CheckpointKind
    #: True if its barriers overtake the data in the channels
    unaligned: bool = False
    #: request to answer when it has settled; None: there is none
    request: str | None = None
    directory: str | None = None
    #: True if its failure is counted
    counts: bool = True

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that the checkpoint answers: one, or none."""
        return () if self.request is None else (self.request,)

    @property
    def subsumable(self) -> bool:
        """Return whether a later complete checkpoint makes this one needless: only periodic ones are."""
        return self.kind is CheckpointKind.PERIODIC


@dataclass(slots=True, kw_only=True)
class PendingCheckpoint:
    """A checkpoint that was triggered and has not settled."""

    number: int
    asked: CheckpointRequest
    triggered_ms: int
    #: subtasks that have not acknowledged yet
    awaited: set[SubtaskId]
    #: subtask that has acknowledged → its last batch
    batches: dict[SubtaskId, int] = field(default_factory=dict)
    #: subtasks that had finished before it was triggered
    finished: tuple[SubtaskId, ...]
    #: subtasks that had called ``finish()`` when their snapshot was ordered
    ended: set[SubtaskId] = field(default_factory=set)
    #: tasks that hold union-list state in it
    _unions: set[str] = field(default_factory=set)
    phase: Phase = Phase.ACKNOWLEDGING

    @property
    def participants(self) -> int:
        """The number of subtasks that acknowledge it or had finished before."""
        return len(self.awaited) + len(self.batches) + len(self.finished)

    def closing(self, topology: Topology) -> Iterator[Closing]:
        """Yield the numbers of ended subtasks for each task with union-list state."""
        for uid in sorted(self._unions):
            yield Closing(
                task=uid,
                parallelism=topology.vertex(uid).parallelism,
                closed=sum(task.task == uid for task in self.finished),
                finished=sum(task.task == uid for task in self.ended),
                uses_union=True,
            )

    def acknowledge(self, task: SubtaskId, batch: int, uses_union: bool) -> None:
        """Note that a subtask has taken its snapshot."""
        if self.phase is Phase.ACKNOWLEDGING and task in self.awaited:
            self.awaited.discard(task)
            self.batches[task] = batch
            if uses_union:
                self._unions.add(task.task)
            if not self.awaited:
                self.move(Phase.READY)

    def move(self, phase: Phase) -> None:
        """Move to another phase; AssertionError for a step that is not in the table."""
        assert (self.phase, phase) in PHASE_STEPS, f"checkpoint {self.number}: {self.phase.value} to {phase.value}"
        self.phase = phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The outcome of a checkpoint, or of its savepoint."""

    checkpoint: PendingCheckpoint
    #: reason of its failure; None: it is complete and committed
    reason: Reason | None = None
    #: details on the reason, or why its savepoint failed
    detail: str = ""
    #: path of its savepoint; None: there is none
    savepoint: str | None = None
    #: True if it was settled before, and this is the outcome of its savepoint
    sealed: bool = False
