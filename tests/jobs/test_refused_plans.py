"""Plans that Spark takes as the query starts, and refuses as it plans the first batch: no restart would mend them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

import rekindle as rk
from tests.jobs.kit import World, rows


def test_a_plan_that_spark_refuses_with_its_first_batch_ends_the_job(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 3))
    hour = F.window("ts", "1 hour")

    def without_equality(history: Any) -> Any:
        later = history.select(F.col("v").alias("w"), F.col("ts").alias("later"))
        return history.crossJoin(later).where("later > ts")

    def pandas_groups(history: Any) -> Any:
        kind: Any = PandasUDFType.GROUPED_AGG
        mean = pandas_udf(lambda values: float(values.mean()), "double", kind)
        return history.groupBy(hour, "k").agg(mean("v").alias("v"))

    def two_times(history: Any) -> Any:
        counts = history.groupBy(hour, "k").count()
        return counts.join(history.select(hour, "k", "v", "ts"), ["window", "k"])

    def sessions_of_all(history: Any) -> Any:
        return history.groupBy(F.session_window("ts", "1 hour")).count()

    def code_of(function: Any) -> tuple[str, str]:
        job = rk.Job(function.__name__)
        history = job.source("history", world.files(), event_time="ts")
        job.sink("out", job.task(history)(function), rk.sinks.Parquet(world.out / job.name))
        config = {"checkpoint.interval": "0", "restart.attempts": "1", "restart.delay": "100 ms"}
        result = job.start(spark, storage=world.storage, config=config).wait()
        assert result.error is not None
        return result.state, result.error["code"]

    jobs = (without_equality, pandas_groups, two_times, sessions_of_all)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(code_of, jobs))

    assert found == [("FAILED", "QUERY_REFUSED")] * len(jobs)
