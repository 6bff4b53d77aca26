"""The function `flush`, for users who have a plain Structured Streaming query and no job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rekindle.config import Config
from rekindle.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.spark.plain.flush import FlushResult


def flush(
    query: Callable[[SparkSession], DataFrame],
    checkpoint: str,
    *,
    spark: SparkSession | None = None,
    out: str | None = None,
    output_mode: str = "append",
    config: Mapping[str, Any] | None = None,
    work: str | None = None,
    spark_config: Mapping[str, str] | None = None,
) -> FlushResult:
    """Emit the windows, sessions, joined rows and timers that a stopped query still has in its state.

    Args:
        query: makes the streaming DataFrame that the query wrote with ``writeStream``, from a session.
        checkpoint: the ``checkpointLocation`` of the query, which is stopped. It is only read.
        spark: the session to use; None: one is made, and stays.
        out: a new folder for the rows, as Parquet files: below ``flushed``, and below ``unfinished`` those of a batch
            in which the query stopped.
        output_mode: the output mode of the query: ``"append"``, or ``"update"`` if it has state of its own with timers.
        config: settings; only ``drain.max_rounds`` matters here.
        work: a folder for the copy of the checkpoint, and for the rows until this process ends; Spark must reach it
            from all its machines. Default: a temporary folder.
        spark_config: settings of the session that is made.

    Raises:
        RekindleError: the checkpoint, the query or a folder is wrong; the checkpoint is unchanged.
    """
    settings = Config.of(config)
    try:
        from rekindle.session.session import make_plain_session, prepare_session, quiet
        from rekindle.spark.plain.flush import flush_query
    except ModuleNotFoundError as error:
        if error.name in ("pyspark", "py4j"):
            raise DefinitionError("PYSPARK_MISSING") from error
        raise
    session = (
        prepare_session(spark, plain=True)
        if spark is not None
        else make_plain_session("rekindle flush", spark_config or {})
    )
    with quiet(session):
        return flush_query(
            session, query, checkpoint, out=out, mode=output_mode, max_rounds=settings.drain_max_rounds, work=work
        )
