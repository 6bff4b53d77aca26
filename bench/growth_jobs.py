"""Parts of `make bench-growth` that run jobs on Spark: rows, keys, tasks, files, partitions of state, checkpoints.

Each function runs one job of a size, and returns what it measured: name of a figure → number. Times are by the clock,
in seconds. A start is the time from `job.start` to the first batch record of each task, in a session that is there; a
checkpoint the time from a request for it until it is committed, the median of several, each with new rows.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import rekindle as rk
from contenders import SCHEMA, windows
from hop import Nowhere
from measuring import MB, ROOT, cpu_seconds, middle, share_of_a_core
from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.spark.query.polling import STREAM_MS
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Committed
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Figures = dict[str, float]

CHECKPOINTS = 5
"""Of each job: the median counts."""
PAUSES_S = [(number + 0.5) * STREAM_MS / 1000 / CHECKPOINTS for number in range(CHECKPOINTS)]
"""Before each file that is dropped: a query with a stream looks twice a second, and files come at any moment."""
TOUCHED = 20_000
"""Keys that a batch touches."""
ROWS_A_FILE = 1_000_000
PATIENCE_S = 900
IDLE_S, SETTLE_S, REST_S = 15, 3, 6
_KEYED = "key long, ts timestamp"
_JOB = "growth"


@dataclass
class Heard:
    """The durable steps of a run, with their times."""

    steps: list[tuple[str, float]] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        """Note a step."""
        self.steps.append((name, time.perf_counter()))

    def records(self) -> list[float]:
        """Return the times at which batch records were written."""
        return [at for name, at in self.steps.copy() if name == "record.create/after"]


@dataclass
class Running:
    """A job that runs, and what is heard of it."""

    handle: JobHandle
    heard: Heard
    began_s: float

    def until_records(self, number: int) -> float:
        """Wait for so many batch records of this run; return the seconds from its start to the last of them."""
        wait(lambda: len(self.heard.records()) >= number, self.handle)
        return self.heard.records()[number - 1] - self.began_s

    def checkpoint_s(self, bring: Callable[[], None]) -> float:
        """Return the median time of a checkpoint; `bring` brings rows before each."""
        found = []
        for _ in range(CHECKPOINTS):
            before = len(self.heard.records())
            bring()
            wait(lambda before=before: len(self.heard.records()) > before, self.handle)  # type: ignore[misc]
            began = time.perf_counter()
            self.handle.checkpoint()
            found.append(time.perf_counter() - began)
        return middle(found)


def settled(job: Running) -> None:
    """Wait until no batch has been recorded for some seconds: all that was brought has gone through."""
    wait(lambda: time.perf_counter() > job.heard.records()[-1] + REST_S, job.handle)


def wait(condition: Callable[[], bool], handle: JobHandle, pause_s: float = 0.005) -> None:
    """Wait until something holds, while the job runs."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if not handle.is_running():
            sys.exit(f"bench: the job has ended: {handle.wait()}")
        if time.monotonic() > until:
            sys.exit(f"bench: nothing came for {PATIENCE_S} s: {handle.status()!r}")
        time.sleep(pause_s)


