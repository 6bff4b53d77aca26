"""A user's stream whose folder ends like one of Rekindle's own: which source reads what is told by the whole path."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, World, committed, has_read, rows, until, write


@pytest.mark.usefixtures("one_file_a_batch")
@pytest.mark.parametrize("place", ["inbox/history", "marks/live"])
def test_a_stream_is_not_taken_for_a_folder_of_rekindles(spark: SparkSession, world: World, place: str) -> None:
    world.add_history(*(rows(hour, 3) for hour in range(4)))
    folder = world.root / place
    write(folder, "live.parquet", rows(5, 3))

    def job_of(out: Path) -> rk.Job:
        def read(session: SparkSession) -> Any:
            return session.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))

        job = rk.Job("alike")
        history = job.source("history", world.files(), event_time="ts")
        live = job.source("live", rk.Stream(read), event_time="ts", watermark="1 minute")
        task = job.task(history, live, uid="both")(lambda history, live: history.unionByName(live))
        job.sink("out", task, rk.sinks.Parquet(out))
        return job

    config = {**QUICK, "input.target_batch_duration": "1 ms"}
    handle = job_of(world.out).start(spark, storage=world.storage, config=config)
    until(lambda: handle.status().tasks[0].inputs["history"].ended and has_read(handle, 1), seconds=30)
    saved = handle.stop(savepoint=str(world.root / "savepoints")).savepoint
    handle.wait()
    restored = job_of(world.root / "again").start(spark, storage=str(world.root / "b"), config=config, restore=saved)
    restored.stop(drain=True)

    assert restored.wait().state == "DRAINED"
    assert Counter(row["ts"].hour for row in committed(world.out)) == {0: 3, 1: 3, 2: 3, 3: 3, 5: 3}
    assert committed(world.root / "again") == []
