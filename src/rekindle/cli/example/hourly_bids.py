import rekindle as rk
from pyspark.sql import functions as F

BIDS = "ts timestamp, auction long"

job = rk.Job("hourly_bids")
history = job.source("history", rk.Files("bids/history", schema=BIDS), event_time="ts")
live = job.source(
    "live",
    rk.Stream(lambda spark: spark.readStream.schema(BIDS).parquet("bids/live")),
    event_time="ts",
    watermark="4 seconds",
)


@job.task(history, live)
def hourly(history, live):
    return history.unionByName(live).groupBy(F.window("ts", "1 hour"), "auction").agg(F.count("*").alias("bids"))


job.sink("hourly_bids", hourly, rk.sinks.Parquet("out/hourly"))

if __name__ == "__main__":
    job.run()
