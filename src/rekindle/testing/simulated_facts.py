"""Facts in the history of a simulated job: what has become durable or visible, beside events and commands."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.ids import SubtaskId


@dataclass(frozen=True, slots=True)
class ManifestCreated:
    """Fact: a manifest is durable."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """Fact: the rows of a batch are visible in the sink; `named`: a durable manifest has named it."""

    checkpoint: int
    task: SubtaskId
    batch: int
    named: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """Fact: old checkpoints were deleted; `newest`: the newest of all was among them."""

    newest: bool


@dataclass(frozen=True, slots=True)
class SealedFromNothing:
    """Fact: the checkpoint that a savepoint is being made of was deleted; `fenced`: its driver has no say any more."""

    checkpoint: int
    fenced: bool


@dataclass(frozen=True, slots=True)
class ResultDurable:
    """Fact: a result is durable; `uncommitted`: batches that Spark had committed and the sinks had not."""

    state: str
    uncommitted: tuple[tuple[SubtaskId, int], ...]


@dataclass(frozen=True, slots=True)
class DriverDied:
    """Fact: the driver was killed."""
