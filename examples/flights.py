"""Real data: departures and mean delay for each origin airport and day, from US flights of 2001.

    python examples/flights_data.py FLIGHTS.json demo-data/flights
    rekindle run examples/flights.py

The history is JSON in files of no particular order, whose event time is a text to be parsed: ``transform=`` does that
below the watermark. The last week arrives as a stream. ``FLIGHTS_DATA`` names another folder than
``demo-data/flights``. The stream never ends: ``rekindle stop flights --drain`` ends the job with every day counted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import rekindle as rk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(os.environ.get("FLIGHTS_DATA", "demo-data/flights")).absolute()
SCHEMA = "date string, delay long, distance long, origin string, destination string"

job = rk.Job("flights")


def with_departure(flights: DataFrame) -> DataFrame:
    return flights.withColumn("departure", F.to_timestamp("date", "yyyy/MM/dd HH:mm"))


def last_week(spark: SparkSession) -> DataFrame:
    return with_departure(spark.readStream.schema(SCHEMA).json(str(DATA / "live")))


history = job.source(
    "history",
    rk.Files(str(DATA / "history"), format="json", schema=SCHEMA, transform=with_departure),
    event_time="departure",
)
live = job.source("live", rk.Stream(last_week), event_time="departure", watermark="1 hour")


@job.task(history, live)
def by_day(history: DataFrame, live: DataFrame) -> DataFrame:
    return (
        history.unionByName(live)
        .groupBy(F.window("departure", "1 day"), "origin")
        .agg(F.count("*").alias("departures"), F.avg("delay").alias("mean_delay"))
        .select(F.to_date("window.start").alias("day"), "origin", "departures", "mean_delay")
    )


job.sink("delays", by_day, rk.sinks.Parquet(str(DATA / "delays")))

if __name__ == "__main__":
    job.run()
