"""Tasks of several subtasks on Spark: shared sources and channels, how they end, and other subtasks after a restore."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.ids import SubtaskId
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.checkpoint import Manifest
from tests.crash.parallel_kit import FILES, ParallelWorld
from tests.crash.pipeline_kit import SMALL_BATCHES, Gate
from tests.jobs.kit import FLUSHED, rows, until

pytestmark = pytest.mark.usefixtures("one_file_a_batch")

SETTINGS = {"checkpoint.interval": "0", **SMALL_BATCHES}

FEW = 12
"""Files, of which whoever asks first is given two."""

A_BATCH_AHEAD = {"channel.max_in_flight_bytes": "2 kb"}
"""A batch of `clean` has 1.5 kB: behind one that is held up another is written, and of three files one stays unread."""


@pytest.fixture
def world(tmp_path: Path) -> ParallelWorld:
    return ParallelWorld(tmp_path).fill()


def test_subtasks_share_a_source_and_channels_and_end_with_one_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    world = ParallelWorld(tmp_path).fill(FEW)
    result = world.parallel(3, 2).start(spark, storage=world.storage, config=SETTINGS).wait()

    assert (result.state, result.checkpoint, result.error) == ("FINISHED", 1, None)
    world.check()
    manifest = world.manifest()
    assert {uid: sorted(subtasks) for uid, subtasks in manifest.tasks.items()} == {
        "clean": [0, 1, 2],
        "shape": [0, 1],
        "hourly": [0],
    }
    assert manifest.unread == {"clean": {"history": ()}}
    read = [snapshot.inputs["history"].files for snapshot in manifest.tasks["clean"].values()]
    assert sum(read) == FEW
    assert min(read) > 0, "all of them had a part in it"
    # Pointwise: the first of two reads the first of three, the second the others; the last task reads both.
    assert [sorted(one.inputs["clean"].channels) for _, one in sorted(manifest.tasks["shape"].items())] == [[0], [1, 2]]
    assert sorted(manifest.tasks["hourly"][0].inputs["shape"].channels) == [0, 1]


def in_flight(world: ParallelWorld, job: rk.Job, gate: Gate) -> Manifest:
    """Stop while a subtask of `shape` is held up: what was written for it stays in the channel."""
    handle = job.start(spark_session(), storage=world.storage, config={**SETTINGS, **A_BATCH_AHEAD})
    gate.await_held()
    until(lambda: sum(_files_read(handle).values()) >= FILES // 4)
    stopping = threading.Thread(target=handle.stop)
    stopping.start()
    until(lambda: all(one.status == "waiting_for_final_checkpoint" for one in _of(handle, "clean")))
    gate.open()
    stopping.join(300)
    assert handle.wait().state == "STOPPED"
    return world.manifest()


def spark_session() -> SparkSession:
    found = SparkSession.getActiveSession()
    assert found is not None
    return found


def _of(handle: rk.JobHandle, uid: str) -> list[Any]:
    return [one for one in handle.status().tasks if one.uid == uid]


def _flushed(handle: rk.JobHandle, uid: str) -> int:
    """How many subtasks of a task have come to their end."""
    return sum(one.status in FLUSHED for one in _of(handle, uid))


def _files_read(handle: rk.JobHandle) -> Mapping[int, int]:
    found = {one.subtask: one.inputs.get("history") for one in _of(handle, "clean")}
    return {index: one.position["files"] for index, one in found.items() if one is not None}


@pytest.mark.parametrize(
    ("clean", "shape", "in_place"),
    [
        (2, 3, True),
        pytest.param(1, 1, False, marks=pytest.mark.slow),
        pytest.param(4, 2, False, marks=pytest.mark.slow),
    ],
)
def test_a_start_with_other_subtasks_deals_out_again_what_was_unread_and_in_flight(
    spark: SparkSession, world: ParallelWorld, clean: int, shape: int, in_place: bool, gate: Gate
) -> None:
    stopped = in_flight(world, world.parallel(3, 2, gate), gate)
    assert stopped.in_flight_bytes > 0
    assert 0 < sum(until - first for first, until in stopped.unread["clean"]["history"]) < FILES

    restore = None if in_place else str(stopped.checkpoint)
    job = world.parallel(clean, shape)
    result = job.start(spark, storage=world.storage, restore=restore, config=SETTINGS).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    world.check()
    assert {uid: len(found) for uid, found in world.manifest().tasks.items()} == {
        "clean": clean,
        "shape": shape,
        "hourly": 1,
    }


@pytest.mark.slow
def test_a_slow_subtask_loses_nothing_downstream_while_the_others_end(
    spark: SparkSession, world: ParallelWorld, gate: Gate
) -> None:
    handle = world.parallel(3, 3, gate).start(
        spark, storage=world.storage, config={**SETTINGS, "checkpoint.interval": "500 ms"}
    )
    until(lambda: sum(_files_read(handle).values()) == FILES)
    until(lambda: _flushed(handle, "shape") == 2)
    gate.open()

    assert handle.wait().state == "FINISHED"
    world.check()


def test_subtasks_that_had_finished_read_what_a_restore_deals_out_to_those_that_feed_them(
    spark: SparkSession, tmp_path: Path, gate: Gate
) -> None:
    world = ParallelWorld(tmp_path).fill(FEW)
    # Whoever has the first file may not write on before it is read: what it was given with it stays unread.
    settings = {**SETTINGS, "channel.max_in_flight_bytes": "1 b"}
    handle = world.parallel(3, 3, gate).start(spark, storage=world.storage, config=settings)
    gate.await_held()
    until(lambda: _flushed(handle, "shape") == 2)
    stopping = threading.Thread(target=handle.stop)
    stopping.start()
    until(lambda: all(one.status == "waiting_for_final_checkpoint" for one in _of(handle, "clean")))
    gate.open()
    stopping.join(300)
    stopped = world.manifest()
    assert sum(one.end is not None for one in stopped.tasks["shape"].values()) == 2
    assert stopped.unread["clean"]["history"] != ()

    result = (
        world.parallel(2, 3)
        .start(spark, storage=world.storage, restore=str(stopped.checkpoint), config=SETTINGS)
        .wait()
    )

    assert result.state == "FINISHED"
    world.check()


class CountingSink(TwoPhaseSink):
    """Keeps no rows; notes what it is told."""

    def __init__(self) -> None:
        self.prepared: Counter[int] = Counter()
        self.heard: list[str] = []
        self.jobs: set[str] = set()

    def open(self, job: str, sink: str) -> None:
        self.jobs.add(job)

    def prepare(self, df: DataFrame, batch: SinkBatch) -> list[dict[str, Any]]:
        self.prepared[batch.subtask] += df.count()
        self.jobs.add(batch.job)
        return [{"subtask": batch.subtask}]

    def commit(self, committables: Any, permit: CommitPermit) -> None:
        self.heard.append("commit")

    def abort(self, committables: Any) -> None:
        raise AssertionError("nothing failed")

    def finish(self) -> None:
        self.heard.append("finish")

    def close(self) -> None:
        self.heard.append("close")


def test_one_query_feeds_several_which_share_its_output_and_a_sink(spark: SparkSession, world: ParallelWorld) -> None:
    job, sink = rk.Job("parallel"), CountingSink()
    history = job.source("history", rk.Files(str(world.history)))
    read = job.task(history, uid="read")(lambda frame: frame)
    work = job.task(read, uid="work", parallelism=3)(lambda frame: frame)
    job.sink("out", work, sink)

    assert job.start(spark, storage=world.storage, config=SETTINGS).wait().state == "FINISHED"

    assert sum(sink.prepared.values()) == len(world.data)
    assert len(sink.prepared) == 3
    assert sink.heard == ["finish", "commit", "close"], "once for all of them"
    identity = world.documents().identity()
    assert identity is not None
    assert sink.jobs == {identity.owner}, "batches go by the same name as the job: one that no copy of it has"


def test_more_subtasks_than_files_end_too(spark: SparkSession, tmp_path: Path) -> None:
    world = ParallelWorld(tmp_path)
    world.add_history(rows(0, 90, keys="ab"))

    assert world.parallel(4, 2).start(spark, storage=world.storage, config=SETTINGS).wait().state == "FINISHED"

    world.check()


@pytest.mark.parametrize(
    ("keeps", "operator"),
    [
        (lambda frame: frame.groupBy("k").count(), "Aggregate"),
        (lambda frame: frame.dropDuplicates(["k"]), "Deduplicate"),
        (lambda frame: frame.join(frame.select("k", "v"), "k"), "Join"),
    ],
)
def test_a_parallel_task_that_keeps_state_is_refused_with_the_reason(
    spark: SparkSession, world: ParallelWorld, keeps: Any, operator: str
) -> None:
    job = rk.Job("parallel")
    history = job.source("history", rk.Files(str(world.history)), event_time="ts")
    job.sink("out", job.task(history, uid="count", parallelism=2)(keeps), CountingSink())
    with pytest.raises(DefinitionError, match=rf"PARALLELISM_UNSUPPORTED.*keeps state over its rows \({operator}\)"):
        job.start(spark, storage=world.storage).wait()


def test_a_join_with_a_static_table_is_no_state(spark: SparkSession, world: ParallelWorld) -> None:
    names = spark.createDataFrame([("a", "Anna"), ("b", "Bert"), ("z", "Zoe")], "k string, name string")
    job, sink = rk.Job("parallel"), CountingSink()
    history = job.source("history", rk.Files(str(world.history)), event_time="ts")
    job.sink("out", job.task(history, uid="named", parallelism=2)(lambda frame: frame.join(names, "k")), sink)
    assert job.start(spark, storage=world.storage, config=SETTINGS).wait().state == "FINISHED"
    assert sum(sink.prepared.values()) == len(world.data)


@pytest.mark.slow
def test_what_an_earlier_lineage_shared_out_goes_with_it(spark: SparkSession, world: ParallelWorld, gate: Gate) -> None:
    stopped = in_flight(world, world.parallel(3, 2, gate), gate)
    store = world.documents().store
    assert store.names(read_layout.splits("parallel", "clean", 1, "history"))
    job = world.parallel(2, 2)
    config = {**SETTINGS, "checkpoint.retained": "1"}

    job.start(spark, storage=world.storage, restore=str(stopped.checkpoint), config=config).wait()

    assert not store.exists(f"{layout.tasks('parallel')}/clean/splits/000001")
    for index in range(3):
        assert not store.exists(layout.subtask("parallel", *SubtaskId("clean", index), 1))
