"""The program of a user, for the type checker alone: it is never run.

`make check` runs mypy over it. What is right must pass; on each line of `faults`, mypy must find the fault that the
comment names, because it reports a comment that ignores nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import rekindle as rk

job = rk.Job("typed")
bids = job.source("bids", rk.Files("data"), event_time="ts", late="drop")


@job.task(bids, output_mode="append")
def hourly(rows: DataFrame, factor: int = 1) -> DataFrame:
    return rows


job.sink("out", hourly, rk.sinks.Parquet("out"))


def uses(rows: DataFrame) -> None:
    handle = job.start(restore=3)
    job.run(restore=handle.savepoint(), spark_config={"spark.ui.enabled": "false"})
    job.start(restore=handle.checkpoint()).stop(drain=True).state.lower()
    hourly(rows, factor=2).count()


export = rk.Files("export")
at = {"clicks": {0: 5}}
job.source("clicks", rk.sources.Hybrid(export, then=rk.sources.Kafka("broker:9092", "clicks", start=at)))
job.source("old", rk.sources.Kafka("broker:9092", "clicks", end=at), event_time="ts")


def faults(rows: DataFrame) -> None:
    print(rk.Filez)  # type: ignore[attr-defined]
    print(rk.sinks.Postgress)  # type: ignore[attr-defined]
    rk.sources.Hybrid(export, then=rk.sources.Kafka("broker:9092", "clicks", end=at))  # type: ignore[arg-type]
    job.source("more", rk.Files("data"), late="dorp")  # type: ignore[arg-type]
    job.task(bids, output_mode="apend")  # type: ignore[arg-type]
    job.run(mode="steaming")  # type: ignore[arg-type]
    job.run(allow_draind=True)  # type: ignore[call-arg]
    job.start(restore=1.5)  # type: ignore[arg-type]
    hourly(1, factor=2)  # type: ignore[arg-type]
    hourly(rows, factr=2)  # type: ignore[call-arg]
    job.start().checkpoint() + 1  # type: ignore[operator]
    print(job.start().savepoint().checkpont)  # type: ignore[attr-defined]
    job.start().checkpoint().number = 2  # type: ignore[misc]
