"""`make demo`: the whole life of a job, and a proof at the end.

Makes a history of bids and a live stream that follows it, runs `hot_bids.py` with the `rekindle` command, stops it
with a savepoint in the middle, runs it again, drains it once all is read; then compares what it wrote with a batch
query over all the bids, row for row, and with what plain Structured Streaming gets from the same two inputs. Exit code
1 if Rekindle and batch differ. Everything lies in a temporary folder that is gone afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
HISTORY_EVENTS, HISTORY_FILES = 1_000_000, 16
LIVE_EVENTS, LIVE_FILES, LIVE_EVERY_S = 400_000, 40, 1.0
BATCHES_BEFORE_STOP = 2
REKINDLE = [sys.executable, "-m", "rekindle.cli"]
DEADLINE_S = 120.0
"""No single wait takes longer, or something is wrong."""
SORT = [("start", "ascending"), ("auction", "ascending")]

console = Console()


class Demo:
    """One run of the demo, in folder `root`."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.storage = root / "state"
        self.savepoints = root / "savepoints"
        self.work = root / "work"
        # hot_bids.py reads it when it is loaded, by the command and by the comparison below.
        os.environ["HOT_BIDS_DATA"] = str(self.data)

    def make_inputs(self) -> None:
        step(f"making a history of {HISTORY_EVENTS:,} auction events")
        bids = nexmark.write_history(self.data / "history", HISTORY_EVENTS, HISTORY_FILES)
        (self.data / "live").mkdir()
        console.print(f"{bids:,} bids; {LIVE_FILES} files of live bids follow, one every {LIVE_EVERY_S:g} s")

    def run_stop_and_resume(self) -> None:
        """The job from its start to DRAINED, with a stop on the way."""
        with self.live_feed() as feed:
            with self.running_job() as job:
                wait_for("the first batches", job, lambda: self.batch() >= BATCHES_BEFORE_STOP)
                self.rekindle("stop", "hot_bids", "--savepoint", self.savepoints)
                ended(job)
            with self.running_job() as job:
                wait_for("the end of the live feed", job, lambda: feed.poll() is not None)
                if feed.returncode:
                    sys.exit("demo: the live feed failed")
                last_ms = self.last_live_ms()
                wait_for("the last live bids to be read", job, lambda: self.watermark_ms() >= last_ms - 4_000)
                self.rekindle("stop", "hot_bids", "--drain")
                ended(job)

    @contextmanager
    def live_feed(self) -> Iterator[subprocess.Popen[bytes]]:
        """Live bids arriving in the background."""
        options = {"first-event": HISTORY_EVENTS, "events": LIVE_EVENTS, "files": LIVE_FILES, "every": LIVE_EVERY_S}
        command = [sys.executable, str(HERE / "nexmark.py"), "live", str(self.data / "live")]
        command += [f"--{name}={value}" for name, value in options.items()]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as feed:
            try:
                yield feed
            finally:
                feed.terminate()

    @contextmanager
    def running_job(self) -> Iterator[subprocess.Popen[bytes]]:
        """`rekindle run`, showing its progress here."""
        with subprocess.Popen(self.command("run", HERE / "hot_bids.py")) as job:
            try:
                yield job
            finally:
                if job.poll() is None:
                    job.kill()

    def command(self, *words: str | Path) -> list[str]:
        line = [*map(str, words), "--storage", str(self.storage)]
        step(f"$ rekindle {' '.join(line)}", style="bold green")
        return [*REKINDLE, *line]

    def rekindle(self, *words: str | Path) -> None:
        subprocess.run(self.command(*words), check=True)

    def task(self) -> dict[str, Any]:
        """The job's only task, as `rekindle status --json` tells it; empty before there is one."""
        words = ["status", "hot_bids", "--json", "--storage", str(self.storage)]
        answer = subprocess.run([*REKINDLE, *words], capture_output=True, check=False)
        tasks = json.loads(answer.stdout)["tasks"] if answer.returncode == 0 else []
        return tasks[0] if tasks else {}

    def batch(self) -> int:
        return int(self.task().get("batch", -1))

    def watermark_ms(self) -> float:
        watermark = self.task().get("watermark")
        return datetime.fromisoformat(watermark.replace("Z", "+00:00")).timestamp() * 1_000 if watermark else 0.0

    def last_live_ms(self) -> float:
        """The latest event time of the live bids.

        It lies in the last file, which spans more than the disorder: once the watermark has come to it, less its delay,
        all live bids have been read.
        """
        newest = max((self.data / "live").glob("*.parquet"))
        latest = pc.max(pq.read_table(newest, columns=["ts"])["ts"])
        return float(latest.cast(pa.int64()).as_py() // 1_000)

    def compare(self) -> bool:
        """Print the table; whether Rekindle's rows are those of the batch query."""
        step("comparing with plain Structured Streaming and with a batch query on the same bids")
        from pyspark.sql import SparkSession

        from hot_bids import SCHEMA, hot_bids

        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        inputs = [str(self.data / name) for name in ("history", "live")]
        try:
            batch = hot_bids(*(spark.read.schema(SCHEMA).parquet(path) for path in inputs)).toArrow()
            plain = plain_rows(spark, hot_bids, SCHEMA, inputs, self.work)
        finally:
            spark.stop()
        ours = pq.read_table(self.data / "hot_bids")
        equal = bool(canonical(ours).equals(canonical(batch)))
        report(plain, ours.num_rows, batch.num_rows, equal)
        return equal


def plain_rows(spark: SparkSession, plan: Callable[..., DataFrame], schema: str, inputs: list[str], work: Path) -> int:
    """How many rows plain Structured Streaming writes: the same plan, a watermark on each input, all that is there."""

    def on_batch(rows: DataFrame, _: int) -> None:
        rows.write.mode("append").parquet(str(work / "plain"))

    streams = [spark.readStream.schema(schema).parquet(path).withWatermark("ts", "4 seconds") for path in inputs]
    writer = plan(*streams).writeStream.foreachBatch(on_batch).outputMode("append")
    writer.option("checkpointLocation", str(work / "progress")).trigger(availableNow=True).start().awaitTermination()
    return int(pq.read_table(work / "plain").num_rows)


def canonical(rows: pa.Table) -> pa.Table:
    """The rows in one order and with one type of timestamp, so that equal contents are equal tables."""
    schema = pa.schema(
        [("start", pa.timestamp("us", "UTC")), ("auction", pa.int64()), ("bids", pa.int64()), ("highest", pa.int64())]
    )
    return rows.select(schema.names).cast(schema).sort_by(SORT).combine_chunks()


def report(plain: int, ours: int, batch: int, equal: bool) -> None:
    table = Table(title="bids and highest price per auction and 10 seconds")
    table.add_column("computed by")
    table.add_column("rows", justify="right")
    table.add_column("")
    missing = f"{batch - plain:,} missing" if plain < batch else ""
    table.add_row("plain Structured Streaming", f"{plain:,}", missing, style="yellow")
    verdict = "equal to batch, row for row" if equal else "NOT equal to batch"
    table.add_row("Rekindle, stopped and resumed", f"{ours:,}", verdict, style="green" if equal else "bold red")
    table.add_row("a batch query over everything", f"{batch:,}", "")
    console.print()
    console.print(table)


def step(text: str, style: str = "bold") -> None:
    console.print(f"\n{text}", style=style, highlight=False, soft_wrap=True)


def wait_for(what: str, job: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
    """Wait while the job runs; ends the demo if the job ends first, or takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        if job.poll() is not None:
            sys.exit(f"demo: the job ended ({job.returncode}) before {what}")
        if time.monotonic() > deadline:
            sys.exit(f"demo: waited {DEADLINE_S:g} s for {what}")
        time.sleep(0.5)


def ended(job: subprocess.Popen[bytes]) -> None:
    """The job was told to end: it does so, and well."""
    if job.wait(DEADLINE_S):
        sys.exit(f"demo: the job ended with exit code {job.returncode}")


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rekindle-demo-") as folder:
        demo = Demo(Path(folder))
        demo.make_inputs()
        demo.run_stop_and_resume()
        equal = demo.compare()
    console.print(f"in {time.monotonic() - began:.0f} s", style="dim")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
