"""The job that the crash tests break, and how it is brought to its end again.

Every input there is (a history of files, a batch source, a live stream), event times, a window, and two sinks that are
written from one evaluation and committed by one checkpoint.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.errors import RekindleError
from rekindle.job import JobHandle, JobResult
from rekindle.sinks import TwoPhaseSink
from rekindle.storage.documents import BatchRecord
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.crash import InjectedError
from tests.jobs.kit import World, at, committed, rows, until

OF_PIPELINES = ("schema.create", "segment.copy", "segment.write", "split.assign")
"""Steps that only a job with channels reaches; see `pipeline_kit`, and `parallel_kit` for the last one."""

LAST_LIVE_BATCH = 2
"""All of the live stream has been read when this batch is recorded: each takes one file while there are any."""

Row = tuple[dt.datetime, str, int]

CONFIG = {
    "checkpoint.interval": "300 ms",
    "checkpoint.retained": "1",
    "checkpoint.tolerable_failures": "100",
    "restart.delay": "10 ms",
    "restart.attempts": "100",
}
"""Faults come thick: the job is to live through all of them."""


class CrashWorld(World):
    """A small world with a table for the batch source and two outputs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.table = root / "table"
        self.second = root / "second"

    def fill(self) -> CrashWorld:
        """Write what the job reads."""
        self.add_history(rows(10, 90), rows(0, 90))
        self._add(self.table, rows(20, 70))
        self.add_live(*(rows(30 + 3 * number, 60) for number in range(LAST_LIVE_BATCH + 1)))
        return self

    def job(self, *, live: bool = True) -> rk.Job:
        """Rows per hour and key of history and table, and of the live stream where it is to have one."""
        from pyspark.sql import functions as F

        job = rk.Job("crash")
        table = str(self.table)
        inputs = [
            job.source("history", rk.Files(str(self.history)), event_time="ts"),
            job.source("table", rk.Batch(lambda spark: spark.read.parquet(table)), event_time="ts"),
        ]
        if live:
            inputs.append(job.source("live", self.stream(), event_time="ts", watermark="4 seconds"))

        @job.task(*inputs, uid="count")
        def count(first: Any, *others: Any) -> Any:
            for frame in others:
                first = first.unionByName(frame)
            return self.shaped(first.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v")))

        for uid, sink in self.sinks().items():
            job.sink(uid, count, sink)
        return job

    def shaped(self, counted: Any) -> Any:
        """The rows as the sinks are to have them."""
        return counted

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """Where they go."""
        return {"out": rk.sinks.Parquet(self.out), "second": rk.sinks.Parquet(self.second)}

    def expected(self, *, live: bool = True) -> Counter[Row]:
        """What each sink must hold in the end."""
        sums: Counter[tuple[Any, ...]] = Counter()
        for ts, key, value in self.data if live else (row for row in self.data if row[0] < at(30)):
            sums[(ts.replace(minute=0, tzinfo=None), key)] += value
        return Counter((hour, key, total) for (hour, key), total in sums.items())

    def outputs(self) -> tuple[Counter[Row], ...]:
        """What each sink holds, as multisets: twice is twice."""
        return result_rows(self.out), result_rows(self.second)

    def check(self, *, live: bool = True) -> None:
        """Nothing lost, nothing twice, in any sink."""
        expected = self.expected(live=live)
        for found in self.outputs():
            assert found == expected, f"lost: {expected - found}, twice: {found - expected}"


def result_rows(folder: Path) -> Counter[Row]:
    """What a sink's folder holds."""
    return Counter((row["window"]["start"].replace(tzinfo=None), row["k"], row["v"]) for row in committed(folder))


TRIES_AT_MOST = 300
SECONDS_AT_MOST = 180


def persist(
    start: Callable[[], JobHandle], end: str, then: Callable[[JobHandle], object] = JobHandle.wait
) -> JobResult:
    """Start a job, and do `then` with it, until it ends as it should: a fault ends the run, or what was asked of it."""
    handle: JobHandle | None = None
    last: object = None
    for _ in range(TRIES_AT_MOST):
        try:
            handle = handle or start()
            then(handle)
            result = handle.wait(300)
        except (RekindleError, InjectedError) as error:
            last = error
            handle = handle if handle is not None and goes_on(handle) else None
            time.sleep(0.05)
            continue
        assert result is not None, f"it hangs: {handle.status()}"
        if result.state == end:
            return result
        last = result
        handle = None
    raise AssertionError(f"it does not come to its end {end}; at last: {last}")


def goes_on(handle: JobHandle) -> bool:
    """Whether its driver still runs."""
    try:
        return handle.wait(0) is None
    except (RekindleError, InjectedError):
        return False


def read_all(handle: JobHandle) -> None:
    """Wait until all of the live stream has been read, or the job has ended."""
    until(lambda: handle.wait(0) is not None or handle.status().tasks[0].batch >= LAST_LIVE_BATCH, SECONDS_AT_MOST)


def read_and_drain(handle: JobHandle) -> None:
    """Drain once all of the live stream has been read."""
    read_all(handle)
    handle.stop(drain=True)


def lose_the_first_record(patch: Callable[[type, str, Any], None]) -> None:
    """Let another driver be quicker by a moment with batch 0: one that wrote the same rows into its own staging.

    Args:
        patch: sets an attribute, as ``setattr`` does.
    """
    prepare, adopt = rk.sinks.Parquet.prepare, JobStorage.adopt
    rival: dict[str, Any] = {}

    def prepare_twice(sink, df, batch):
        if batch.batch == 0 and batch.lineage == 1:
            rival[batch.sink] = list(prepare(sink, df, replace(batch, attempt="0badcafe")))
        return prepare(sink, df, batch)

    def adopt_rival(storage, path, document):
        if isinstance(document, BatchRecord) and rival:
            storage.create(path, replace(document, run=0, committables=dict(rival)))
            rival.clear()
        return adopt(storage, path, document)

    patch(rk.sinks.Parquet, "prepare", prepare_twice)
    patch(JobStorage, "adopt", adopt_rival)
