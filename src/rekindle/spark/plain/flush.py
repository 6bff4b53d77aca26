"""The flush of a plain Structured Streaming query: what is in its state comes out, and its checkpoint stays whole.

The query is run on a copy of its checkpoint, as another query: first the batch in which it stopped, if it did, then
planted batches (`flush`), and nothing after them. Its sources are made, as Spark makes them for every query, and asked
for nothing but the data of that unfinished batch. The rows of each batch are kept as Parquet files.

The original is only read, and looked at again at the end: a query that has run meanwhile was no stopped one.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from rekindle.errors import ControlError, DefinitionError, JobError, RekindleError, RestoreError
from rekindle.ids import SubtaskId
from rekindle.progress.copies import copy_for_lineage
from rekindle.progress.directory import unplant
from rekindle.runtime.steps import no_steps
from rekindle.session.failures import brief, is_of_newer_spark, is_of_other_query
from rekindle.session.links import chain
from rekindle.spark.plain.directory import PlainDirectory
from rekindle.spark.query.batches import Batches
from rekindle.spark.query.flush import flush
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.query.polling import Polls
from rekindle.spark.query.query import Query
from rekindle.spark.query.rows_read import RowsRead
from rekindle.storage.copying import copy_between
from rekindle.storage.folder import Folder
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

_COPY, _ROWS = "checkpoint", "rows"
"""Folders of the flush's own: the copy of the checkpoint, and what comes out."""

MODES = ("append", "update")
"""Output modes in which something can be left to come out."""

