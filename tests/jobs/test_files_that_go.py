"""Files that go while a job runs: those of a table beside its streams, and those of a stream before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from tests.jobs.kit import DDL, QUICK, World, committed, has_read, rows, until


def names(folder: Path, number: int, name: str) -> None:
    """Write a table of one file, in the place of the file that was there."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": ["a"], "name": [name]}), folder / f"{number}.parquet")
    (folder / f"{number - 1}.parquet").unlink(missing_ok=True)


def test_a_table_beside_a_stream_may_be_replaced_while_the_job_runs(spark: SparkSession, world: World) -> None:
    table = world.root / "names"
    names(table, 1, "old")
    world.add_live(rows(0, 1))
    job = rk.Job("named")

    @job.task(job.source("live", world.stream()))
    def named(live: Any) -> Any:
        return live.join(live.sparkSession.read.parquet(str(table)), "k").select("k", "name")

    job.sink("out", named, rk.sinks.Parquet(world.out))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    names(table, 2, "new")
    world.add_live(rows(1, 1))
    until(lambda: has_read(handle, 2))
    (task,) = handle.status().tasks
    assert task.failure is not None and task.failure.code == "TASK_FAILED", task.failure
    assert "names/1.parquet" in task.failure.message and "live" not in task.failure.message

    assert handle.stop().state == "STOPPED"
    assert [row["name"] for row in committed(world.out)] == ["old", "new"]


def test_a_file_of_a_stream_that_goes_before_it_is_read_is_not_left_out_without_a_word(
    spark: SparkSession, world: World
) -> None:
    gone, kept = world.live / "0001.parquet", world.root / "kept"
    written: list[int] = []

    def job(**options: str) -> rk.Job:
        of_live = rk.Stream(lambda spark: spark.readStream.schema(DDL).options(**options).parquet(str(world.live)))
        job = rk.Job("copied")
        copied = job.task(job.source("live", of_live), uid="copied")(lambda live: live)
        job.sink("out", copied, rk.sinks.Foreach(write))
        return job

    def write(df: Any, batch: Any) -> None:
        if gone.exists() and not kept.exists():  # the batch is planned
            gone.rename(kept)
            raise OSError("the target is away")
        written.append(df.count())

    world.add_live(rows(0, 3), rows(1, 2))
    with pytest.raises(
        InputError, match=r"Source 'live': \S*0001\.parquet was listed to be read, and is gone"
    ) as gone_is:
        job().run(spark, storage=world.storage, config=QUICK)
    assert gone_is.value.code == "FILE_VANISHED" and written == []

    handle = job(ignoreMissingFiles="True").start(spark, storage=f"{world.storage}-without", config=QUICK)
    until(lambda: written)
    assert handle.stop().state == "STOPPED" and written == [2]

    kept.rename(gone)
    kept.touch()
    handle = job().start(spark, storage=world.storage, config=QUICK)
    until(lambda: len(written) > 1)
    assert handle.stop().state == "STOPPED" and written == [2, 5]
