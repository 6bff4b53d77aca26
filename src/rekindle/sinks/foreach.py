"""A user's own function for each batch: at least once.

The function is called while the batch is prepared, before any checkpoint, and nothing is left to commit. If the driver
dies before the batch is recorded, the function is called again: with the same rows, as far as the query is
deterministic, and with the same `SinkBatch.key`. A function that remembers the keys it has seen, in one transaction
with what it does, makes that exactly once, but not over a restore from an earlier checkpoint, whose new lineage has
keys of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.two_phase import Committable, SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from rekindle.sinks.owners import Claim


class Foreach(TwoPhaseSink):
    """Call ``fn(df, batch)`` for each batch, **at least once**.

    Args:
        fn: evaluates `df` once and completely. `batch` is a `SinkBatch`: ``batch.key`` is the same for each attempt at
            a batch, and no other batch has it. What it raises fails the batch, which is tried again. It may be called
            by several threads at a time, for different subtasks.
    """

    kind: ClassVar[str] = "Foreach"
    output_modes: tuple[str, ...] = ("append", "update", "complete")

    def __init__(self, fn: Callable[[DataFrame, SinkBatch], Any]) -> None:
        self.fn = fn

    def __repr__(self) -> str:
        return f"Foreach({getattr(self.fn, '__name__', self.fn)})"

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Find nothing: where the function writes, only the function knows."""
        return None

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Call the function."""
        self.fn(df, batch)
        return []

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Do nothing: the function has done all already."""

    def abort(self, committables: Sequence[Committable]) -> None:
        """Do nothing: what the function has done cannot be taken back."""
