"""A job that fails, or cancels itself, and whose Spark says much; where its folders are says the environment."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import INTERPRETED, QUICK, World, until

world = World(Path(os.environ["FAILING_WORLD"]))
job = rk.Job("failing")
history = job.source("history", world.files(), event_time="ts")


@job.task(history)
def counted(history):  # type: ignore[no-untyped-def]
    def fail(value: int) -> int:
        raise ValueError("no such customer")

    return history.select("k", F.udf(fail, LongType())("v").alias("v"))


job.sink("out", counted, rk.sinks.Parquet(world.out))


def cancel_once_it_waits() -> None:
    storage = JobStorage(open_store(world.storage), "failing")
    until(lambda: (status := storage.status()) is not None and status.restarts > 0)
    rk.JobHandle(storage).cancel()


if __name__ == "__main__":
    cancel = "FAILING_CANCEL" in os.environ
    if cancel:
        threading.Thread(target=cancel_once_it_waits, daemon=True).start()
    attempts = {"restart.attempts": "unlimited" if cancel else "0"}
    small = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **INTERPRETED}
    job.run(storage=world.storage, config=QUICK | attempts, spark_config=small)
