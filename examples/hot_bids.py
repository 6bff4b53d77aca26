"""The flagship job: how many bids, and the highest, each auction had in each 10 seconds, over history and live stream.

    rekindle run examples/hot_bids.py

reads ``demo-data/history`` (Parquet, ends) and ``demo-data/live`` (a folder where files keep arriving) and writes
``demo-data/hot_bids``; ``HOT_BIDS_DATA`` names another folder than ``demo-data``. `nexmark.py` makes both inputs, and
`demo.py` shows the whole life of the job.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import rekindle as rk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(os.environ.get("HOT_BIDS_DATA", "demo-data")).absolute()
SCHEMA = "auction long, bidder long, price long, channel string, url string, ts timestamp"

job = rk.Job("hot_bids")


def live_bids(spark: SparkSession) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(DATA / "live"))


history = job.source("history", rk.Files(str(DATA / "history"), format="parquet"), event_time="ts")
live = job.source("live", rk.Stream(live_bids), event_time="ts", watermark="4 seconds")


@job.task(history, live)
def per_auction(history: DataFrame, live: DataFrame) -> DataFrame:
    return (
        history.unionByName(live)
        .groupBy(F.window("ts", "10 seconds"), "auction")
        .agg(F.count("*").alias("bids"), F.max("price").alias("highest"))
        .select(F.col("window.start").alias("start"), "auction", "bids", "highest")
    )


job.sink("hot_bids", per_auction, rk.sinks.Parquet(str(DATA / "hot_bids")))

if __name__ == "__main__":
    job.run()
