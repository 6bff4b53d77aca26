"""Two-phase commit: the permit to commit, and the transactions that may be committed with it.

Theory of operation
-------------------

Two-phase commit with the coordinator as its transaction manager: a batch record is the pre-commit, a manifest the
decision, ``sink.commit`` its execution. Only a completed checkpoint may be committed, and a `CommitPermit` is the proof
of that: the protocol hands it out with `CommitTransactions`, sinks refuse to commit without one.

Rules: commit is idempotent and repeated after a crash from the manifest; the transactions of one checkpoint are
committed before the next manifest is written, so that only the newest manifest can have any left; what no manifest
names is never committed.

A *transaction* is what a subtask wrote between two of its snapshots, to all of its sinks: a range of its batches. There
is one `Transactions` for each subtask that has sinks, and a transaction in it goes ::

    open ──snapshot──► pre-committed for checkpoint n ──n or a later one is complete──► committed
      └──────────────────────────────┴──not in the checkpoint that is restored────────► aborted

- A snapshot may lie before the newest batch: a barrier has its place, and batches may have been recorded since. What
  is beyond it stays open (`snapshot`, `upto`).
- Notifications are subsumed: a permit for n commits all that was pre-committed up to n, so one that is lost, late or
  repeated harms nothing. For the same reason a checkpoint that fails, or a savepoint that commits nothing, is not
  reported here at all: its transaction stays pre-committed and goes with the next one that is complete.
- After ``finish()`` no transaction is opened. FLIP-147's example: checkpoints 42, 43 and 44 are triggered after it, and
  43 is the first to be complete. The batches up to ``finish()`` were pre-committed for 42 and go with it; those of 44
  must be empty, and are aborted when the task is closed.
- A subtask that is closed without having finished (a stop), or that dies, aborts nothing that holds a batch: its
  batch records are durable and the next run resumes after them. Only a restore goes back: to what its checkpoint names.

This module does not know what a batch holds, which sinks there are, or how a commit is done or tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rekindle.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class CommitPermit:
    """Capability: the manifest of `checkpoint` exists, so its transactions may be committed."""

    checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTransaction:
    """The recorded batches with the numbers `first` to `last` of one subtask."""

    first: int
    #: `first` - 1 if it holds no batch
    last: int

    @property
    def empty(self) -> bool:
        """Return whether the transaction holds no batch."""
        return self.last < self.first

    def split(self, upto: int) -> tuple[SinkTransaction, SinkTransaction]:
        """Split into the batches up to `upto` and the later ones; either part may be empty."""
        cut = min(self.last, max(upto, self.first - 1))
        return replace(self, last=cut), replace(self, first=cut + 1)


class Transactions:
    """The transactions of one subtask that are not committed.

    Args:
        after: last batch of the subtask that is committed, or that another run commits; -1 for none.
    """

    def __init__(self, *, after: int = -1) -> None:
        #: transaction that is being written; None: no more batches come
        self.open: SinkTransaction | None = SinkTransaction(first=after + 1, last=after)
        #: checkpoint → the transaction pre-committed for it, in ascending order
        self.pre_committed: dict[int, SinkTransaction] = {}
        #: True once ``finish()`` of its sinks has returned
        self.has_finished = False
        #: newest batch of the subtask
        self._last = after
        #: newest checkpoint that the subtask took a snapshot for
        self._checkpoint = -1

    def written(self, batch: int) -> None:
        """Note that a batch is recorded, and every one before it; a known batch changes nothing.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT`` after `finished` or `closed`; nothing has changed.
        """
        if batch <= self._last:
            return
        if self.has_finished or self.open is None:
            raise ProtocolError(
                "ILLEGAL_EVENT",
                event=f"batch {batch} recorded",
                subject="the subtask's transactions",
                state="finished" if self.has_finished else "closed",
                legal="snapshot, completed, closed",
                story="",
            )
        self._last = batch
        self.open = replace(self.open, last=batch)

    def snapshot(self, checkpoint: int, *, upto: int | None = None) -> None:
        """Pre-commit the open transaction for `checkpoint`, whose snapshot was taken, and open the next one.

        Args:
            checkpoint: its number; one that is not above the last is late or repeated and changes nothing.
            upto: last batch that belongs to it; None: all of them. Later batches belong to the next transaction.
        """
        if checkpoint <= self._checkpoint:
            return
        self._checkpoint = checkpoint
        if self.open is None:
            return
        inside, beyond = self.open.split(self._last if upto is None else upto)
        self.pre_committed[checkpoint] = inside
        self.open = None if self.has_finished and beyond.empty else beyond

    def covered(self, checkpoint: int) -> tuple[SinkTransaction, ...]:
        """Return the transactions that a permit for `checkpoint` would commit, in order: its manifest names them."""
        due = (one for number, one in self.pre_committed.items() if number <= checkpoint)
        return tuple(transaction for transaction in due if not transaction.empty)

    def finished(self) -> None:
        """Note that ``finish()`` of the sinks has returned: nothing is written any more (FLIP-147)."""
        self.has_finished = True

    def completed(self, permit: CommitPermit) -> tuple[SinkTransaction, ...]:
        """Return the transactions to commit with `permit`, in order; () if it comes late or again.

        After a crash the commit is repeated from the manifest.
        """
        due = self.covered(permit.checkpoint)
        self.pre_committed = {number: one for number, one in self.pre_committed.items() if number > permit.checkpoint}
        return due

    def closed(self) -> tuple[SinkTransaction, ...]:
        """Close the subtask, whose end a completed checkpoint covers; return the transactions to abort, all empty.

        A transaction that holds a batch is left to the next run, if the subtask was stopped and has not finished.

        Raises:
            ProtocolError: ``INVARIANT_BROKEN`` if it has finished and a batch would be lost; nothing has changed.
        """
        left = self._uncommitted()
        if self.has_finished and not all(transaction.empty for transaction in left):
            raise ProtocolError(
                "INVARIANT_BROKEN",
                invariant="a subtask that has finished is closed only when all that it wrote is committed",
                detail=f"open: {self.open}, pre-committed: {self.pre_committed}",
                story="",
            )
        self.pre_committed = {checkpoint: one for checkpoint, one in self.pre_committed.items() if not one.empty}
        self.open = None
        return tuple(transaction for transaction in left if transaction.empty)

    def _uncommitted(self) -> tuple[SinkTransaction, ...]:
        return (*self.pre_committed.values(), *([] if self.open is None else [self.open]))
