"""`make demo`: the whole life of a job, and a proof at the end.

Make a history of bids and a live stream that follows it. Run `hot_bids.py` with the `rekindle` command, show its first
rows, stop it with a savepoint, run it again, and drain it once all is read. Then compare its rows with a batch query
over all the bids, and with what plain Structured Streaming gets from the same two inputs. The exit code is 1 if
Rekindle and batch differ. Everything lies in a temporary folder, which is deleted at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
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
from rekindle.session.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
HISTORY_EVENTS, HISTORY_FILES = 500_000, 16
LIVE_EVENTS, LIVE_FILES, LIVE_EVERY_S = 150_000, 30, 1.0
FIRST_ROWS = 5
REKINDLE = [sys.executable, "-m", "rekindle.cli"]
POLL_S = 1.0
DEADLINE_S = 600.0
"""A wait that takes longer fails the demo."""
SORT = [("start", "ascending"), ("auction", "ascending")]

console = Console(highlight=False)


class Demo:
    """One run of the demo, in folder `root`, where all commands are run."""

    def __init__(self, root: Path) -> None:
        self.began = time.monotonic()
        self.root = root
        self.data = root / "demo-data"
        # Also of the comparison, which runs in this process, in the folder of whoever has started it.
        os.environ.setdefault("REKINDLE_LOGS", str(root / "rekindle-logs"))
        # The folders are the defaults of the command and of the job file.
        self.env = {k: v for k, v in os.environ.items() if k not in ("REKINDLE_STORAGE", "HOT_BIDS_DATA")}
        # The job prints lines, and does not redraw the terminal: the demo prints there too.
        self.env["TERM"] = "dumb"

    def make_inputs(self) -> None:
        bids = nexmark.write_history(self.data / "history", HISTORY_EVENTS, HISTORY_FILES)
        (self.data / "live").mkdir()
        shutil.copy(HERE / "hot_bids.py", self.root)
        step(f"A history of {bids:,} bids is there; live bids begin to follow, a file a second.")

    def run_stop_and_resume(self) -> None:
        """Run the job from its start to DRAINED, with a stop on the way."""
        with self.live_feed() as feed:
            step("Run the job, and stop it with a savepoint while live bids come in.")
            with self.running_job() as job:
                wait_for("the first rows", job, lambda: self.written().num_rows > 0)
                self.show_first_rows()
                self.ask(job, "stop", "hot_bids", "--savepoint", "savepoints")
            console.print(f"[dim]{self.written().num_rows:,} rows are committed so far.[/dim]")

            step("Run it again: it resumes where it stopped. Drain it when all is read.")
            with self.running_job() as job:
                # The status may still be that of the first run, which may have read all live bids.
                wait_for("the second run", job, lambda: self.runs(2))
                wait_for("the end of the live feed", job, lambda: feed.poll() is not None)
                if feed.returncode:
                    sys.exit("demo: the live feed failed")
                last_ms = self.last_live_ms()
                wait_for("the last live bids to be read", job, lambda: self.watermark_ms() >= last_ms - 4_000)
                self.ask(job, "stop", "hot_bids", "--drain")

    @contextmanager
    def live_feed(self) -> Iterator[subprocess.Popen[bytes]]:
        """Live bids arriving in the background."""
        options = {"first-event": HISTORY_EVENTS, "events": LIVE_EVENTS, "files": LIVE_FILES, "every": LIVE_EVERY_S}
        command = [sys.executable, str(HERE / "nexmark.py"), "live", str(self.data / "live")]
        command += [f"--{name}={value}" for name, value in options.items()]
        # In a session of its own it does not hear a Ctrl-C, which is for the job and for us.
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as feed:
            try:
                yield feed
            finally:
                feed.terminate()

    @contextmanager
    def running_job(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start `rekindle run`, which shows its progress here, and end it when the block ends."""
        words = ["run", "hot_bids.py", "--set", "checkpoint.interval=5 seconds"]
        echo(*words)
        with subprocess.Popen([*REKINDLE, *words], cwd=self.root, env=self.env) as job:
            try:
                yield job
            finally:
                if job.poll() is None:
                    job.terminate()
                    try:
                        job.wait(20)
                    except subprocess.TimeoutExpired:
                        job.kill()

    def ask(self, job: subprocess.Popen[bytes], *words: str) -> None:
        """Ask the job to end, as from another terminal, and show the answer when the job has ended."""
        answer = self.rekindle(*words)
        code = job.wait(DEADLINE_S)
        console.print("\n[dim]meanwhile, in another terminal:[/dim]")
        echo(*words)
        console.print(answer.stdout + answer.stderr, end="", markup=False, soft_wrap=True)
        if answer.returncode or code:
            sys.exit(f"demo: the job ended with exit code {code}")

    def rekindle(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*REKINDLE, *words]
        return subprocess.run(command, cwd=self.root, env=self.env, capture_output=True, text=True, check=False)

    def status(self) -> dict[str, Any]:
        """Return the job as `rekindle status --json` shows it; empty before there is one."""
        answer = self.rekindle("status", "hot_bids", "--json")
        return dict(json.loads(answer.stdout)) if answer.returncode == 0 else {}

    def runs(self, run: int) -> bool:
        """Return True if the driver of this run is running."""
        status = self.status()
        return (status.get("run"), status.get("state")) == (run, "RUNNING")

    def task(self) -> dict[str, Any]:
        """Return the only task of the job; empty before there is one."""
        tasks = self.status().get("tasks")
        return dict(tasks[0]) if tasks else {}

    def watermark_ms(self) -> float:
        watermark = self.task().get("watermark")
        return datetime.fromisoformat(watermark.replace("Z", "+00:00")).timestamp() * 1_000 if watermark else 0.0

    def last_live_ms(self) -> float:
        """Return the latest event time of the live bids.

        It lies in the last file, which spans more than the disorder: when the watermark has reached it, less its delay,
        all live bids have been read.
        """
        newest = max((self.data / "live").glob("*.parquet"))
        latest = pc.max(pq.read_table(newest, columns=["ts"])["ts"])
        return float(latest.cast(pa.int64()).as_py() // 1_000)

    def written(self) -> pa.Table:
        """Return the rows that the job has committed."""
        target = self.data / "hot_bids"
        return pq.read_table(target) if target.exists() else pa.table({})

    def show_first_rows(self) -> None:
        """Print some rows, and how long they took."""
        rows = self.written().sort_by(SORT).slice(0, FIRST_ROWS).to_pylist()
        table = Table(title=f"The first rows, {time.monotonic() - self.began:.0f} s after the start")
        for name in rows[0]:
            table.add_column(name)
        for row in rows:
            table.add_row(*map(str, row.values()))
        console.print(table)

    def compare(self) -> bool:
        """Print the comparison, and return True if Rekindle's rows are those of the batch query."""
        step("Compare with plain Structured Streaming, and with a batch query over it all.")
        from hot_bids import SCHEMA, per_auction

        spark = make_session("comparison", {})
        inputs = [str(self.data / name) for name in ("history", "live")]
        try:
            batch = per_auction(*(spark.read.schema(SCHEMA).parquet(path) for path in inputs)).toArrow()
            plain = plain_rows(spark, per_auction, SCHEMA, inputs, self.root)
        finally:
            spark.stop()
        ours = self.written()
        equal = bool(canonical(ours).equals(canonical(batch)))
        report(plain, ours.num_rows, batch.num_rows, equal)
        return equal


def plain_rows(spark: SparkSession, plan: Callable[..., DataFrame], schema: str, inputs: list[str], work: Path) -> int:
    """Count the rows that plain Structured Streaming writes: the same plan, a watermark on each input."""
    streams = [spark.readStream.schema(schema).parquet(path).withWatermark("ts", "4 seconds") for path in inputs]
    writer = plan(*streams).writeStream.format("parquet").option("checkpointLocation", str(work / "plain-progress"))
    writer.trigger(availableNow=True).start(str(work / "plain")).awaitTermination()
    return int(pq.read_table(work / "plain").num_rows)


def canonical(rows: pa.Table) -> pa.Table:
    """Return the rows in one order and with one type of timestamp, so that equal contents are equal tables."""
    schema = pa.schema(
        [("start", pa.timestamp("us", "UTC")), ("auction", pa.int64()), ("bids", pa.int64()), ("highest", pa.int64())]
    )
    return rows.select(schema.names).cast(schema).sort_by(SORT).combine_chunks()


def report(plain: int, ours: int, batch: int, equal: bool) -> None:
    table = Table(title="Bids and highest price per auction and 10 seconds")
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


def step(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]", soft_wrap=True)


def echo(*words: str) -> None:
    console.print(f"$ rekindle {shlex.join(words)}", style="green", soft_wrap=True)


def wait_for(what: str, job: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
    """Wait while the job runs; end the demo if the job ends first, or takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        if job.poll() is not None:
            sys.exit(f"demo: the job ended ({job.returncode}) before {what}")
        if time.monotonic() > deadline:
            sys.exit(f"demo: waited {DEADLINE_S:g} s for {what}")
        time.sleep(POLL_S)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="rekindle-demo-", ignore_cleanup_errors=True) as folder:
        demo = Demo(Path(folder).resolve())
        demo.make_inputs()
        demo.run_stop_and_resume()
        equal = demo.compare()
    console.print(f"[dim]{time.monotonic() - demo.began:.0f} s[/dim]")
    return 0 if equal else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
