"""`Hybrid`: a history, and a source that continues it: the second begins when the first has been read (FLIP-150)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import DefinitionError
from rekindle.sources.batch import Batch
from rekindle.sources.files import Files
from rekindle.sources.kafka import KafkaStream
from rekindle.sources.split_source import SplitSource


@dataclass(frozen=True)
class Hybrid:
    """An unbounded source that is read in two parts, one after the other.

    A job has two sources of it: `first` under the uid given, `then` under that uid and ``.then``. Each keeps its own
    position. `then` is not asked for anything before all of `first` is in a batch record. Its rows follow in later
    batches, also after a restart and from a savepoint. Where the two meet is said by their definitions, such as
    ``rk.sources.Jdbc(after=...)``.

    Args:
        first: the history.
        then: what continues it, without an end. It has the same columns.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``.
    """

    kind: ClassVar[str] = "Hybrid"

    first: Files | Batch
    then: SplitSource | KafkaStream

    def __post_init__(self) -> None:
        given: tuple[object, object] = (self.first, self.then)
        first, then = given
        if not isinstance(first, Files | Batch):
            raise _refused("first", first, "It has no end.", "Begin with an rk.Files or an rk.Batch.")
        if not isinstance(then, SplitSource | KafkaStream):
            hint = "Use rk.sources.Kafka without an end, rk.sources.Jdbc, or an rk.SplitSource."
            raise _refused("then", then, "Spark reads it by itself, and it cannot be made to wait.", hint)
        if then.bounded:
            raise _refused("then", then, "It is bounded.", "Read two histories as two sources.")
        if isinstance(then, KafkaStream) and then.start == "latest":
            hint = "Say start= as a time with its zone, offsets, or 'earliest'."
            raise _refused("then", then, "What is written before it is the latest would be in neither.", hint)

    @property
    def continuation(self) -> SplitSource:
        """The source that is read after the history."""
        return self.then.topics if isinstance(self.then, KafkaStream) else self.then


def _refused(argument: str, given: object, reason: str, hint: str) -> DefinitionError:
    return DefinitionError(
        "ARGUMENT_INVALID",
        what="rk.sources.Hybrid",
        argument=argument,
        value=type(given).__name__,
        reason=reason,
        hint=hint,
    )
