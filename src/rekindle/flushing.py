"""The function `flush`, for users who have a plain Structured Streaming query and no job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rekindle.advice import advised
from rekindle.config import Config
from rekindle.errors import DefinitionError
from rekindle.errors.needing import needing_pyspark
from rekindle.storage.open import folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.spark.plain.flush import FlushResult


@advised
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
        work: a local or mounted folder for the copy of the checkpoint, and for the rows until this process ends. It is
            made if it is missing, and Spark must reach it from all its machines. Default: a temporary folder.
        spark_config: settings of the session that is made.

    Raises:
        RekindleError: the checkpoint, the query or a folder is wrong; the checkpoint is unchanged.
    """
    settings = Config.of(config)
    folder = None if work is None else _work_folder(work)
    with needing_pyspark():
        from rekindle.session.session import make_plain_session, prepare_session, quiet
        from rekindle.spark.plain.flush import flush_query, places
    directory, target = places(checkpoint, out, output_mode)
    session = (
        prepare_session(spark, plain=True)
        if spark is not None
        else make_plain_session("rekindle flush", spark_config or {})
    )
    with quiet(session):
        return flush_query(
            session, query, directory, target, mode=output_mode, max_rounds=settings.drain_max_rounds, work=folder
        )


def _work_folder(work: str) -> str:
    """Make the folder for the copy, and return its path.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``, no folder can be made there.
    """
    folder, reason = folder_of(work), "It is not a folder."
    try:
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
            return folder
    except OSError as error:
        reason = f"The folder cannot be made: {error.strerror}."
    hint = "Name a local or mounted folder that all machines of Spark reach."
    raise DefinitionError("ARGUMENT_INVALID", what="flush", argument="work", value=work, reason=reason, hint=hint)
