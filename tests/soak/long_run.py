"""Runs a job on Spark for as many batches as it is given, at full speed, and measures it all along.

Files of its stream are there as soon as they are wanted. Someone asks for a checkpoint every so many batches; one
request in three is not waited for, and one in fifty is for a savepoint. There are no periodic checkpoints, so that a
machine that is busier for a while changes nothing but the time it takes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import rekindle as rk
from rekindle.runtime import client
from rekindle.session.session import make_session
from rekindle.spark.query import kept_batches
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.soak.curves import Verdict
from tests.soak.measure import Meter

FILE_SPACING_S = 30 * 60
"""By the file system's times, so that Spark forgets files after their 7 days: what it keeps of them is full soon."""
REQUESTS_A_SAVEPOINT = 50
ROOM = 150
"""Batches that one start of a query goes on for; 2,000 outside of here: growth from start to start has to show."""
SAMPLES = 40
"""At least; a long run has one after every so many batches:"""
BATCHES_A_SAMPLE = 250


class Pipeline(Protocol):
    """What is run."""

    @property
    def live(self) -> Path:
        """The folder of the stream."""

    @property
    def outputs(self) -> Sequence[Path]:
        """The folders of its Parquet sinks."""

    def define(self) -> rk.Job:
        """Return the job; what it reads but the stream is there."""

    def write(self, number: int, path: Path) -> None:
        """Write file `number` of the stream."""

    def files_read(self, status: rk.JobStatus) -> int:
        """How many files all readers of the stream have read."""

    def done(self, status: rk.JobStatus) -> int:
        """How far it is, as the target counts: batches, or files."""

    def wrong(self, spark: Any, status: rk.JobStatus) -> str:
        """What is wrong with the rows of the job that has ended; empty where nothing is."""


@dataclass(frozen=True)
class Pace:
    """How far, and how."""

    target: int
    minutes: float = 24 * 60
    #: files that lie ready
    ahead: int = 1
    #: files that were read and lie there still, as a task that is started again may read them once more
    kept_files: int | None = None
    done_a_request: int = 10
    #: files of the stream in all; None for as many as are read
    files: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


class Feeder(threading.Thread):
    """Keeps some files ready, and takes away those that were read long ago."""

    def __init__(self, pipeline: Pipeline, handle: rk.JobHandle, pace: Pace) -> None:
        super().__init__(name="soak-feeder", daemon=True)
        self.written = 0
        self.failure: BaseException | None = None
        self._pipeline, self._handle, self._pace = pipeline, handle, pace
        self._over = threading.Event()
        self._first_time = round(time.time() - 5 * 365 * 86_400)

    def run(self) -> None:
        deleted = 0
        try:
            while not self._over.wait(0.03):
                read = self._pipeline.files_read(self._handle.status())
                wanted = read + self._pace.ahead
                while self.written < min(wanted, self._pace.files or wanted):
                    self._write()
                kept = self._pace.kept_files
                for number in range(deleted, max(read - kept, 0) if kept is not None else 0):
                    self._path(number).unlink()
                    deleted = number + 1
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        """Write no more; raise what has gone wrong."""
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _path(self, number: int) -> Path:
        return self._pipeline.live / f"{number:06d}"

    def _write(self) -> None:
        path = self._path(self.written)
        hidden = path.with_name(f".{path.name}")
        self._pipeline.write(self.written, hidden)
        at = self._first_time + self.written * FILE_SPACING_S
        os.utime(hidden, (at, at))
        hidden.rename(path)
        self.written += 1


class LongRun:
    """One run of a pipeline; `folder` gets the storage, the samples and ``report.md``."""

    def __init__(self, folder: Path, pipeline: Pipeline, pace: Pace) -> None:
        self._folder, self._pipeline, self._pace = folder, pipeline, pace
        self._requests = self._savepoints = 0

    def run(self) -> bool:
        """Run it to its end; return True if nothing grows, and its rows are what they must be."""
        kept_batches.MOST_ROOM = ROOM
        self._pipeline.live.mkdir(parents=True)
        job = self._pipeline.define()
        spark = make_session(job.name, self._pace.settings)
        storage = self._folder / "storage"
        self._handle = job.start(spark, storage=str(storage), config={"checkpoint.interval": "0"})
        self._meter = Meter(job.name, spark, self._folder, storage, self._pipeline.outputs)
        feeder = Feeder(self._pipeline, self._handle, self._pace)
        feeder.start()
        self._measure(job.name, feeder)
        feeder.end()
        result = self._handle.stop(drain=True)
        assert result.state == "DRAINED", result
        wrong = self._pipeline.wrong(spark, self._handle.status())
        spark.stop()
        found = self._meter.verdicts()
        text = "\n".join(self._lines(found)) + "\n"
        (self._folder / "report.md").write_text(text)
        print(text, wrong, sep="\n", flush=True)
        return not wrong and all(one.flat for one in found)

    def _measure(self, job: str, feeder: Feeder) -> None:
        """Sample and ask until the target is reached."""
        target, ends = self._pace.target, time.monotonic() + self._pace.minutes * 60
        spacing = max(min(target // SAMPLES, BATCHES_A_SAMPLE), 1)
        next_sample, next_request = spacing, self._pace.done_a_request
        while (done := self._pipeline.done(self._handle.status())) < target and time.monotonic() < ends:
            if feeder.failure is not None:
                raise feeder.failure
            assert self._handle.is_running(), self._handle.wait()
            if done >= next_request:
                self._ask(job)
                next_request += self._pace.done_a_request
            elif done >= next_sample:
                self._sample()
                next_sample += spacing
            else:
                time.sleep(0.02)
        self._sample()

    def _sample(self) -> None:
        status = self._handle.status()
        self._meter.sample(
            status.checkpoints_completed,
            done=self._pipeline.done(status),
            batches=sum(task.batch + 1 for task in status.tasks),
            requests=self._requests,
            savepoints=self._savepoints,
        )

    def _ask(self, job: str) -> None:
        """Ask for a checkpoint, or a savepoint, wait for it or not."""
        self._requests += 1
        if self._requests % REQUESTS_A_SAVEPOINT == 0:
            saves = self._folder / "saves"
            self._handle.savepoint(str(saves))
            self._savepoints += 1
            shutil.rmtree(saves)
        elif self._requests % 3 == 0:
            storage = JobStorage(open_store(str(self._folder / "storage")), job)
            client.send(storage, client.ControlRequest(verb="checkpoint"))
        else:
            self._handle.checkpoint()

    def _lines(self, found: Sequence[Verdict]) -> Iterator[str]:
        import pyspark

        last, status = self._meter.samples[-1], self._handle.status()
        yield f"{last['batches']:,} batches of {len(status.tasks)} tasks, {last['checkpoints']:,} checkpoints, "
        yield f"{last['requests']:,} requests, {last['savepoints']} savepoints in {last['seconds'] / 60:.0f} minutes."
        yield f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}; Python {platform.python_version()}, PySpark "
        yield f"{pyspark.__version__}; load {last['load']:.1f} at the end; settings {dict(self._pace.settings)}"
        yield ""
        yield from self._meter.lines(found)


SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    # What Spark deletes after a time would depend on how fast the machine is.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    # What Spark remembers of files is bounded by bytes: 16 MB would be full after some 16,000 batches.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "1000000",
}


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return what every long run is given on its command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="end then, however far it is")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, KEY=VALUE")
    return parser


def settings(given: argparse.Namespace) -> dict[str, str]:
    """Return Spark's settings for a run."""
    return {**SETTINGS, **dict(one.split("=", 1) for one in given.conf)}
