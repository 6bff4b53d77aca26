"""`make bench-pipeline`, backlog: how long a checkpoint takes with a slow task behind more than 2 GB of unread data.

`produce` writes rows of 1 MB as fast as its channel takes them; `slow` reads them and sleeps a little over each.
`channel.max_in_flight_bytes` is raised, so the channel holds more than 2 GB all the time. Then checkpoints are ordered,
one after the other, in three ways: aligned, so that `slow` reads all in front of the barrier first; aligned with a
time-out of two seconds, after which the checkpoint goes on unaligned; and unaligned, where it names what is in flight.

A checkpoint takes from its trigger until its manifest exists, both by the driver's clock. Each way is a job of its own.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import rekindle as rk
from measuring import MB, SETTINGS, arguments, middle, publish, settled, where
from rekindle.session.session import make_session
from rekindle.storage import layout
from rekindle.storage.documents.batch import ChannelPosition
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BACKLOG_BYTES = 2_000 * MB
ROWS_A_BATCH, ROW_BYTES, SLEEP_MS = 128, MB, 40
BETWEEN_S = 0.5
"""Between one checkpoint and the next."""

WAYS: dict[str, tuple[dict[str, str], int]] = {
    "unaligned": ({"checkpoint.mode": "unaligned"}, 20),
    "aligned": ({"checkpoint.mode": "aligned"}, 1),
    "aligned, time-out 2 s": ({"checkpoint.mode": "aligned", "checkpoint.aligned_timeout": "2 seconds"}, 1),
}
"""Way → settings, and how many times the runs are."""

SPARK = {
    **SETTINGS,
    # What `slow` sleeps in is no core.
    "spark.master": "local[4]",
    # The rows would shrink to nothing.
    "spark.sql.parquet.compression.codec": "uncompressed",
}


def define(work: Path) -> rk.Job:
    """Define a job of two tasks, the second slower than the first."""
    job = rk.Job("backlog")
    numbers = rk.Stream(
        lambda spark: spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    )

    @job.task(job.source("numbers", numbers))
    def produce(numbers: DataFrame) -> DataFrame:
        payload = F.rpad(F.col("value").cast("string"), ROW_BYTES, "x")
        return numbers.select("value", payload.alias("payload"))

    @job.task(produce)
    def slow(rows: DataFrame) -> DataFrame:
        slept = F.expr(f"java_method('java.lang.Thread', 'sleep', cast({SLEEP_MS} + value * 0 AS long))")
        # Two sleep at a time, so that half of the cores are left to `produce`.
        return rows.coalesce(2).filter(F.length("payload") > 0).withColumn("slept", slept).select("value", "slept")

    job.sink("out", slow, rk.sinks.Parquet(work / "out"))
    return job


def unread(storage: JobStorage) -> int:
    """Return the bytes that `slow` has still to read."""
    produce, slow = (layout.subtask(storage.job, uid, 0, 1) for uid in ("produce", "slow"))
    record = storage.last_record(slow)
    channels = record.inputs["produce"].channels if record else {}
    read = channels.get(0, ChannelPosition())
    batches = [storage.record(produce, batch) for batch in storage.records(produce) if batch >= read.batches]
    sizes = [segment.size for batch in batches if batch for segment in batch.segments]
    return sum(sizes[read.segment :])


def measure(spark: SparkSession, work: Path, config: dict[str, str], runs: int) -> list[Manifest]:
    """Take so many checkpoints behind the backlog."""
    settings = {
        **config,
        "checkpoint.interval": "0",
        "checkpoint.retained": "1",
        "channel.max_in_flight_bytes": f"{BACKLOG_BYTES + 200 * MB} b",
    }
    handle = define(work).start(spark, storage=str(work / "state"), config=settings)
    storage = JobStorage(open_store(str(work / "state")), "backlog")
    manifests = []
    for _ in range(runs):
        while unread(storage) < BACKLOG_BYTES or storage.last_record(layout.subtask("backlog", "slow", 0, 1)) is None:
            time.sleep(0.2)
        manifest = storage.manifest(handle.checkpoint().number)
        assert manifest is not None, "it is the newest"
        manifests.append(manifest)
        print(f"  {seconds(manifest):.2f} s, {manifest.in_flight_bytes / MB:,.0f} MB in flight", flush=True)
        time.sleep(BETWEEN_S)
    handle.cancel()
    handle.wait()
    return manifests


def seconds(manifest: Manifest) -> float:
    """Return the seconds from a checkpoint's trigger to its manifest."""
    return (manifest.completed_ms - manifest.triggered_ms) / 1000


def main() -> None:
    given = arguments("Checkpoints behind a backlog.").parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SPARK)
    found: dict[str, list[Manifest]] = {}
    for way, (config, times) in WAYS.items():
        print(way, flush=True)
        with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
            found[way] = measure(spark, Path(folder), config, given.runs * times)
    aligned = middle([seconds(one) for one in found["aligned"]])
    rows = []
    for way, manifests in found.items():
        durations = sorted(seconds(one) for one in manifests)
        in_flight = middle([one.in_flight_bytes for one in manifests])
        rows.append(
            f"| {way} | {len(durations)} | {middle(durations):.2f} | {durations[len(durations) * 99 // 100]:.2f} "
            f"| {durations[-1]:.2f} | {in_flight / MB:,.0f} | {aligned / middle(durations):.0f} |"
        )
    text = f"""\
| checkpoints | runs | median s | p99 s | most s | MB in flight | times as fast as aligned |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

- more than {BACKLOG_BYTES / MB:,.0f} MB unread at the trigger of each
{where(spark, load_before)}"""
    spark.stop()
    publish("backlog", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
