"""A tiny pipeline, left alone for weeks' worth of batches at full speed; what it keeps is measured all along.

``python -m tests.soak.soak FOLDER --batches 20000`` runs it, writes ``FOLDER/samples.jsonl`` and the JVM's class
histograms as it goes, and ``FOLDER/report.md`` at the end. It exits with 1 where a figure has grown, or rows are
missing or there twice. `make soak` runs it as a test.

    live (file stream) ─┬─► count ── hourly sums ────────────────► daily ──► Parquet
                        └─► quiet ── a channel that stays empty ──┘

One file of the stream is one batch of `count` and of `quiet`; its time lies half an hour after the one before, in the
file system too, so that Spark forgets files after their 7 days. Batches are counted over all tasks. Someone asks for a
checkpoint after every 20 batches; one request in three is not waited for, and one in fifty is for a savepoint. There
are no periodic checkpoints, so that a machine that is busier for a while changes nothing but the time it takes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

import rekindle as rk
from rekindle.history.log import CHECKPOINTS, EVENTS, RATES
from rekindle.history.writer import SEGMENT_BYTES
from rekindle.logs.pieces import PIECES
from rekindle.runtime import client
from rekindle.spark.query import kept_batches
from rekindle.spark.session.session import make_session
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store
from tests.jobs.kit import committed
from tests.soak.curves import Bound, Verdict, growers, verdicts

JOB = "soak"
ROWS = 6
SPACING = dt.timedelta(minutes=30)
AHEAD = 30
"""Files that lie ready."""
KEPT_FILES = 200
"""Files that were read and lie there still: a task that is started again may read them once more."""
BATCHES_A_REQUEST = 20
REQUESTS_A_SAVEPOINT = 50
ROOM = 150
"""Batches that one start of a query goes on for; 2,000 outside of here: growth from start to start has to show."""
HISTOGRAMS = 3
"""Of the JVM's heap, for each sample: the smallest counts."""
SAMPLES = 40
"""At least; a long run has one after every so many batches:"""
BATCHES_A_SAMPLE = 250

FILLING = ("history", "logs")
"""Folders of a job that fill up to a size of their own and stay there."""
SEGMENTS = sum(kind.keep + 1 for kind in (EVENTS, CHECKPOINTS, RATES)) + PIECES + 1
"""The most that they hold, in files of at most 256 KB, one of each being deleted."""

BOUNDS = {
    "filling_files": Bound(-1, SEGMENTS),
    "filling_bytes": Bound(-1, SEGMENTS * SEGMENT_BYTES),
    "files": Bound(0.10, 60),
    "bytes": Bound(0.10, 200_000),
    "reads_a_checkpoint": Bound(0.20, 10),
    "driver_rss": Bound(0.05, 4_000_000),
    "driver_objects": Bound(0.03, 3_000),
    "driver_blocks": Bound(0.03, 10_000),
    "driver_threads": Bound(0.10, 5),
    "driver_handles": Bound(0.10, 5),
    "jvm_heap": Bound(0.05, 2_000_000),
    "jvm_classes": Bound(0.03, 300),
    "jvm_threads": Bound(0.10, 5),
    "jvm_handles": Bound(0.10, 20),
}
"""What has to stay flat."""

_KINDS_SHOWN = 8


class Reads:
    """Counts what Rekindle reads and lists of tasks and checkpoints; not what it looks at by the clock."""

    def __init__(self) -> None:
        self.number = 0
        for name in ("open", "names", "walk"):
            self._count(name, getattr(LocalStore, name))

    def _count(self, name: str, original: Callable[..., Any]) -> None:
        def counted(store: LocalStore, path: str) -> Any:
            ours = path.startswith((f"{JOB}/tasks", f"{JOB}/checkpoints"))
            if ours and not threading.current_thread().name.startswith(("soak", "Main")):
                self.number += 1
            return original(store, path)

        setattr(LocalStore, name, counted)


