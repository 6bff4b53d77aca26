"""Histories that a live stream continues, for tests of `backlog.mode`: pipelines, random cuts, both modes compared."""

from __future__ import annotations

import datetime as dt
import inspect
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import DDL, QUICK, UTC, Row, World, at, rows, until

Frame = Any
Pipeline = Callable[..., Frame]
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
    return history.unionByName(live).where("v > 0").select("k", "ts").dropDuplicates()


def first_of_hours(history: Frame, live: Frame) -> Frame:
    both = live.unionByName(history).select(F.window("ts", "1 hour").alias("hour"), "k", F.lit("seen").alias("is"))
    return both.dropDuplicates(["hour", "k"])


def sessions(history: Frame, live: Frame) -> Frame:
    both = history.unionByName(live).where("v > 0").groupBy(F.session_window("ts", "10 minutes"), "k")
    return both.agg(F.sum("v").alias("v"), F.min("ts").alias("first"))


def long_sessions(history: Frame, live: Frame) -> Frame:
    gap = F.when(F.col("k") < "c", "70 minutes").otherwise("25 minutes")
    both = live.unionByName(history).groupBy("k", F.session_window("ts", gap)).agg(F.count("*").alias("n"))
    return both.where("n > 1").select("n", "k", "session_window")


def unbound(history: Frame, live: Frame) -> Frame:
    return history.join(live.select("k", F.col("v").alias("w")), "k")


def sides(left: Frame, right: Frame) -> tuple[Frame, Frame]:
    return left.withColumnsRenamed({"ts": "left_ts", "k": "left_k"}), right.withColumnsRenamed({"v": "w"})


