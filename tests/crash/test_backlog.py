"""A history that is computed as a batch, with a fault, or a kill, at every step of that: each row once."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.testing.crash import Moment, Moments
from tests.crash.kit import CONFIG, LAST_LIVE_BATCH, CrashWorld, persist
from tests.crash.lives import read_and_drain
from tests.crash.victim import FEW_CHECKPOINTS, Victim
from tests.jobs.backlog_kit import (
    Generator,
    Pipeline,
    distinct,
    expected,
    folder_of,
    have_read_all,
    make,
    output,
    records,
    sessions,
    storage_of,
    two_sides,
    within_an_hour,
)
from tests.jobs.kit import rows, until

BATCH = {"backlog.mode": "batch"}

MOMENTS = (
    "prelude.create/before",
    "prelude.create/after",
    "progress.write/before",
    "progress.write/after",
    "sink.prepare/before",
    "sink.prepare/after:2",
    "record.create/before",
    "record.create/after",
    "storage.delete/before",
    "storage.delete/after",
    "spark.commit/before",
    "spark.commit/after",
    "record.create/after:2",
)


@pytest.fixture
def world(tmp_path: Path) -> CrashWorld:
    return CrashWorld(tmp_path).fill()


def goes_on(spark: SparkSession, world: CrashWorld, mode: str) -> None:
    def start() -> JobHandle:
        return world.job().start(spark, storage=world.storage, config={**CONFIG, "backlog.mode": mode})

    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()


def is_decided(world: CrashWorld) -> bool:
    return world.documents().prelude(layout.subtask(world.name, "count", 0, 1)) is not None


def test_a_fault_at_every_step_of_it_loses_nothing(spark: SparkSession, world: CrashWorld) -> None:
    faults = Moments(map(Moment.parse, MOMENTS))
    start = heard_by(faults, world.job().start)

    persist(
        lambda: start(spark, storage=world.storage, config={**CONFIG, **BATCH}),
        "DRAINED",
        lambda handle: read_and_drain(world, handle),
    )

    world.check()
    assert not faults.waiting, "each of them was reached"
    assert is_decided(world)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [sessions, distinct, within_an_hour])
def test_a_fault_at_every_step_of_a_first_batch_that_reads_a_history_loses_nothing(
    spark: SparkSession, tmp_path: Path, pipeline: Pipeline
) -> None:
    worlds = two_sides(tmp_path)
    moments = (*MOMENTS, "inbox.admit/before", "inbox.admit/after")
    faults = Moments(map(Moment.parse, moments))
    start = heard_by(faults, make(worlds, "batch", (pipeline,), "1 minute").start)
    mode = Generator(pipeline.__name__)

    def read_and_go_on(handle: JobHandle) -> None:
        until(lambda: handle.wait(0) is not None or records(worlds[""], "batch", (pipeline,))[0])
        if len(list(worlds[""].live.iterdir())) == 1:
            for side in worlds.values():
                side.add_live(rows(6.05, 150))  # a row at 6:00 would be late
        until(lambda: handle.wait(0) is not None or have_read_all(worlds, (pipeline,)))
        handle.stop(drain=True)

    def start_in_any_mode() -> JobHandle:
        # Once it is decided, what its first batch reads is no choice any more.
        decided = storage_of(worlds[""], "batch").prelude(folder_of("batch", pipeline)) is not None
        config = {**CONFIG, "backlog.mode": mode.choice(("stream", "auto")) if decided else "batch"}
        return start(spark, storage=worlds[""].storage, config=config)

    persist(start_in_any_mode, "DRAINED", read_and_go_on)

    assert output(spark, worlds[""], "batch", pipeline) == expected(spark, worlds, pipeline)
    assert not faults.waiting, "each of them was reached"


def test_a_stop_in_it_leaves_a_savepoint_that_continues_elsewhere(spark: SparkSession, world: CrashWorld) -> None:
    world.add_history(rows(36, 240))  # windows that stay open, and a file of the history that is read again
    config, elsewhere = {**CONFIG, **BATCH}, str(world.root / "elsewhere")
    handle = world.job().start(spark, storage=world.storage, config=config)
    folder = layout.subtask(world.name, "count", 0, 1)
    until(lambda: world.documents().last_record(folder) is not None or handle.wait(0) is not None)

    stopped = handle.stop(savepoint=str(world.root / "savepoints"))

    before = world.outputs()
    assert before["out"], "what the prelude has closed is out"
    for out in world.outs.values():
        shutil.rmtree(out)
    handle = world.job().start(spark, storage=elsewhere, restore=stopped.savepoint, config=config)
    until(lambda: handle.wait(0) is not None or has_read_all(handle, world, elsewhere))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    world.check(already=before)


def read_of_live(record: BatchRecord) -> int:
    """Return how many files of the live stream are read: each batch takes one."""
    offset = record.inputs["live"].offset
    return 0 if offset is None else int(offset["logOffset"]) + 1


def has_read_all(handle: JobHandle, world: CrashWorld, storage: str) -> bool:
    documents, tasks = world.documents(storage), handle.status().tasks
    lineage = documents.lineage()
    record = lineage and documents.last_record(layout.subtask(world.name, "count", 0, lineage.lineage))
    if not record or not tasks:
        return False
    return tasks[0].inputs["history"].share == 1.0 and read_of_live(record) > LAST_LIVE_BATCH


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["batch", "stream"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_in_it_is_resumed_in_either_mode(
    spark: SparkSession, world: CrashWorld, moment: str, mode: str
) -> None:
    victim = Victim(world, "--kill-at", moment, live=True, config={**FEW_CHECKPOINTS, **BATCH})
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"

    goes_on(spark, world, mode)

    recorded = moment.partition("/")[0] in {"storage.delete", "spark.commit"} or moment.startswith(
        "record.create/after"
    )
    assert is_decided(world) == (mode == "batch" or recorded)
