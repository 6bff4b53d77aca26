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
from typing import Any, ClassVar

from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import RekindleError
from rekindle.handle import JobHandle
from rekindle.results import JobResult
from rekindle.sinks import TwoPhaseSink
from rekindle.spark.query.query import Query
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import StepFailedError
from tests.hanging import threads
from tests.jobs.kit import World, at, committed, rows, until

OF_PIPELINES = ("schema.create", "segment.copy", "segment.write", "split.assign")
"""Steps that only a job with channels reaches; see `pipeline_kit`, and `parallel_kit` for the last one."""

OF_REWINDS = ("sink.rewind", "rewound.create")
"""Steps that only sinks that go back reach; `tests/simulation/test_rewound_sinks.py` kills a driver at each."""

OF_CUSTOM_SOURCES = ("read.create", "splits.give")
"""Steps that only a job with a custom source reaches; see `test_custom_sources`."""

OF_PRELUDES = ("prelude.create",)
"""Steps that only a job reaches whose history is computed as a batch; see `test_backlog`."""

OF_OTHERS = (*OF_PIPELINES, *OF_REWINDS, *OF_CUSTOM_SOURCES, *OF_PRELUDES)
"""Steps that a job of one task does not reach."""

LAST_LIVE_BATCH = 2
"""All of the live stream has been read when this batch is recorded: each takes one file while there are any."""

Row = tuple[dt.datetime, str, int]

Rows = Counter[tuple[Any, ...]]
"""What a sink holds, as a multiset: twice is twice."""

CONFIG = {
    "checkpoint.interval": "300 ms",
    "checkpoint.retained": "1",
    "checkpoint.tolerable_failures": "100",
    "restart.delay": "10 ms",
    "restart.attempts": "100",
}
"""Faults come thick: the job is to live through all of them."""


class BrokenWorld(World):
    """What the crash tests need to know of a job: how it is made, what it must yield, when it has read everything."""

    #: of the job
    name: ClassVar[str]
    #: the same job for a driver in a process of its own
    job_file: ClassVar[Path]
    #: what such a driver is told beside it
    arguments: tuple[str, ...] = ()
    #: where its sinks write
    outs: dict[str, Path]

    def job(self, *, live: bool = True) -> rk.Job:
        """The job, with or without its live stream."""
        raise NotImplementedError

    def expected_of(self, *, live: bool = True) -> dict[str, Rows]:
        """What each sink must hold in the end."""
        raise NotImplementedError

    def outputs(self) -> dict[str, Rows]:
        """What each sink holds."""
        raise NotImplementedError

    def read_all(self, handle: JobHandle) -> None:
        """Wait until everything has been read, or the job has ended."""
        raise NotImplementedError

    def check(self, *, live: bool = True, already: dict[str, Rows] | None = None) -> None:
        """Nothing lost, nothing twice, in any sink; `already`: what was in the folders that these stand for."""
        outputs, expected = self.outputs(), self.expected_of(live=live)
        assert outputs.keys() == expected.keys()
        for name, found in outputs.items():
            whole = found + (already or {}).get(name, Counter())
            lost, twice = expected[name] - whole, whole - expected[name]
            assert not lost and not twice, f"{name}: lost {lost}, twice {twice}"

    def documents(self, storage: str | None = None) -> JobStorage:
        """What the job has stored."""
        return JobStorage(open_store(storage or self.storage), self.name)


