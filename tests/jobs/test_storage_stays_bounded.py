"""What a job keeps does not grow with the number of its batches (docs/architecture.md#a-checkpoint)."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.progress import retention
from rekindle.session.session import NEEDED
from rekindle.session.settings import BATCHES_KEPT
from rekindle.spark.query import kept_batches
from rekindle.spark.query.query import Query
from tests.jobs.kit import DDL, World, has_read, rows, until


def kinds_of_files(folder: Path) -> Counter[str]:
    """Files by the folder that holds them, numbers left out: ``tasks/count/0/#/spark/offsets`` → how many."""
    found: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file():
            parts = file.relative_to(folder).parent.parts
            found["/".join("#" if part.isdigit() and len(part) > 1 else part for part in parts)] += 1
    return found


def largest_manifest(folder: Path) -> int:
    """Bytes of the largest list of changes that a version of a RocksDB state holds."""
    sizes = [0]
    for snapshot in folder.rglob("*.zip"):
        with zipfile.ZipFile(snapshot) as archive:
            sizes += [each.file_size for each in archive.infolist() if each.filename.startswith("MANIFEST")]
    return max(sizes)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("batches", [400, 1_000])
@pytest.mark.usefixtures("one_file_a_batch")
def test_storage_stays_bounded(
    spark: SparkSession, world: World, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_batches, "MOST_ROOM", 100)
    session = spark.newSession()
    # Spark deletes state in the background, now and then.
    session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    world.add_history(*(rows(hour / 4, 2) for hour in range(batches)))
    job = world.hourly(live=False)
    config = {"checkpoint.interval": "2 seconds", "checkpoint.retained": "2", "input.target_batch_duration": "1 ms"}

    result = job.start(session, storage=world.storage, config=config).wait()

    assert result.state == "FINISHED"
    assert world.output() == world.expected()
    kept = kinds_of_files(Path(world.storage) / "hourly")
    task = "tasks/count/0/#"
    sparks = 2 * (kept_batches.LEAST + 30)  # with the checksum that Spark keeps beside each
    bounds = {
        f"{task}/batches": 60,
        f"{task}/spark/offsets": sparks,
        f"{task}/spark/commits": sparks,
        f"{task}/spark/sources/0": 60,
        f"{task}/inbox/history/_spark_metadata": 30,
        "checkpoints/#": 4,
        **{kind: sparks for kind in kept if "/state/" in kind},
    }
    assert kept[f"{task}/spark/offsets"] > 0
    assert {kind: kept[kind] for kind, most in bounds.items() if kept[kind] > most} == {}
    # Some 300 bytes a batch since the state was opened.
    assert 0 < largest_manifest(Path(world.storage)) < 60_000


def test_spark_clears_up_what_no_checkpoint_needs_and_nothing_that_one_needs(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_batches, "LEAST", 16)
    monkeypatch.setattr(kept_batches, "MOST_ROOM", 16)
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "100ms")
    starts: list[int] = []
    start = Query.start

    def counted(self: Query, *given: Any, **named: Any) -> None:
        starts.append(self.commits.last)
        start(self, *given, **named)

    monkeypatch.setattr(Query, "start", counted)
    world.add_live(*(rows(hour / 2, 3) for hour in range(3)))
    handle = world.hourly(history=False).start(
        session, storage=world.storage, config={"checkpoint.interval": 0, "checkpoint.retained": 2}
    )
    until(lambda: has_read(handle, 3))
    kept = handle.checkpoint().number

    # The one checkpoint is kept, and Spark is let keep more and more.
    world.add_live(*(rows(hour / 2, 3) for hour in range(3, 33)))
    until(lambda: has_read(handle, 33))
    assert len(starts) >= 2 and starts == sorted(starts)
    handle.stop()
    first, world.out = world.out, world.root / "again"
    handle = world.hourly(history=False).start(session, storage=world.storage, restore=str(kept), allow_sink_ahead=True)
    until(lambda: has_read(handle, 33))
    result = handle.stop(drain=True)
    assert result.state == "DRAINED"
    assert world.output() == world.expected()
    world.out = first
    assert not world.output() - world.expected(), "nothing is there twice"


def test_a_query_runs_on_where_checkpoints_follow_it_and_its_directory_stays_small(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_batches, "LEAST", 20)
    monkeypatch.setitem(NEEDED, BATCHES_KEPT, "20")
    monkeypatch.setattr(retention, "_LOOK_EVERY", 10)
    monkeypatch.setattr(retention, "_READ_AGAIN", 3)
    # The times of files lie a second apart.
    options = {"maxFilesPerTrigger": 1, "MAXFILEAGE": "20s"}
    aging = rk.Stream(lambda own: own.readStream.schema(DDL).options(**options).parquet(str(world.live)))
    monkeypatch.setattr(world, "stream", lambda: aging)
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "100ms")
    session.conf.set("spark.sql.streaming.fileSource.log.cleanupDelay", "0")
    config = {"checkpoint.interval": 0, "checkpoint.retained": 1}
    handle = world.hourly(history=False).start(session, storage=world.storage, config=config)
    for part in range(10):
        world.add_live(*(rows(hour / 2, 3) for hour in range(part * 6, part * 6 + 6)))
        until(lambda part=part: has_read(handle, part * 6 + 6))
        handle.checkpoint()
    handle.stop()
    found = kinds_of_files(Path(world.storage) / "hourly")
    task = "tasks/count/0/#/spark"
    assert 0 < found[f"{task}/offsets"] <= 2 * (20 + 3) and found[f"{task}/commits"] <= 2 * (20 + 3)
    assert found[f"{task}/sources/0"] <= 2 * 40
    assert max(count for kind, count in found.items() if "/state/" in kind) <= 6 * 30, "of 60 batches"
    log = max(Path(world.storage).glob("hourly/tasks/count/0/*/spark/sources/0/*.compact"), key=lambda it: int(it.stem))
    assert log.stem == "59" and len(log.read_text().splitlines()) <= 1 + 25, "of 60 files Spark goes by 21"

    world.add_live(*(rows(hour / 2, 3) for hour in range(60, 65)))
    handle = world.hourly(history=False).start(session, storage=world.storage, config=config)
    until(lambda: has_read(handle, 65))
    assert handle.stop(drain=True).state == "DRAINED"
    assert world.output() == world.expected(), "no file was read twice"
