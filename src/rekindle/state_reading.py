"""The function `state`, which reads the state of a checkpoint, a savepoint or a plain query."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rekindle.advice import advised
from rekindle.errors.needing import needing_pyspark
from rekindle.progress.stored_state import find_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@advised
def state(
    path: str | os.PathLike[str],
    task: str | None = None,
    *,
    operator: int = 0,
    part: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the state of a task's stateful operator as a DataFrame; Spark reads it when the DataFrame is computed.

    The columns are those of Spark's ``statestore`` source: ``key``, then ``value`` (of a list in the state
    ``list_element``, of a map ``user_map_key`` and ``user_map_value``, of timers ``expiration_timestamp_ms``), and
    ``partition_id``.

    Args:
        path: the folder of a savepoint or a checkpoint, or the checkpoint location of a query that runs without
            Rekindle. A running job replaces its checkpoints: take a savepoint to have time to read it.
        task: uid of the task; None: the only task that has state.
        operator: number of the operator in the query, counted from 0.
        part: ``"left"`` or ``"right"`` of a join; or the name of a state variable of ``transformWithState``, or
            ``"timers"``.
        spark: the session to use; None: the active one, or one that is made and stays.
        spark_config: settings of the session that is made.

    Raises:
        RestoreError: there is no checkpoint at `path`, or no such state in it.
        DefinitionError: ``PYSPARK_TOO_OLD``: Spark can read state since version 4.0.
    """
    kept = find_state(os.fspath(path)).task(task)
    (found,) = kept.operators(operator)
    with needing_pyspark():
        from rekindle.session.session import active_or_made
        from rekindle.spark.state import state_frame
    session = spark or active_or_made("rekindle state", spark_config or {})
    return state_frame(session, kept, found, part)