class CrashWorld(BrokenWorld):
    """A small world with a table for the batch source and two outputs."""

    name = "crash"
    job_file = Path(__file__).with_name("job_file.py")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.table = root / "table"
        self.outs = {"out": self.out, "second": root / "second"}

    def fill(self) -> CrashWorld:
        """Write what the job reads."""
        self.add_history(rows(10, 90), rows(0, 90))
        self._add(self.table, rows(20, 70))
        self.add_live(*(rows(30 + 3 * number, 60) for number in range(LAST_LIVE_BATCH + 1)))
        return self

    def job(self, *, live: bool = True) -> rk.Job:
        """Rows per hour and key of history and table, and of the live stream where it is to have one."""
        job = rk.Job(self.name)
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
            return self.shaped(self.computed(first))

        for uid, sink in self.sinks().items():
            job.sink(uid, count, sink)
        return job

    def computed(self, union: Any) -> Any:
        """What the task makes of all its inputs."""
        from pyspark.sql import functions as F

        return union.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    def shaped(self, counted: Any) -> Any:
        """The rows as the sinks are to have them."""
        return counted

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """Where they go."""
        return {uid: rk.sinks.Parquet(folder) for uid, folder in self.outs.items()}

    def expected_of(self, *, live: bool = True) -> dict[str, Rows]:
        """The same for each."""
        sums: Counter[tuple[Any, ...]] = Counter()
        for ts, key, value in self.read_by(live=live):
            sums[(ts.replace(minute=0, tzinfo=None), key)] += value
        expected = Counter((hour, key, total) for (hour, key), total in sums.items())
        return dict.fromkeys(self.sinks(), expected)

    def read_by(self, *, live: bool) -> list[Any]:
        """The rows of all inputs."""
        return [row for row in self.data if live or row[0] < at(30)]

    def outputs(self) -> dict[str, Rows]:
        """What is committed."""
        return {uid: result_rows(folder) for uid, folder in self.outs.items()}

    def read_all(self, handle: JobHandle) -> None:
        """The live stream is the last. The number of a batch tells nothing: some take no file, in a new lineage one."""
        until(lambda: handle.wait(0) is not None or self._live_files() > LAST_LIVE_BATCH)

    def _live_files(self) -> int:
        """How many of them are in batches that are recorded."""
        documents = self.documents()
        lineage = documents.lineage()
        record = lineage and documents.last_record(layout.subtask(self.name, "count", 0, lineage.lineage))
        offset = record.inputs["live"].offset if record else None
        return offset["logOffset"] + 1 if offset else 0


def result_rows(folder: Path) -> Rows:
    """What a sink's folder holds."""
    return Counter((row["window"]["start"].replace(tzinfo=None), row["k"], row["v"]) for row in committed(folder))


TRIES_AT_MOST = 300


def persist(
    start: Callable[[], JobHandle], end: str | tuple[str, ...], then: Callable[[JobHandle], object] = JobHandle.wait
) -> JobResult:
    """Start a job, and do `then` with it, until it ends as it should: a fault ends the run, or what was asked of it.

    Args:
        end: how it is to end; several: in one of these ways.
    """
    ends = (end,) if isinstance(end, str) else end
    handle: JobHandle | None = None
    last: object = None
    for _ in range(TRIES_AT_MOST):
        try:
            handle = handle or start()
            then(handle)
            result = handle.wait(300)
        except (RekindleError, StepFailedError) as error:
            last = error
            handle = handle if handle is not None and goes_on(handle) else None
            time.sleep(0.05)
            continue
        assert result is not None, f"it hangs: {handle.status()}\n{_what_it_does()}"
        if result.state in ends:
            return result
        last = result
        handle = None
    raise AssertionError(f"it does not come to its end {end}; at last: {last}")


def _what_it_does() -> str:
    """Where the threads of this process are, and what Spark's queries say of themselves."""
    spark = SparkSession.getActiveSession()
    queries = [str(query.status) for query in spark.streams.active] if spark else []
    return "\n".join([*queries, threads()])


def goes_on(handle: JobHandle) -> bool:
    """Whether its driver still runs."""
    try:
        return handle.wait(0) is None
    except (RekindleError, StepFailedError):
        return False


def plant_each_flush(patch: Callable[[type, str, Any], None]) -> None:
    """Let no query that runs be flushed, as with a Spark whose watermark cannot be raised: its flush is planted.

    Args:
        patch: sets an attribute, as ``setattr`` does.
    """
    patch(Query, "pass_time", lambda query, watermark_ms: False)


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
