"""The rows of a job and of its shadow, sink by sink: read where both have committed them, compared by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.errors import ControlError, one_line
from rekindle.redaction import hide
from rekindle.shadowing.report import RowExample, SinkComparison
from rekindle.sinks.two_phase import Committable, TwoPhaseSink
from rekindle.storage.documents.checkpoint import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.spark.comparing import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The checkpoints of both jobs since the cut, and how many of each the other one has covered."""

    ours: Sequence[Manifest]
    theirs: Sequence[Manifest]
    our_due: int
    their_due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRows:
    """The readers of the rows of one sink: its own class, and the one that the shadow writes with."""

    original: TwoPhaseSink
    shadow: TwoPhaseSink


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """The user's options of a comparison; see `rekindle.shadow`."""

    key: Sequence[str] = ()
    ignore: Sequence[str] = ()
    tolerance: float = 0.0
    examples: int = 10


def compare_sinks(
    spark: SparkSession,
    compared: Compared,
    rows: Mapping[str, SinkRows],
    unseen: Mapping[str, str | None],
    options: ComparisonOptions,
) -> list[SinkComparison]:
    """Compare the rows of each sink; one whose rows cannot be read is not compared, and says why.

    Raises:
        ControlError: ``SHADOW_COLUMN_UNKNOWN``.
    """
    sides = {uid: _sides(spark, compared, readers, uid) for uid, readers in rows.items()}
    _check_columns([side for side in sides.values() if not isinstance(side, str)], options)
    return [_compared(uid, sides.get(uid, reason or ""), options) for uid, reason in unseen.items()]


def _sides(spark: SparkSession, compared: Compared, readers: SinkRows, uid: str) -> tuple[Side, Side] | str:
    """Return both sides, or why they cannot be read."""
    try:
        return (
            _side(spark, readers.original, uid, compared.ours, compared.our_due),
            _side(spark, readers.shadow, uid, compared.theirs, compared.their_due, readers.original.as_read_back),
        )
    except Exception as error:
        return hide(one_line(error))


def _compared(uid: str, sides: tuple[Side, Side] | str, options: ComparisonOptions) -> SinkComparison:
    from rekindle.spark.comparing import columns_of, compared

    if isinstance(sides, str):
        return SinkComparison(sink=uid, unseen=sides)
    columns = columns_of(*sides, options.ignore)
    key = options.key if set(options.key) <= set(columns.both) else ()
    tolerance = options.tolerance if key else 0.0
    try:
        made = compared(*sides, columns.both, key=key, tolerance=tolerance, examples=options.examples)
    except Exception as error:
        return SinkComparison(sink=uid, unseen=hide(one_line(error)))
    return SinkComparison(
        sink=uid,
        equal=made.equal,
        different=made.different,
        missing=made.missing,
        extra=made.extra,
        pending=made.pending,
        columns_gone=columns.gone,
        columns_new=columns.new,
        columns_changed=columns.changed,
        examples=tuple(RowExample(original=ours, shadow=theirs) for ours, theirs in made.examples),
    )


def _side(
    spark: SparkSession,
    sink: TwoPhaseSink,
    uid: str,
    line: Sequence[Manifest],
    due: int,
    as_read_back: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Side:
    from rekindle.spark.comparing import Side

    def read(manifests: Sequence[Manifest]) -> DataFrame | None:
        commits = {manifest.checkpoint: [*_committed(manifest, uid)] for manifest in manifests}
        if not any(commits.values()):
            return None
        owner = f"{manifests[0].job}-{manifests[0].job_id}"
        return as_read_back(sink.read_back(spark, commits, job=owner, sink=uid))

    return Side(due=read(line[:due]), pending=read(line[due:]))


def _committed(manifest: Manifest, sink: str) -> Iterator[Committable]:
    for transaction in manifest.transactions.get(sink, []):
        yield from transaction.committables


def _check_columns(sides: Sequence[tuple[Side, Side]], options: ComparisonOptions) -> None:
    schemas = [schema for pair in sides for side in pair if (schema := side.schema()) is not None]
    known = dict.fromkeys(name for schema in schemas for name in schema.names)
    for column in (*options.key, *options.ignore):
        if known and column not in known:
            raise ControlError("SHADOW_COLUMN_UNKNOWN", column=column, columns=", ".join(known))
