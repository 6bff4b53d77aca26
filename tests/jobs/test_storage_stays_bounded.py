"""What a job keeps does not grow with the number of its batches (DESIGN 7)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.spark import assembly
from tests.jobs.kit import World, rows


def kinds_of_files(folder: Path) -> Counter[str]:
    """Files by the folder that holds them, numbers left out: ``tasks/count/0/#/spark/offsets`` → how many."""
    found: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file():
            parts = file.relative_to(folder).parent.parts
            found["/".join("#" if part.isdigit() and len(part) > 1 else part for part in parts)] += 1
    return found


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("batches", [90, 1_000])
def test_storage_stays_bounded(
    spark: SparkSession, world: World, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "FIRST_ADMISSION_BYTES_PER_CORE", 1)
    # State can be purged only behind a snapshot, which Spark makes in the background, now and then.
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "5")
    spark.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    world.add_history(*(rows(hour / 4, 2) for hour in range(batches)))
    job = world.hourly(live=False)
    config = {"checkpoint.interval": "2 seconds", "checkpoint.retained": "2", "input.target_batch_duration": "1 ms"}

    result = job.start(spark, storage=world.storage, config=config).wait()

    assert result.state == "FINISHED"
    assert world.output() == world.expected()
    kept = kinds_of_files(Path(world.storage) / "hourly")
    task = "tasks/count/0/#"
    bounds = {
        f"{task}/batches": 60,
        f"{task}/spark/offsets": 120,  # with the checksum that Spark keeps beside each
        f"{task}/spark/commits": 120,
        f"{task}/spark/sources/0": 60,
        f"{task}/inbox/history/_spark_metadata": 30,
        "checkpoints/#": 4,
    }
    assert {kind: kept[kind] for kind, most in bounds.items() if kept[kind] > most} == {}
    assert max(count for kind, count in kept.items() if "/state/" in kind) < 150
