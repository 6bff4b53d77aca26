"""What a query says that it runs, against what Spark has planned in the storage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.progress.directory import read_offsets
from rekindle.spark.streaming.running_plan import RunningPlan, plan_of, refuse_partly_read, running_plan
from rekindle.storage.local import LocalStore


def files(spark: SparkSession, root: Path, name: str) -> DataFrame:
    frame = spark.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1)
    return frame.parquet(str(root / name)).withWatermark("ts", "1 second")


def twice(frame: DataFrame) -> DataFrame:
    return frame.union(frame)


SHAPES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "one source": lambda spark, root: files(spark, root, "a"),
    "two sources, one of them empty": lambda spark, root: files(spark, root, "a").union(files(spark, root, "none")),
    "a source used twice": lambda spark, root: twice(files(spark, root, "a")),
    "two sources that are equal": lambda spark, root: files(spark, root, "a").union(files(spark, root, "a")),
    "state": lambda spark, root: files(spark, root, "a").groupBy(F.window("ts", "1 minute")).count(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_query_runs_is_what_it_has_planned_also_after_a_restart(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    frame = spark.sql("SELECT timestamp'2025-01-01' AS ts, 'x' AS k")
    (tmp_path / "none").mkdir()
    for _ in range(2):
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "a"))
    store, met = LocalStore(str(tmp_path)), list[tuple[RunningPlan, RunningPlan]]()
    state = {"failed": False}

    def look(df: DataFrame, batch: int) -> None:
        met.append((running_plan(spark), plan_of(read_offsets(store, "progress", batch))))
        df.write.format("noop").mode("overwrite").save()
        if batch == 1 and not state["failed"]:
            state["failed"] = True
            raise ValueError("it is run again, from what is planned")

    for _ in range(2):
        writer = SHAPES[shape](spark, tmp_path).writeStream.foreachBatch(look).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "progress")).start()
        with suppress(StreamingQueryException) if len(met) < 2 else nullcontext():
            query.awaitTermination()
    assert len(met) >= 3
    assert [runs for runs, _ in met] == [planned for _, planned in met]
    assert len({runs.at_ms for runs, _ in met}) == len({runs for runs, _ in met}) > 1


def test_a_plan_that_was_written_over_is_not_what_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT timestamp'2025-01-01' AS ts, 'x' AS k").write.parquet(str(tmp_path / "a"))
    store, met = LocalStore(str(tmp_path)), list[bool]()

    def look(_: Any, batch: int) -> None:
        planned = read_offsets(store, "progress", batch)
        met.append(running_plan(spark) == plan_of(planned))
        for later in ({"batchTimestampMs": 1}, {"batchWatermarkMs": 7}):
            store.replace(f"progress/offsets/{batch}", planned.to_bytes(**later))
            met.append(running_plan(spark) == plan_of(read_offsets(store, "progress", batch)))
        store.replace(f"progress/offsets/{batch}", planned.text.replace('"logOffset":0', '"logOffset":1').encode())
        met.append(running_plan(spark) == plan_of(read_offsets(store, "progress", batch)))
        store.replace(f"progress/offsets/{batch}", planned.text.encode())

    writer = files(spark, tmp_path, "a").writeStream.foreachBatch(look).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "progress")).start().awaitTermination()
    assert met[:4] == [True, False, False, False]


def test_a_spark_that_does_not_look_for_parts_of_the_state_is_not_asked() -> None:
    """Spark 3.5 has no reporter of its own, and 4.0 has one that does not look."""
    of_3_5, of_4_0 = Mock(), Mock()
    of_3_5.progressReporter.side_effect = Py4JError("Method progressReporter([]) does not exist")
    of_4_0.progressReporter().shouldValidateStateStoreCommit.side_effect = Py4JError("does not exist")
    for query in (of_3_5, of_4_0):
        session = Mock()
        session._jsparkSession.streams().get().streamingQuery.return_value = query
        refuse_partly_read(session)
        query.lastExecution.assert_not_called()
