"""A history computed as a batch before the stream: it gives the rows of the streaming run, whatever the query."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import DDL, QUICK, UTC, Row, World, at, rows, until

Frame = Any
Pipeline = Callable[[Frame, Frame], Frame]
Generator = random.Random

EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
MODES = ("stream", "batch")


def tumbling(history: Frame, live: Frame) -> Frame:
    both = history.unionByName(live).filter("v > 0").groupBy(F.window("ts", "1 hour"), "k")
    return both.agg(F.sum("v").alias("v"), F.max("ts").alias("last")).select("window.start", "k", "v", "last")


def sliding(history: Frame, live: Frame) -> Frame:
    odd = F.udf(lambda value: value % 2 == 1, "boolean")
    both = history.unionByName(live).groupBy(F.window("ts", "3 hours", "50 minutes", "7 minutes"), "k")
    return both.agg(F.count("*").alias("n"), F.avg("v").alias("v")).filter(odd("n")).withColumn("k", F.upper("k"))


def by_time(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).groupBy("k", "ts").agg(F.count("*").alias("n"))


def tops(history: Frame, live: Frame) -> Frame:
    counts = live.unionByName(history).groupBy(F.window("ts", "2 hours", "1 hour"), "k").agg(F.count("*").alias("n"))
    equals = counts.groupBy("window", "n").agg(F.sort_array(F.collect_list("k")).alias("ks"))
    most = equals.groupBy("window").agg(F.max(F.struct("n", "ks")).alias("most"))
    return most.select("window.end", F.explode("most.ks").alias("k"), "most.n")


def named(history: Frame, live: Frame) -> Frame:
    names = history.sparkSession.createDataFrame([("a", "Ada"), ("b", "Bo")], "k string, name string")
    both = history.unionByName(live).join(F.broadcast(names), "k", "left")
    return both.groupBy("name", F.window("ts", "90 minutes")).agg(F.min("v").alias("v")).select("name", "v", "window")


def distinct(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).dropDuplicates(["ts", "k"])


PIPELINES: tuple[Pipeline, ...] = (tumbling, sliding, by_time, tops, named)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def some_rows(chance: Generator, count: int, first: float, last: float) -> list[Row]:
    found: list[Row] = [
        (at(chance.uniform(first, last)), chance.choice("abcde"), chance.randint(-2, 9)) for _ in range(count)
    ]
    return [(None, key, value) if chance.random() < 0.02 else (ts, key, value) for ts, key, value in found]


class Cut:
    """Files of a history and of a live stream, the second in two parts: before a job starts and while it is stopped."""

    def __init__(self, seed: int) -> None:
        chance = Generator(seed)
        end = chance.uniform(4, 12)
        self.history = [
            some_rows(chance, chance.randint(1, 60), begin, chance.uniform(begin, end))
            for begin in (chance.uniform(0, end - 1) for _ in range(chance.randint(1, 4)))
        ]
        begin = chance.uniform(0, end + 2)
        self.now = [
            [(at(begin + 1), "a", 1), *some_rows(chance, chance.randint(0, 40), begin, begin + chance.uniform(1, 6))]
            for _ in range(chance.randint(1, 2))
        ]
        # Some of them are late, and some are not although other rows are later.
        self.later = [some_rows(chance, 40, max(0, begin - 3), begin + 9)]
        self.delay_minutes = chance.choice((0, 1, 45))


def make(world: World, mode: str, pipelines: tuple[Pipeline, ...], delay: str) -> rk.Job:
    folder = str(world.live)
    job = rk.Job(mode)
    history = job.source("history", world.files(), event_time="ts")
    live = rk.Stream(lambda spark: spark.readStream.schema(DDL).parquet(folder))
    stream = job.source("live", live, event_time="ts", watermark=delay)
    for pipeline in pipelines:
        task = job.task(history, stream, uid=pipeline.__name__)(pipeline)
        job.sink(f"{pipeline.__name__}_out", task, rk.sinks.Parquet(world.out / mode / pipeline.__name__))
    return job


def storage_of(world: World, mode: str) -> JobStorage:
    return JobStorage(open_store(world.storage), mode)


def records(world: World, mode: str, pipelines: tuple[Pipeline, ...]) -> list[BatchRecord | None]:
    """The last record of each task."""
    storage = JobStorage(open_store(world.storage), mode)
    return [storage.last_record(folder_of(mode, pipeline)) for pipeline in pipelines]


def has_read(record: BatchRecord, batches: int) -> bool:
    """Whether the live stream is read so far, and the history to its end."""
    return record.inputs["live"].offset["logOffset"] >= batches - 1 and record.inputs["history"].files == 3


def folder_of(mode: str, pipeline: Pipeline) -> str:
    return layout.subtask(mode, pipeline.__name__, 0, 1)


def output(spark: SparkSession, world: World, mode: str, pipeline: Pipeline) -> Counter[Any]:
    folder = world.out / mode / pipeline.__name__
    return Counter(map(str, spark.read.parquet(str(folder)).collect())) if folder.exists() else Counter()


def compare(spark: SparkSession, world: World, cut: Cut, pipelines: tuple[Pipeline, ...]) -> None:
    """Let a job begin in each mode, stop it, let more come, drain it."""
    world.add_history(*cut.history)
    world.add_live(*cut.now)
    delay = f"{cut.delay_minutes} minutes"

    def start(mode: str) -> rk.JobHandle:
        job = make(world, mode, pipelines, delay)
        return job.start(spark, storage=world.storage, config={**QUICK, "backlog.mode": mode})

    last = max(ts for ts, _, _ in chain(*cut.now) if ts is not None) - dt.timedelta(minutes=cut.delay_minutes)
    watermark_ms = (last - EPOCH) // dt.timedelta(milliseconds=1)

    def has_settled(mode: str) -> bool:
        """The history is read, and the watermark that the live stream has now is in force."""
        found = records(world, mode, pipelines)
        return all(
            one is not None and one.inputs["history"].files == len(cut.history) and one.watermark_ms == watermark_ms
            for one in found
        )

    def has_read_more(mode: str) -> bool:
        found = records(world, mode, pipelines)
        return all(one is not None and one.inputs["live"].offset["logOffset"] >= 1 for one in found)

    ends = {}
    for has, how, state in ((has_settled, {}, "STOPPED"), (has_read_more, {"drain": True}, "DRAINED")):
        handles = {mode: start(mode) for mode in MODES}
        for mode, handle in handles.items():
            until(lambda mode=mode, handle=handle, has=has: handle.wait(0) or has(mode))
            handle.stop(**how)
            assert handle.wait().state == state
        ends[state] = {mode: {one.__name__: output(spark, world, mode, one) for one in pipelines} for mode in MODES}
        world.add_live(*cut.later)
    for of_modes in ends.values():
        for name, wanted in of_modes["stream"].items():
            found = of_modes["batch"][name]
            assert found == wanted, (name, wanted - found, found - wanted)
    assert all(ends["DRAINED"]["stream"].values())
    storage = JobStorage(open_store(world.storage), "batch")
    assert all(storage.prelude(folder_of("batch", one)) is not None for one in pipelines)


def test_a_history_is_computed_as_a_batch_and_the_stream_goes_on(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 90), rows(2, 60), rows(3, 240))
    world.add_live(rows(4, 122))  # a minute after the hour, so that the watermark is the very end of windows
    pipelines = (tumbling, tops)

    job = make(world, "batch", pipelines, "1 minute")
    config = {**QUICK, "backlog.mode": "auto", "checkpoint.retained": "1000"}  # so that the first record stays
    handle = job.start(spark, storage=world.storage, config=config)
    until(lambda: handle.wait(0) is not None or all(records(world, "batch", pipelines)))
    world.add_live(rows(6, 150))
    until(
        lambda: (
            handle.wait(0) is not None or all(one and has_read(one, 2) for one in records(world, "batch", pipelines))
        )
    )
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"

    storage, data = JobStorage(open_store(world.storage), "batch"), spark.createDataFrame(world.data, DDL)
    none = data.where("false")
    for pipeline in pipelines:
        folder = folder_of("batch", pipeline)
        first, found = storage.record(folder, 0), storage.prelude(folder)
        assert first is not None
        assert found is not None
        # What closes by 6:00 is out with the first batch; the one file with rows of open windows is read again.
        assert (first.watermark_ms, first.inputs["history"].files) == (found.watermark_ms, 2)
        assert first.rows_out
        assert storage.store.names(read_layout.prelude_folder(folder)) == []
        expected = Counter(map(str, pipeline(data, none).collect()))
        assert output(spark, world, "batch", pipeline) == expected


def test_a_start_is_refused_where_a_task_has_to_and_cannot(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 3))

    with pytest.raises(DefinitionError, match="deduplication") as refused:
        make(world, "batch", (distinct,), "1 minute").run(
            spark, storage=world.storage, config={"backlog.mode": "batch"}
        )

    assert refused.value.code == "BACKLOG_UNSUPPORTED"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("stream", {"tumbling": (None, None), "distinct": (None, None)}),
        ("auto", {"tumbling": ("batch", None), "distinct": ("stream", None)}),
        ("batch", {"tumbling": ("batch", None), "distinct": ("stream", "BACKLOG_UNSUPPORTED")}),
    ],
)
def test_a_check_says_which_tasks_do_it(
    spark: SparkSession, world: World, mode: str, said: dict[str, tuple[str | None, str | None]]
) -> None:
    world.add_history(rows(0, 3))

    preview = make(world, mode, (tumbling, distinct), "1 minute").check(
        spark, storage=world.storage, config={"backlog.mode": mode}
    )

    found = {task.uid: (task.history, task.refused and task.refused["code"]) for task in preview.tasks}
    assert found == said
    reasons = {task.uid: task.history_streams for task in preview.tasks}
    assert reasons["tumbling"] is None
    assert (reasons["distinct"] is None) == (mode == "stream")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 40))
def test_it_gives_the_rows_of_the_streaming_run_for_any_cut(spark: SparkSession, world: World, seed: int) -> None:
    chance = Generator(seed)
    compare(spark, world, Cut(seed), tuple(chance.sample(PIPELINES, 3)))
