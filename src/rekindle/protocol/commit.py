"""The permit to commit.

Two-phase commit with the coordinator as its transaction manager: a batch record is the pre-commit, a manifest the
decision, ``sink.commit`` its execution. Only a completed checkpoint may be committed, and a `CommitPermit` is the proof
of that: the protocol hands it out with `CommitTransactions`, sinks refuse to commit without one.

Rules: commit is idempotent and repeated after a crash from the manifest; the transactions of one checkpoint are
committed before the next manifest is written, so that only the newest manifest can have any left; what no manifest
names is never committed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitPermit:
    """Capability: the manifest of `checkpoint` exists, so its transactions may be committed."""

    checkpoint: int