@contextmanager
def running(job: rk.Job, spark: SparkSession, work: Path, config: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run a job, and stop it."""
    heard, began = Heard(), time.perf_counter()
    # Checkpoints are asked for.
    settings = {"checkpoint.interval": "1 hour", **(config or {})}
    handle = heard_by(heard, job.start)(spark, storage=str(work / "state"), config=settings)
    yield Running(handle, heard, began)
    result = handle.stop()
    if result.state != "STOPPED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")


class Drops:
    """A folder into which files with keys are dropped, one after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._numbers = itertools.count()

    def drop(self, rows: int, first: int = 0) -> None:
        """Drop a file with the keys `first` to `first` + `rows`, each once."""
        now = pa.scalar(time.time_ns() // 1000, pa.timestamp("us", "UTC"))
        table = pa.table({"key": pa.array(range(first, first + rows), pa.int64()), "ts": pa.repeat(now, rows)})
        name = f"{next(self._numbers):06d}"
        pq.write_table(table, self.folder / f".{name}")
        (self.folder / f".{name}").rename(self.folder / f"{name}.parquet")

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read them, a file each batch."""
        return spark.readStream.schema(_KEYED).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def same(rows: DataFrame) -> DataFrame:
    """Return every row as it is."""
    return rows


def by_key(rows: DataFrame) -> DataFrame:
    """Count by key."""
    return rows.groupBy("key").agg(F.count("*").alias("rows"))


def hourly(rows: DataFrame) -> DataFrame:
    """Count by key and hour."""
    return rows.groupBy(F.window("ts", "1 hour"), "key").agg(F.count("*").alias("rows"))


def counts(drops: Drops) -> rk.Job:
    """Define a count by key, for ever."""
    job = rk.Job(_JOB)
    rows = job.source("rows", rk.Stream(drops.stream))
    task = job.task(rows, uid="count", output_mode="update")(by_key)
    job.sink("out", task, Nowhere())
    return job


def size_mb(folder: Path) -> float:
    """Return the size of all files below a folder, MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MB


# --- the parts ------------------------------------------------------------------------------------------------------


def rows(spark: SparkSession, work: Path, size: int) -> Figures:
    """Count so many bids in windows, from Parquet files to Parquet files, to the end."""
    bids = nexmark.write_history(work / "bids", size * nexmark.PERIOD // 46, 32)
    job = rk.Job(_JOB)
    source = job.source("bids", rk.Files(str(work / "bids"), schema=SCHEMA), event_time="ts")
    job.sink("out", job.task(source, uid="windows")(windows), rk.sinks.Parquet(str(work / "out")))
    began, cpu_began = time.perf_counter(), cpu_seconds()
    heard = Heard()
    result = heard_by(heard, job.run)(spark, storage=str(work / "state"))
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
    if result.state != "FINISHED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")
    return {
        "start, s": heard.records()[0] - began,
        "s": seconds,
        "rows/s": bids / seconds,
        "CPU µs a row": cpu / bids * 1e6,
    }


def keys(spark: SparkSession, work: Path, size: int) -> Figures:
    """Count so many keys, then touch some of them; stop, and start again."""
    drops = Drops(work / "rows")
    files = [(first, min(ROWS_A_FILE, size - first)) for first in range(0, size, ROWS_A_FILE)]
    for first, number in files:
        drops.drop(number, first)
    touch = partial(drops.drop, min(TOUCHED, size), size // 2 - min(TOUCHED, size) // 2)
    with running(counts(drops), spark, work) as job:
        filled_s = job.until_records(len(files))
        checkpoint_s = job.checkpoint_s(touch)
        batch_s = touched(job, touch)
    touch()
    with running(counts(drops), spark, work) as job:
        again_s = job.until_records(1)
    state_mb = size_mb(work / "state")
    return {
        "keys/s at first": size / filled_s,
        f"a batch of {TOUCHED:,}, s": batch_s,
        "a checkpoint, s": checkpoint_s,
        "start with state, s": again_s,
        "storage, MB": state_mb,
    }


def touched(job: Running, touch: Callable[[], None]) -> float:
    """Return the median time from dropping a file to its batch record."""
    found = []
    for pause_s in PAUSES_S:
        before = len(job.heard.records())
        time.sleep(pause_s)
        touch()
        began = time.perf_counter()
        wait(lambda before=before: len(job.heard.records()) > before, job.handle)  # type: ignore[misc]
        found.append(time.perf_counter() - began)
    return middle(found)


def tasks(spark: SparkSession, work: Path, size: int) -> Figures:
    """Run so many tasks: one reads the stream, the others read that one."""
    drops = Drops(work / "rows")
    drops.drop(100)

    def define() -> rk.Job:
        job = rk.Job(_JOB)
        head = job.task(job.source("rows", rk.Stream(drops.stream)), uid="head")(same)
        others = [job.task(head, uid=f"task{number}")(same) for number in range(1, size)]
        for number, task in enumerate(others or [head]):
            job.sink(f"out{number}", task, Nowhere())
        return job

    def through(job: Running, pause_s: float = 0.0) -> float:
        before = len(job.heard.records())
        time.sleep(pause_s)
        drops.drop(100)
        began = time.perf_counter()
        wait(lambda: len(job.heard.records()) >= before + size, job.handle)
        return job.heard.records()[-1] - began

    with running(define(), spark, work) as job:
        first_s = job.until_records(size)
        through(job)
        row_s = middle([through(job, pause_s) for pause_s in PAUSES_S])
        checkpoint_s = job.checkpoint_s(lambda: drops.drop(100))
        settled(job)
        idle = share_of_a_core(IDLE_S)
    drops.drop(100)
    with running(define(), spark, work) as job:
        again_s = job.until_records(size)
    return {
        "start, s": first_s,
        "start again, s": again_s,
        "a file through all, s": row_s,
        "a checkpoint, s": checkpoint_s,
        "idle, % of a core": 100 * idle,
    }


def files(spark: SparkSession, work: Path, size: int) -> Figures:
    """Read so many small files, to the end."""
    folder = work / "rows"
    drops = Drops(folder)
    drops.drop(100)
    data = (folder / "000000.parquet").read_bytes()
    for number in range(1, size):
        (folder / f"{number:06d}.parquet").write_bytes(data)
    job = rk.Job(_JOB)
    source = job.source("rows", rk.Files(str(folder), schema=_KEYED), event_time="ts")
    task = job.task(source, uid="count")(hourly)
    job.sink("out", task, rk.sinks.Parquet(str(work / "out")))
    heard, began, cpu_began = Heard(), time.perf_counter(), cpu_seconds()
    result = heard_by(heard, job.run)(spark, storage=str(work / "state"))
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
    if result.state != "FINISHED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")
    counted = [pq.read_table(path, columns=["rows"])["rows"] for path in (work / "out").glob("*.parquet")]
    read = sum(sum(column.to_pylist()) for column in counted)
    if read != size * 100:
        sys.exit(f"bench: {read:,} rows of {size * 100:,} were counted")
    listed = next(at for name, at in heard.steps if name == "files.freeze/after") - began
    return {
        "listed, s": listed,
        "start, s": heard.records()[0] - began,
        "s": seconds,
        "files/s": size / seconds,
        "CPU ms a file": cpu / size * 1e3,
        "batches": len(heard.records()),
    }


def partitions(spark: SparkSession, work: Path, size: int) -> Figures:
    """Count by key with so many partitions of state."""
    drops = Drops(work / "rows")
    drops.drop(TOUCHED)
    config = {"state.partitions": str(size)}
    touch = partial(drops.drop, TOUCHED)
    with running(counts(drops), spark, work, config) as job:
        first_s = job.until_records(1)
        touched(job, touch)
        batch_s = touched(job, touch)
        checkpoint_s = job.checkpoint_s(touch)
    touch()
    with running(counts(drops), spark, work, config) as job:
        again_s = job.until_records(1)
    return {
        "start, s": first_s,
        f"a batch of {TOUCHED:,}, s": batch_s,
        "a checkpoint, s": checkpoint_s,
        "start with state, s": again_s,
    }


def history(spark: SparkSession, work: Path, size: int) -> Figures:
    """Start a job that has retained so many checkpoints, and take more of them."""
    drops = Drops(work / "rows")
    drops.drop(100)
    config = {"checkpoint.retained": str(size + 100)}
    with running(counts(drops), spark, work, config) as job:
        job.until_records(1)
        job.handle.checkpoint()
    grown_older(JobStorage(open_store(str(work / "state")), _JOB), size)
    drops.drop(100)
    with running(counts(drops), spark, work, config) as job:  # which notes the others in its history
        job.until_records(1)
    drops.drop(100)
    with running(counts(drops), spark, work, config) as job:
        again_s = job.until_records(1)
        checkpoint_s = job.checkpoint_s(lambda: drops.drop(100))
        cpu_began = cpu_seconds()
        for _ in range(CHECKPOINTS):
            job.handle.checkpoint()
        time.sleep(SETTLE_S)  # old checkpoints are looked at beside the job
        cpu = (cpu_seconds() - cpu_began) / CHECKPOINTS
    drops.drop(100)
    folder = work / "state" / layout.checkpoints(_JOB)
    with running(counts(drops), spark, work, {"checkpoint.retained": "3"}) as job:
        wait(lambda: len(list(folder.iterdir())) <= 4, job.handle, pause_s=0.5)
        deleted_s = time.perf_counter() - job.began_s
        job.until_records(1)
    return {
        "start again, s": again_s,
        "a checkpoint, s": checkpoint_s,
        "CPU of a checkpoint, s": cpu,
        "start, with 3 kept and the others deleted, s": deleted_s,
    }


def grown_older(storage: JobStorage, number: int) -> None:
    """Give a job so many checkpoints more, each like its last one."""
    last = storage.newest_manifest()
    assert last is not None, "it has one"
    for checkpoint in range(last.checkpoint + 1, last.checkpoint + number + 1):
        folder = layout.checkpoint(_JOB, checkpoint)
        manifest = replace(last, checkpoint=checkpoint, transactions={})
        storage.create(layout.manifest(folder), manifest)
        done = Committed(checkpoint=checkpoint, run=manifest.run, committed_ms=manifest.completed_ms)
        storage.create(layout.committed(folder), done)


def cleared(work: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work