_USERS_OWN = re.compile(r"~?(?:TransformWithState|FlatMapGroupsWithState|FlatMapGroupsInPandasWithState)\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushResult:
    """The result of a flush: the rows that came out of the state, and what is left in it."""

    #: rows that were in the state, as a batch DataFrame
    rows: DataFrame
    #: number of these rows
    row_count: int
    #: last batch that the query had committed
    batch: int
    #: the query's watermark when it stopped, ms since the epoch; 0: it had none yet
    watermark_ms: int
    #: the batch in which it stopped, finished here; None: it stopped between two
    unfinished_batch: int | None
    #: rows of that batch, which its sink may have already or not; None: it stopped between two
    unfinished_rows: DataFrame | None
    #: number of these rows
    unfinished_row_count: int
    #: planted batches
    rounds: int
    #: no more is to come; False: timers were still being set
    complete: bool
    #: rows that stay in the state forever: they have no event time, or no time bound
    left: int
    #: folder with ``flushed`` and, of a batch it stopped in, ``unfinished``; None: none was asked for
    out: str | None

    def texts(self, at_most: int) -> list[list[str]]:
        """Return the first rows, each value as the text that Spark makes of it."""
        named = self.rows.limit(at_most).toDF(*map(str, range(len(self.rows.columns))))  # two may have one name
        values = (F.hex(one.name) if one.dataType == BinaryType() else F.col(one.name) for one in named.schema)
        texts = (F.coalesce(value.cast("string"), F.lit("NULL")) for value in values)
        return [[*row] for row in named.select(*texts).collect()]

    def to_json(self) -> dict[str, Any]:
        """Return what ``rekindle flush --json`` prints."""
        return {
            "rows": self.row_count,
            "batch": self.batch,
            "watermark_ms": self.watermark_ms,
            "unfinished_batch": self.unfinished_batch,
            "unfinished_rows": self.unfinished_row_count,
            "rounds": self.rounds,
            "complete": self.complete,
            "left": self.left,
            "out": self.out,
        }


class _Rounds(Batches):
    """The function for ``foreachBatch``: keeps the rows of each batch, below the folder `rows`."""

    def __init__(self, spark: SparkSession, rows: str) -> None:
        super().__init__()
        self._spark = spark
        self._rows = rows

    def _carry_out(self, df: DataFrame, batch: int) -> None:
        df.write.mode("overwrite").parquet(self._folder(batch))
        self.last = batch

    def read(self, batches: Sequence[int]) -> DataFrame:
        """Return the rows of these batches."""
        return self._spark.read.parquet(*map(self._folder, batches))

    def count(self, batch: int) -> int:
        """Return how many rows a batch has, which the footers of its files say."""
        return self.read([batch]).count()

    def _folder(self, batch: int) -> str:
        return f"{self._rows}/{batch}"


class _Run:
    """The query on the copy: one batch at a time."""

    def __init__(self, spark: SparkSession, frame: DataFrame, mode: str, store: Store, rows: str) -> None:
        self.batches = _Rounds(spark, rows)
        self._store = store
        self._query = Query(
            spark,
            frame,
            self.batches,
            output_mode=mode,
            subtask=SubtaskId("flush", 0),
            store=store,
            progress_dir=_COPY,
            steps=no_steps,
            state_partitions=0,
            kept=KeptBatches(),
            polls=Polls(only_inboxes=False, rows_read=RowsRead(-1)),
            died=lambda reason: None,
        )

    def run(self, batch: int) -> tuple[int, Mapping[str, Any]]:
        """Run the batch that is planned; return how many rows came out, and Spark's report on it."""
        report = self._query.run_to(batch)
        if not self._query.commits.has(batch):
            raise JobError("QUERY_DIED", task="flush", reason="it was stopped from outside")
        unplant(self._store, _COPY)
        return self.batches.count(batch), report


def places(checkpoint: str, out: str | None, mode: str) -> tuple[PlainDirectory, Store | None]:
    """Return the checkpoint and the folder for the rows; refuse what needs no Spark to be seen."""
    if mode not in MODES:
        raise DefinitionError("FLUSH_MODE_REFUSED", mode=mode, reason="nothing waits in it to be written.")
    target = open_store(out) if out is not None else None
    if target is not None and target.names(""):
        raise ControlError("SAVEPOINT_TARGET_EXISTS", path=target.location)
    return PlainDirectory(checkpoint), target


def flush_query(
    spark: SparkSession,
    build: Callable[[SparkSession], DataFrame],
    directory: PlainDirectory,
    target: Store | None,
    *,
    mode: str,
    max_rounds: int,
    work: str | None,
) -> FlushResult:
    """See `rekindle.flush`."""
    directory.refuse_running(spark)
    frame = _built(spark, build)
    _refuse_mode(frame, mode)
    directory.refuse_other_query(frame)
    directory.refuse_lost_data()
    folder = tempfile.mkdtemp(prefix="rekindle-flush-", dir=work)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store = LocalStore(folder)
    try:
        _copy(directory, store)
        directory.refuse_running(spark)
        run = _Run(spark, frame, mode, store, store.spark_path(_ROWS))
        unfinished = directory.standing.unfinished
        unfinished_count = run.run(unfinished)[0] if unfinished is not None else 0
        flushed = flush(store, _COPY, run.run, max_rounds)
    except RestoreError:
        raise
    except Exception as error:
        raise _explained(error, directory.path, mode) from error
    finally:
        store.delete_tree(_COPY)
    directory.refuse_running(spark)
    first = (unfinished if unfinished is not None else directory.standing.batch) + 1
    rounds = range(first, first + flushed.rounds)
    result = FlushResult(
        rows=run.batches.read(rounds),
        row_count=sum(map(run.batches.count, rounds)),
        batch=directory.standing.batch,
        watermark_ms=directory.offsets.batch_watermark_ms,
        unfinished_batch=unfinished,
        unfinished_rows=run.batches.read([unfinished]) if unfinished is not None else None,
        unfinished_row_count=unfinished_count,
        rounds=flushed.rounds,
        complete=flushed.complete,
        left=flushed.left,
        out=target.location if target else None,
    )
    if target is not None:
        _write(result.rows, target.spark_path("flushed"))
        if result.unfinished_rows is not None:
            _write(result.unfinished_rows, target.spark_path("unfinished"))
    return result


def _built(spark: SparkSession, build: Callable[[SparkSession], DataFrame]) -> DataFrame:
    name = getattr(build, "__name__", str(build))
    try:
        frame = build(spark)
    except RekindleError:
        raise
    except Exception as error:
        raise DefinitionError("FLUSH_FUNCTION_INVALID", function=name, reason=f"it raised {brief(error)}") from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = "a batch DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        reason = f"it returned {returned}, not a streaming DataFrame"
        raise DefinitionError("FLUSH_FUNCTION_INVALID", function=name, reason=reason)
    return frame


def _refuse_mode(frame: DataFrame, mode: str) -> None:
    """Refuse update mode where no user's own code holds something back by its timers: nothing would come out."""
    query: Any = frame._jdf.queryExecution()
    if mode == "update" and not _USERS_OWN.search(query.analyzed().toString()):
        raise DefinitionError(
            "FLUSH_MODE_REFUSED", mode=mode, reason="no user-defined state with timers is in the query."
        )


def _copy(directory: PlainDirectory, store: LocalStore) -> None:
    """Copy all that the query needs, with the plan of the batch in which it stopped, as a query with another id."""
    batch, unfinished = directory.standing
    source, folder = directory.store, directory.folder
    copy_for_lineage(
        Folder(source, folder),
        Folder(store, _COPY),
        batch,
        query_id=str(uuid.uuid4()),
        inbox_sources={},
        later_too=unfinished is not None,
    )
    if unfinished is not None:
        copy_between(source, f"{folder}/offsets/{unfinished}", store, f"{_COPY}/offsets/{unfinished}")


def _write(rows: DataFrame, path: str) -> None:
    """Write rows into few files: a batch has one for each partition of the state."""
    rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism).write.mode("error").parquet(path)


def _explained(error: Exception, path: str, mode: str) -> RekindleError:
    if isinstance(error, RekindleError) and error.code == "QUERY_REFUSED":
        return DefinitionError("FLUSH_REFUSED", mode=mode, reason=error.parameters["reason"])
    if isinstance(error, RekindleError) and error.kind != "job":
        return error
    links = chain(error) or chain(error.__cause__ or error)
    if is_of_newer_spark(links):
        return RestoreError("SPARK_CHECKPOINT_NEWER", path=path, version=pyspark.__version__, reason=brief(error))
    if is_of_other_query(links):
        return RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=brief(error))
    return JobError("FLUSH_FAILED", path=path, reason=brief(error))