class Soak:
    """One run."""

    def __init__(self, folder: Path, batches: int, minutes: float, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.target = batches
        self.seconds = minutes * 60
        self.live, self.out, self.saves = folder / "live", folder / "out", folder / "saves"
        self.live.mkdir(parents=True)
        self.storage = folder / "storage"
        self.samples: list[dict[str, Any]] = []
        self._reads = Reads()
        self._settings = settings
        self._written = self._deleted = 0
        self._requests = self._savepoints = 0
        self._read_before = self._checkpoints_before = 0
        self._over = threading.Event()
        self._first_time = round(time.time() - 5 * 365 * 86_400)
        self.failure: BaseException | None = None

    # -- the job ------------------------------------------------------------------------------------------------------

    def define(self) -> rk.Job:
        from pyspark.sql import functions as F

        schema, folder = "ts timestamp, k string, v long", str(self.live)
        job = rk.Job(JOB)
        read = rk.Stream(lambda spark: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder))
        live = job.source("live", read, event_time="ts", watermark="1 minute")

        @job.task(live, event_time="ts", watermark="1 hour")
        def count(rows: Any) -> Any:
            sums = rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
            return sums.select(F.col("window.start").alias("ts"), "k", "v")

        @job.task(live, event_time="ts")
        def quiet(rows: Any) -> Any:
            return rows.filter("v < 0").select("ts", "k", "v")

        @job.task(count, quiet)
        def daily(sums: Any, nothing: Any) -> Any:
            return sums.unionByName(nothing).groupBy(F.window("ts", "1 day"), "k").agg(F.sum("v").alias("v"))

        job.sink("out", daily, rk.sinks.Parquet(self.out))
        return job

    # -- around it ----------------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Keep some files ready, and take away those that were read long ago."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        start = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
        try:
            while not self._over.wait(0.1):
                read = self.files_read()
                while self._written < read + AHEAD:
                    number = self._written
                    times = [start + number * SPACING + dt.timedelta(seconds=row) for row in range(ROWS)]
                    keys = ["abc"[row % 3] for row in range(ROWS)]
                    path = self.live / f"{number:06d}.parquet"
                    hidden = path.with_name(f".{path.name}")
                    pq.write_table(pa.table({"ts": times, "k": keys, "v": [1] * ROWS}), hidden)
                    written = self._first_time + number * round(SPACING.total_seconds())
                    os.utime(hidden, (written, written))
                    hidden.rename(path)
                    self._written += 1
                for number in range(self._deleted, max(read - KEPT_FILES, 0)):
                    (self.live / f"{number:06d}.parquet").unlink()
                    self._deleted = number + 1
        except BaseException as error:
            self.failure = error

    def files_read(self) -> int:
        """How many files both readers of the stream have read."""
        positions = [
            task.inputs["live"].position for task in self.handle.status().tasks if task.uid in ("count", "quiet")
        ]
        return min(position["logOffset"] + 1 if position else 0 for position in positions)

    def batches(self) -> int:
        """Batches so far, of all tasks."""
        return sum(task.batch + 1 for task in self.handle.status().tasks)

    def ask(self) -> None:
        """Ask for a checkpoint, or a savepoint, wait for it or not."""
        self._requests += 1
        if self._requests % REQUESTS_A_SAVEPOINT == 0:
            self.handle.savepoint(str(self.saves))
            self._savepoints += 1
            shutil.rmtree(self.saves)
        elif self._requests % 3 == 0:
            client.send(JobStorage(open_store(str(self.storage)), JOB), client.ControlRequest(verb="checkpoint"))
        else:
            self.handle.checkpoint()

    # -- measuring ----------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Take every figure."""
        this = psutil.Process()
        java = next(one for one in this.children(recursive=True) if one.name() == "java")
        gc.collect()
        _jcmd(java.pid, "GC.run")
        time.sleep(2)  # what only weak references lead to is cleaned up after a collection, in the background
        histogram = self._least_histogram(java.pid)
        kinds, sizes = self.kept()
        filling = {kind for kind in kinds if kind.startswith(tuple(f"storage/{JOB}/{name}" for name in FILLING))}
        checkpoints = self.handle.status().checkpoints_completed
        taken = max(checkpoints - self._checkpoints_before, 1)
        reads, self._read_before = self._reads.number - self._read_before, self._reads.number
        self._checkpoints_before = checkpoints
        self.samples.append(
            {
                "batches": self.batches(),
                "seconds": round(time.monotonic() - self._began, 1),
                "checkpoints": checkpoints,
                "requests": self._requests,
                "savepoints": self._savepoints,
                "files": sum(number for kind, number in kinds.items() if kind not in filling),
                "bytes": sum(size for kind, size in sizes.items() if kind not in filling),
                "filling_files": sum(kinds[kind] for kind in filling),
                "filling_bytes": sum(sizes[kind] for kind in filling),
                "reads_a_checkpoint": round(reads / taken, 1),
                "driver_rss": this.memory_info().rss,
                "driver_objects": len(gc.get_objects()),
                "driver_blocks": sys.getallocatedblocks(),
                "driver_threads": this.num_threads(),
                "driver_handles": this.num_fds(),
                "jvm_heap": sum(histogram.values()) or self._heap(),
                "jvm_rss": java.memory_info().rss,
                "jvm_threads": java.num_threads(),
                "jvm_handles": java.num_fds(),
                "jvm_classes": self._loaded_classes(java.pid),
                "load": os.getloadavg()[0],
            }
        )
        # What is kept here counts as the driver's.
        sample = {**self.samples[-1], "kinds": dict(kinds.most_common()), "sizes": dict(sizes.most_common())}
        with (self.folder / "samples.jsonl").open("a") as report:
            report.write(json.dumps(sample) + "\n")

    def kept(self) -> tuple[Counter[str], Counter[str]]:
        """Files and bytes of the storage by kind, side files included, and what the sink keeps beside its output."""
        kinds: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for root in (self.storage, self.out):
            for place, _, files in os.walk(root):
                for file in files:
                    path = Path(place, file)
                    parts = path.relative_to(root).parts
                    if root == self.out and not any(part.startswith(("_", ".")) for part in parts):
                        continue  # the user's data
                    kind = "/".join("#" if part.isdigit() else part for part in parts[:-1])
                    try:
                        size = path.stat().st_size
                    except FileNotFoundError:
                        continue
                    kinds[f"{root.name}/{kind}"] += 1
                    sizes[f"{root.name}/{kind}"] += size
        return kinds, sizes

    def _loaded_classes(self, pid: int) -> int:
        table = _jcmd(pid, "VM.classloader_stats")
        totals = [line.split() for line in table if line.startswith("Total =")]
        return int(totals[0][3]) if totals else 0

    def _heap(self) -> int:
        """Bytes on the JVM's heap after a collection, where nothing tells them more exactly."""
        jvm: Any = self.spark._jvm
        runtime, found = jvm.java.lang.Runtime.getRuntime(), []
        for _ in range(3):
            jvm.java.lang.System.gc()
            found.append(runtime.totalMemory() - runtime.freeMemory())
        return min(found)

    def _least_histogram(self, pid: int) -> dict[str, int]:
        """The JVM skips a collection while native code holds an array, and counts what it would have collected."""
        least = min((self.histogram(pid) for _ in range(HISTOGRAMS)), key=lambda found: sum(found.values()))
        (self.folder / f"histogram-{len(self.samples):03d}.json").write_text(json.dumps(least))
        return least

    def histogram(self, pid: int) -> dict[str, int]:
        """What is on the JVM's heap after a collection, class → bytes; empty where the JDK has no jcmd."""
        found: dict[str, int] = {}
        for line in _jcmd(pid, "GC.class_histogram"):
            parts = line.split()
            if len(parts) >= 4 and parts[0].endswith(":") and parts[2].isdigit():
                found[parts[3]] = found.get(parts[3], 0) + int(parts[2])
        return found

    # -- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> list[Verdict]:
        """Run it; returns what became of each figure."""
        kept_batches.MOST_ROOM = ROOM
        self.spark = make_session(JOB, self._settings)
        self._began = time.monotonic()
        config = {"checkpoint.interval": "0"}
        self.handle = self.define().start(self.spark, storage=str(self.storage), config=config)
        feeder = threading.Thread(target=self.feed, name="soak-feeder", daemon=True)
        feeder.start()
        spacing = max(min(self.target // SAMPLES, BATCHES_A_SAMPLE), 1)
        next_sample, next_request = spacing, BATCHES_A_REQUEST
        while (batches := self.batches()) < self.target and time.monotonic() < self._began + self.seconds:
            if self.failure is not None:
                raise self.failure
            assert self.handle.is_running(), self.handle.wait()
            if batches >= next_sample:
                self.sample()
                next_sample += spacing
            elif batches >= next_request:
                self.ask()
                next_request += BATCHES_A_REQUEST
            else:
                time.sleep(0.02)
        self.sample()
        self._over.set()
        feeder.join()
        result = self.handle.stop(drain=True)
        assert result.state == "DRAINED", result
        self._rows = sum(row["v"] for row in committed(self.out))
        self.result = result
        self.spark.stop()
        curves = {name: [sample[name] for sample in self.samples] for name in BOUNDS}
        return verdicts(curves, BOUNDS)

    def report(self, found: list[Verdict]) -> str:
        """What a person reads."""
        return "\n".join(self._lines(found)) + "\n"

    def _lines(self, found: list[Verdict]) -> Iterator[str]:
        last = self.samples[-1]
        import pyspark

        yield f"{last['batches']:,} batches of three tasks, {last['checkpoints']:,} checkpoints, "
        yield f"{last['requests']:,} requests, {last['savepoints']} savepoints in {last['seconds'] / 60:.0f} minutes."
        yield ""
        yield "| figure | from 25 % | at the end | at most | |"
        yield "| --- | ---: | ---: | ---: | --- |"
        for one in found:
            word = "flat" if one.flat else "**grows**"
            yield f"| {one.name} | {one.before:,.0f} | {one.after:,.0f} | {one.most:,.0f} | {word} |"
        yield ""
        yield f"Rows written: {self._rows}; rows read: {self._written * ROWS} at most."
        yield f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}; Python {platform.python_version()}, PySpark "
        yield f"{pyspark.__version__}; load {last['load']:.1f} at the end; settings {dict(self._settings)}"
        written = [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]
        quarter = written[len(written) // 4]
        for name in ("kinds", "sizes"):
            yield f"\nWhat grew of the storage, {'files' if name == 'kinds' else 'bytes'}:\n"
            for kind, before, after in growers(quarter[name], written[-1][name], _KINDS_SHOWN):
                yield f"- {kind}: {before:,} → {after:,}"
        early, late = (
            json.loads((self.folder / f"histogram-{number:03d}.json").read_text())
            for number in (len(self.samples) // 4, len(self.samples) - 1)
        )
        if late:
            yield "\nWhat grew on the JVM's heap, bytes at 25 % and at the end:\n"
            for name, before, after in growers(early, late):
                yield f"- {name}: {before:,} → {after:,}"

    def complete(self) -> bool:
        """Whether what was read came out, once."""
        return bool(self._rows == ROWS * self.files_of_output)

    @property
    def files_of_output(self) -> int:
        """Files that `count` has read."""
        status = next(task for task in self.handle.status().tasks if task.uid == "count")
        return int(status.inputs["live"].position["logOffset"]) + 1


def _jcmd(pid: int, command: str) -> list[str]:
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        return []
    done = subprocess.run([jcmd, str(pid), command], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="end then, however many have run")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, KEY=VALUE")
    given = parser.parse_args()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        # What Spark deletes after a time would depend on how fast the machine is.
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        # What Spark remembers of files is bounded by bytes: 16 MB would be full after some 16,000 batches.
        "spark.sql.hive.filesourcePartitionFileCacheSize": "1000000",
        **dict(one.split("=", 1) for one in given.conf),
    }
    soak = Soak(given.folder, given.batches, given.minutes, settings)
    found = soak.run()
    text = soak.report(found)
    (given.folder / "report.md").write_text(text)
    print(text, flush=True)
    if not soak.complete():
        print(f"Rows are missing, or there twice: {soak.files_of_output} files of {ROWS} rows were read.")
        return 1
    return 0 if all(one.flat for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
