"""The operators of a query that keep state, as a start compares them: Spark's own report of a batch is the oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rekindle.spark.plans.description import description_of
from rekindle.spark.query.optimizer import same_for_each_batch, started_with
from tests.jobs.kit import DDL, rows, write
from tests.versions import older_than

Frame = Any


def counted(group: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    for frame in frames:
        state.update((len(frame),))
        yield frame


def selected(frame: Frame) -> Frame:
    frame.createOrReplaceTempView("described_state")
    return frame.sparkSession.sql("SELECT DISTINCT ts, k, v FROM described_state")


STEPS: Mapping[str, Callable[[Frame, Frame, Frame], Frame]] = {
    "filter": lambda rows, other, table: rows.filter("v > 0").withColumn("v", F.col("v") + 1),
    "union": lambda rows, other, table: rows.unionByName(other),
    "windows": lambda rows, other, table: (
        rows.groupBy(F.window("ts", "1 hour"), "k")
        .agg(F.sum("v").alias("v"))
        .select(F.window_time("window").alias("ts"), "k", "v")
    ),
    "sessions": lambda rows, other, table: (
        rows.groupBy(F.session_window("ts", "1 hour"), "k")
        .agg(F.sum("v").alias("v"))
        .select(F.col("session_window.start").alias("ts"), "k", "v")
    ),
    "groups": lambda rows, other, table: rows.groupBy("k").agg(F.max("ts").alias("ts"), F.sum("v").alias("v")),
    "distinct": lambda rows, other, table: rows.distinct(),
    "select distinct": lambda rows, other, table: selected(rows),
    "deduplicated": lambda rows, other, table: rows.dropDuplicates(["ts", "k"]),
    "deduplicated for a while": lambda rows, other, table: rows.dropDuplicatesWithinWatermark(["k"]),
    "joined": lambda rows, other, table: rows.join(other.select("ts", "k"), ["ts", "k"]),
    "half of them joined": lambda rows, other, table: rows.join(other.select("ts", "k"), ["ts", "k"], "left_semi"),
    "joined with a table": lambda rows, other, table: rows.join(table.select("ts", "k"), ["ts", "k"]),
    "limited": lambda rows, other, table: rows.limit(5),
    "kept": lambda rows, other, table: rows.groupBy("k").applyInPandasWithState(
        counted, DDL, "n long", "append", "NoTimeout"
    ),
}

pytestmark = pytest.mark.skipif(older_than("4.0"), reason="Spark 3.5 does not name all of them")

NAMES = {
    "stateStoreSave": "aggregate",
    "sessionWindowStateStoreSaveExec": "aggregate",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "symmetricHashJoin": "join",
    "globalLimit": "limit",
    "applyInPandasWithState": "applyInPandasWithState",
}
"""Spark's names for its operators → ours."""


@pytest.fixture
def inputs(spark: SparkSession, tmp_path: Path) -> tuple[Frame, Frame, Frame]:
    """Two streams with a watermark, and a table."""
    for name in "one", "other":
        write(tmp_path / name, "rows.parquet", rows(0, 9))
    read = spark.readStream.schema(DDL)
    one, other = (read.parquet(str(tmp_path / name)).withWatermark("ts", "1 minute") for name in ("one", "other"))
    return one, other, spark.read.parquet(str(tmp_path / "one"))


def kept(query: Frame, mode: str, folder: Path) -> Counter[str] | None:
    """The operators that Spark reports; None if it does not run the query."""
    writer = query.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(folder))
    try:
        with started_with(query.sparkSession, same_for_each_batch(query)):
            running = writer.start()
    except AnalysisException:
        return None
    try:
        running.processAllAvailable()
    except StreamingQueryException:
        return None
    finally:
        running.stop()
    reported = running.recentProgress[0]["stateOperators"]
    return Counter(NAMES[operator["operatorName"]] for operator in reported)


@pytest.mark.parametrize(
    ("steps", "kinds"), [(("limited", "groups"), {"limit", "aggregate"}), (("groups", "limited"), {"aggregate"})]
)
def test_a_limit_of_whole_results_keeps_no_state(
    inputs: tuple[Frame, Frame, Frame], tmp_path: Path, steps: tuple[str, str], kinds: set[str]
) -> None:
    query = inputs[0]
    for step in steps:
        query = STEPS[step](query, *inputs[1:])
    assert set(description_of(query, "complete").kinds or ()) == kinds
    assert kept(query, "complete", tmp_path / "progress") == Counter(kinds)


def compare(inputs: tuple[Frame, Frame, Frame], folder: Path, seeds: range) -> int:
    """Return how many of these random queries Spark has run."""
    ran = 0
    for seed in seeds:
        dice = random.Random(seed)
        steps = dice.sample(list(STEPS), k=dice.randint(1, 3))  # of a limit of a limit Spark makes one
        mode = dice.choice(["append", "append", "update", "complete"])
        query = inputs[0]
        try:
            for step in steps:
                query = STEPS[step](query, *inputs[1:])
        except AnalysisException:
            continue
        found = kept(query, mode, folder / str(seed))
        if found is None:
            continue
        ran += 1
        assert Counter(description_of(query, mode).kinds) == found, (seed, steps, mode)
    return ran


def test_the_operators_with_state_of_random_queries_are_those_that_spark_reports(
    inputs: tuple[Frame, Frame, Frame], tmp_path: Path
) -> None:
    assert compare(inputs, tmp_path / "progress", range(20)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(5))
def test_the_operators_with_state_of_many_random_queries_are_those_that_spark_reports(
    inputs: tuple[Frame, Frame, Frame], tmp_path: Path, chunk: int
) -> None:
    first = 20 + 60 * chunk
    assert compare(inputs, tmp_path / "progress", range(first, first + 60)) >= 20
