"""A job whose Spark is killed, or that is told to end together with it; where its folders are says the environment."""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk
from rekindle.session import lifeline
from rekindle.session.lifeline import LifelinePauses
from tests.jobs.kit import INTERPRETED, QUICK, World

same = F.udf(lambda value: value, LongType())  # at the top: it must outlive the JVM that it was first used in


def job_of(world: World) -> rk.Job:
    """Rows per hour and key, counted by Python workers."""
    job = rk.Job("dying")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

    @job.task(live)
    def counted(live):  # type: ignore[no-untyped-def]
        return live.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum(same("v")).alias("v"))

    job.sink("out", counted, rk.sinks.Parquet(world.out))
    return job


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # prints what all threads do
    lifeline.USUAL = LifelinePauses(hang_s=float(os.environ.get("DYING_HANG_S", lifeline.USUAL.hang_s)))
    world = World(Path(os.environ["DYING_WORLD"]))
    mine = os.environ.get("DYING_SESSION") == "mine"
    small = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **INTERPRETED}
    spark = SparkSession.builder.config(map=small).getOrCreate() if mine else None
    config = None if mine else small
    print(job_of(world).run(spark, storage=world.storage, config=QUICK, spark_config=config).state)