def within_an_hour(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    left, right = sides(history.unionByName(live), other_live.unionByName(other_history))
    bounds = "ts BETWEEN left_ts - INTERVAL 20 MINUTES AND left_ts + INTERVAL 1 HOUR"
    return left.join(right, F.expr(f"left_k = k AND v < 8 AND {bounds}")).drop("left_k")


def much_later(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    left, right = sides(history.unionByName(live), other_history.unionByName(other_live))
    bounds = "ts > left_ts + INTERVAL 90 MINUTES AND ts < left_ts + INTERVAL 3 HOURS"
    return right.join(left, F.expr(f"left_k = k AND {bounds}")).where("v + w > 2")


def in_a_window(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    left, right = (
        one.select(F.window("ts", "2 hours", "1 hour").alias("hours"), "k", "v")
        for one in (history.unionByName(live), other_history.unionByName(other_live))
    )
    return left.join(right.select("hours", "k", F.col("v").alias("w")), ["hours", "k"])


def at_a_time(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    left, right = history.unionByName(live), other_history.unionByName(other_live)
    return left.join(right.select("ts", "k", F.col("v").alias("w")), ["ts", "k"])


def both_in_an_hour(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    hour = F.window("ts", "1 hour")
    left = history.unionByName(live).groupBy(hour, "k").agg(F.sum("v").alias("v"))
    right = other_live.unionByName(other_history).where("v > 0").groupBy(hour, "k").agg(F.max("ts").alias("last"))
    return left.join(right, ["window", "k"]).select("window.start", "k", "v", "last")


def most_of_both(history: Frame, live: Frame, other_history: Frame, other_live: Frame) -> Frame:
    hours = F.window("ts", "2 hours", "1 hour")
    left = history.unionByName(live).groupBy(hours.alias("hours"), "k").agg(F.count("*").alias("n"))
    right = other_history.unionByName(other_live).groupBy(hours.alias("other"), "v").agg(F.count("*").alias("m"))
    pairs = left.where("n > 1").join(right, F.expr("hours = other AND n > m"))
    return pairs.groupBy("hours").agg(F.max("n").alias("n"), F.sum("m").alias("m"), F.count("*").alias("pairs"))


PIPELINES: tuple[Pipeline, ...] = (tumbling, sliding, by_time, tops, named)
OF_WINDOWS: tuple[Pipeline, ...] = (both_in_an_hour, most_of_both)
DUPLICATES: tuple[Pipeline, ...] = (distinct, first_of_hours)
SESSIONS: tuple[Pipeline, ...] = (sessions, long_sessions)
JOINS: tuple[Pipeline, ...] = (within_an_hour, much_later, in_a_window, at_a_time)


def some_rows(chance: Generator, count: int, first: float, last: float) -> list[Row]:
    found: list[Row] = [
        (at(chance.uniform(first, last)), chance.choice("abcde"), chance.randint(-2, 9)) for _ in range(count)
    ]
    return [(None, key, value) if chance.random() < 0.02 else (ts, key, value) for ts, key, value in found]


class Cut:
    """Files of a history and of a live stream, the second in two parts: before a job starts and while it is stopped."""

    def __init__(self, chance: Generator, delay_minutes: int) -> None:
        self.grid = chance.random() < 0.5  # many rows at the same times
        end = chance.uniform(4, 12)
        self.history = [
            self._rows(chance, chance.randint(1, 60), begin, chance.uniform(begin, end))
            for begin in (chance.uniform(0, end - 1) for _ in range(chance.randint(1, 4)))
        ]
        begin = chance.uniform(0, end + 2)
        self.now = [
            [
                (at(begin + 1), "a", 1),
                *self._rows(chance, chance.randint(0, 40), begin, begin + chance.uniform(1, 6)),
            ]
            for _ in range(chance.randint(1, 2))
        ]
        # Some of them are late, and some are not although other rows are later.
        self.later = [self._rows(chance, 40, max(0, begin - 3), begin + 9)]
        last = max(ts for ts, _, _ in chain(*self.now) if ts is not None) - dt.timedelta(minutes=delay_minutes)
        self.watermark_ms = (last - EPOCH) // dt.timedelta(milliseconds=1)

    def _rows(self, chance: Generator, count: int, first: float, last: float) -> list[Row]:
        found = some_rows(chance, count, first, last)
        if self.grid:
            found = [
                (ts and ts.replace(minute=ts.minute // 6 * 6, second=0, microsecond=0), *row) for ts, *row in found
            ]
        return found


class Live(Protocol):
    """A live stream."""

    def add(self, *parts: list[Row]) -> None:
        """Let rows come."""
        ...

    def source(self, mode: str) -> rk.Stream:
        """Return the source of it; in the mode "stream" it reads all that is there as one batch."""
        ...

    def has_read(self, mode: str, offset: dict[str, Any], parts: int) -> bool:
        """Return whether a position in it is after all that came, of which so many parts were there at the start."""
        ...


class Folder:
    """Files in a folder. The stream that has no prelude takes all that are there as one batch."""

    def __init__(self, world: World) -> None:
        self.world = world

    def add(self, *parts: list[Row]) -> None:
        """See `Live`."""
        self.world.add_live(*parts)

    def source(self, mode: str) -> rk.Stream:
        """See `Live`."""
        options = dict[str, Any]() if mode == "stream" else {"maxFilesPerTrigger": 1}
        return rk.Stream(partial(stream_of, str(self.world.live), options))

    def has_read(self, mode: str, offset: dict[str, Any], parts: int) -> bool:
        """See `Live`."""
        return bool(offset["logOffset"] >= (1 if mode == "stream" else parts))


class Side(NamedTuple):
    """One of the two sides of joins: sources of it have names of their own."""

    prefix: str
    world: World
    cut: Cut
    live: Live


def reads(pipeline: Pipeline) -> list[str]:
    return list(inspect.signature(pipeline).parameters)


def make(
    worlds: Mapping[str, World],
    mode: str,
    pipelines: tuple[Pipeline, ...],
    delay: str,
    lives: Mapping[str, Live] | None = None,
) -> rk.Job:
    job, sources = rk.Job(mode), dict[str, Any]()
    for prefix, world in worlds.items():
        sources[f"{prefix}history"] = job.source(f"{prefix}history", world.files(), event_time="ts")
        live = Folder(world) if lives is None else lives[prefix]
        sources[f"{prefix}live"] = job.source(f"{prefix}live", live.source(mode), event_time="ts", watermark=delay)
    for pipeline in pipelines:
        task = job.task(*(sources[name] for name in reads(pipeline)), uid=pipeline.__name__)(pipeline)
        job.sink(f"{pipeline.__name__}_out", task, rk.sinks.Parquet(worlds[""].out / mode / pipeline.__name__))
    return job


def stream_of(folder: str, options: dict[str, Any], spark: SparkSession) -> Frame:
    return spark.readStream.schema(DDL).options(**options).parquet(folder)


def storage_of(world: World, mode: str) -> JobStorage:
    return JobStorage(open_store(world.storage), mode)


def records(world: World, mode: str, pipelines: tuple[Pipeline, ...]) -> list[BatchRecord | None]:
    """The last record of each task."""
    storage = JobStorage(open_store(world.storage), mode)
    return [storage.last_record(folder_of(mode, pipeline)) for pipeline in pipelines]


def folder_of(mode: str, pipeline: Pipeline) -> str:
    return layout.subtask(mode, pipeline.__name__, 0, 1)


def output(spark: SparkSession, world: World, mode: str, pipeline: Pipeline) -> Counter[Any]:
    folder = world.out / mode / pipeline.__name__
    is_there = any(folder.glob("*.parquet"))
    return Counter(map(str, spark.read.parquet(str(folder)).collect())) if is_there else Counter()


def compare(
    spark: SparkSession,
    world: World,
    seed: int,
    pipelines: tuple[Pipeline, ...],
    live_of: Callable[[World], Live] = Folder,
) -> None:
    """Let a job begin in each mode, stop it, let more come, drain it."""
    chance = Generator(seed)
    delay_minutes = chance.choice((0, 1, 45))
    worlds = {"": world, "other_": World(world.root / "other")}
    sides = [Side(prefix, one, Cut(chance, delay_minutes), live_of(one)) for prefix, one in worlds.items()]
    for side in sides:
        side.world.add_history(*side.cut.history)
        side.live.add(*side.cut.now)

    def start(mode: str) -> rk.JobHandle:
        lives = {side.prefix: side.live for side in sides}
        job = make(worlds, mode, pipelines, f"{delay_minutes} minutes", lives)
        return job.start(spark, storage=world.storage, config={**QUICK, "backlog.mode": mode})

    def read_by(pipeline: Pipeline) -> list[Side]:
        return [side for side in sides if f"{side.prefix}live" in reads(pipeline)]

    def has_settled(_: str, record: BatchRecord, read: list[Side]) -> bool:
        """The history is read, and the watermark that the live streams have now is in force."""
        are_read = all(record.inputs[f"{side.prefix}history"].files == len(side.cut.history) for side in read)
        return are_read and record.watermark_ms == min(side.cut.watermark_ms for side in read)

    def has_read_more(mode: str, record: BatchRecord, read: list[Side]) -> bool:
        offsets = {side: record.inputs[f"{side.prefix}live"].offset for side in read}
        return all(side.live.has_read(mode, offset, len(side.cut.now)) for side, offset in offsets.items())

    def has(mode: str, what: Callable[[str, BatchRecord, list[Side]], bool]) -> bool:
        found = zip(records(world, mode, pipelines), map(read_by, pipelines), strict=True)
        return all(one is not None and what(mode, one, read) for one, read in found)

    ends = {}
    for what, how, state in ((has_settled, {}, "STOPPED"), (has_read_more, {"drain": True}, "DRAINED")):
        handles = {mode: start(mode) for mode in MODES}
        for mode, handle in handles.items():
            until(lambda mode=mode, handle=handle, what=what: handle.wait(0) or has(mode, what))
            handle.stop(**how)
            assert handle.wait().state == state
        ends[state] = {mode: {one.__name__: output(spark, world, mode, one) for one in pipelines} for mode in MODES}
        for side in sides:
            side.live.add(*side.cut.later)
    for of_modes in ends.values():
        for name, wanted in of_modes["stream"].items():
            found = of_modes["batch"][name]
            assert found == wanted, (name, wanted - found, found - wanted)
    assert any(ends["DRAINED"]["stream"].values())
    storage = JobStorage(open_store(world.storage), "batch")
    assert all(storage.prelude(folder_of("batch", one)) is not None for one in pipelines)


def two_sides(root: Path) -> dict[str, World]:
    """Two sides whose histories are in the order of time, each with a live stream whose watermark is 6:00."""
    world, other = World(root), World(root / "other")
    world.add_history(rows(0, 90), rows(2, 60), rows(3, 240))
    world.add_live(rows(4, 122))  # a minute after the hour, so that the watermark is the very end of windows
    other.add_history(rows(0, 60), rows(1, 300, "bcd"), rows(4.8, 5, "x"), rows(2, 30))
    other.add_live(rows(5, 62))
    return {"": world, "other_": other}


def expected(spark: SparkSession, worlds: Mapping[str, World], pipeline: Pipeline) -> Counter[Any]:
    """Return the rows that a batch query makes of all that there is."""
    data = {side: spark.createDataFrame(world.data, DDL) for side, world in worlds.items()}
    frames = [data[""], data[""].where("false"), data["other_"], data["other_"].where("false")]
    return Counter(map(str, pipeline(*frames[: len(reads(pipeline))]).collect()))


def have_read_all(worlds: Mapping[str, World], pipelines: tuple[Pipeline, ...]) -> bool:
    """Return whether the histories are read, and two files of the live streams."""
    found = [one.inputs if one else None for one in records(worlds[""], "batch", pipelines)]
    files = {f"{side}history": len(list(world.history.iterdir())) for side, world in worlds.items()}
    return all(
        inputs is not None
        and all(
            at.offset["logOffset"] >= 1 if uid not in files else at.files == files[uid] for uid, at in inputs.items()
        )
        for inputs in found
    )
