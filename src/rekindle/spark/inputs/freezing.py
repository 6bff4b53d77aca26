"""The files of a bounded source: a list that is fixed when the job first starts.

Those of an `rk.Files` are listed, and put in the order of time where they tell it (`sources.statistics`); the rows of
an `rk.Batch` are written once, as files of the job's own. What becomes of the list is not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from rekindle.errors import DefinitionError, InputError, StorageError
from rekindle.runtime.definition import SourceSpec
from rekindle.runtime.steps import Steps, step
from rekindle.session.failures import brief, translate
from rekindle.sinks.writing import write_unread
from rekindle.sources import Batch, Files, SplitSource, Stream, statistics
from rekindle.sources.trees import qualified
from rekindle.spark.inputs.reading import failed, made_by
from rekindle.spark.plan_text import nodes
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.sources import FrozenFile, FrozenFiles
from rekindle.storage.job_documents import JobDocuments

_LOG = logging.getLogger(__name__)


def freeze(
    spark: SparkSession, storage: BatchDocuments, spec: SourceSpec, attempt: str, steps: Steps
) -> FrozenFiles | None:
    """Return the fixed files of a bounded source, listed if they were not; None for a `Stream` or a custom source.

    `attempt` is a fresh name: a `Batch` is written once, and an attempt that a crash cut short stays an orphan.
    """
    uid = spec.source.uid
    path = layout.frozen_files(layout.source(storage.job, uid))
    if isinstance(spec.spec, Stream | SplitSource):
        return None
    frozen = storage.frozen_files(uid)
    if frozen is None:
        made = (
            _freeze_files(spark, uid, spec.spec, spec.source.event_time)
            if isinstance(spec.spec, Files)
            else _write_batch(spark, storage, uid, spec.spec, attempt, steps)
        )
        frozen = storage.adopt(path, made)
    return frozen


def _freeze_files(spark: SparkSession, uid: str, spec: Files, event_time: str | None) -> FrozenFiles:
    reader = _with_schema(spark.read.format(spec.format), uid, spec)
    files, partition_columns, base = spec.list_files(uid)
    options = {key: qualified(said) if key.lower() == "basepath" else said for key, said in spec.all_options.items()}
    try:
        data = reader.options(**options).load([qualified(path) for path in spec.paths])
    except Exception as error:
        path = ", ".join(spec.paths)
        raise translate(error, lambda _: uid) or InputError(
            "FILE_UNREADABLE", source=uid, path=path, reason=brief(error)
        ) from error
    by_time = False
    if spec.ordered in (None, "statistics"):
        try:
            files = statistics.by_time(files, _column_of_files(uid, spec, data, partition_columns, event_time))
            by_time = True
        except statistics.NoStatisticsError as error:
            if spec.ordered == "statistics":
                raise DefinitionError("STATISTICS_UNUSABLE", source=uid, reason=error) from error
            _LOG.info("Source %s is read in any order: %s", uid, error)
    return FrozenFiles(
        source=uid,
        files=files,
        schema=data.schema.jsonValue(),
        partition_columns=partition_columns,
        base=base,
        by_time=by_time,
    )


def _with_schema(reader: DataFrameReader, uid: str, spec: Files) -> DataFrameReader:
    """Give a reader the schema that the user has set, if any; no file is looked at.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``.
    """
    if spec.schema is None:
        return reader
    try:
        return reader.schema(spec.schema)
    except PySparkException as error:
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what=f"rk.Files of source {uid!r}",
            argument="schema",
            value=spec.schema,
            reason=brief(error),
            hint="Write it as Spark's DDL, like 'ts timestamp, price double', or give a StructType.",
        ) from error


def _column_of_files(
    uid: str, spec: Files, data: DataFrame, partition_columns: Sequence[str], event_time: str | None
) -> str:
    """Return the column of the files that is the source's event time, unchanged.

    Raises:
        NoStatisticsError: there is none.
    """
    if event_time is None:
        raise statistics.NoStatisticsError("it has no event_time.")
    if spec.format != "parquet":
        raise statistics.NoStatisticsError(f"{spec.format} files have no statistics.")
    transform = spec.transform
    if transform is None:
        found = [name for name in data.columns if name == event_time]
    else:
        found = _passed_through(data, uid, transform, event_time)
    if len(found) != 1 or found[0] in partition_columns:
        raise statistics.NoStatisticsError(f"{event_time!r} is no column of its files.")
    return found[0]


def _passed_through(
    data: DataFrame, uid: str, transform: Callable[[DataFrame], DataFrame], event_time: str
) -> list[str]:
    """Return the columns of `data` that the transform gives the name of the event time, none of them computed."""
    try:
        above = made_by(uid, transform, data)
    except DefinitionError as error:
        raise statistics.NoStatisticsError(f"its transform cannot be looked at: {error.message}") from error
    names = {number: name for name, number in _attributes(data)}
    named = [names.get(number) for name, number in _attributes(above) if name == event_time]
    # The columns of a union have the ids of its first part, whatever the others compute.
    if named == [None] or any(node.name == "Union" for node in nodes(above)):
        raise statistics.NoStatisticsError(f"its transform computes {event_time!r}, of which the files tell nothing.")
    return [name for name in named if name is not None and len(named) == 1]


def _attributes(frame: DataFrame) -> list[tuple[str, int]]:
    """Return the columns with Spark's id of each: one that is passed through keeps its id, a computed one does not."""
    query: Any = frame._jdf.queryExecution()
    output = query.analyzed().output()
    return [(column.name(), column.exprId().id()) for column in map(output.apply, range(output.size()))]


def _write_batch(
    spark: SparkSession, storage: JobDocuments, uid: str, spec: Batch, attempt: str, steps: Steps
) -> FrozenFiles:
    frame = made_by(uid, spec.read, spark)
    if frame.isStreaming:
        raise DefinitionError("SOURCE_NOT_BATCH", source=uid)
    folder = layout.source_segments(storage.job, uid, attempt)
    with step(steps, "segments.write"):
        try:
            entries = write_unread(frame, storage.store, folder)
        except StorageError:
            raise
        except Exception as error:
            raise failed(uid, error) from error
    below = f"{layout.source(storage.job, uid)}/"
    files = tuple(FrozenFile(path=entry.path.removeprefix(below), size=entry.size_bytes) for entry in entries)
    return FrozenFiles(source=uid, files=files, schema=frame.schema.jsonValue())


def located(storage: JobDocuments, frozen: FrozenFiles) -> tuple[FrozenFile, ...]:
    """Return the files with absolute addresses: a Batch source's segments are named relative to its own folder."""
    folder = layout.source(storage.job, frozen.source)
    return tuple(
        file
        if "://" in file.path or file.path.startswith("file:/")
        else FrozenFile(path=storage.store.uri(f"{folder}/{file.path}"), size=file.size)
        for file in frozen.files
    )
