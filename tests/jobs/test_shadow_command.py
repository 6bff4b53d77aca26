"""``rekindle shadow`` as a user runs it: killed, disposed of, run again; its exit codes; a sink in PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import DDL, QUICK, World, rows, until
from tests.servers.postgres import PostgresServer

CONFIG = {**QUICK, "checkpoint.retained": "1000"}


def hourly(live: str, dsn: str, *, factor: int) -> rk.Job:
    """Rows per hour and key, into a table."""
    job = rk.Job("hourly")
    read = lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(live)  # noqa: E731
    source = job.source("live", rk.Stream(read), event_time="ts", watermark="4 seconds")

    @job.task(source, uid="count")
    def count(frame: DataFrame) -> DataFrame:
        counted = frame.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
        grown = F.when(F.col("k") == "b", F.col("v") * factor).otherwise(F.col("v"))
        return counted.select("window.start", "k", grown.alias("v"))

    job.sink("out", count, rk.sinks.Postgres(dsn, "shadowed", checkpoint_column="rk_checkpoint"))
    return job


JOB_FILE = """
import os
from tests.jobs.test_shadow_command import hourly

job = hourly(os.environ["LIVE"], os.environ["DSN"], factor=int(os.environ["FACTOR"]))
"""


class Shadows:
    """Commands on shadows of a job that has stopped."""

    def __init__(self, world: World, dsn: str, origin: str) -> None:
        self.file, self.folder = world.root / "new.py", world.root / "storage-shadow"
        self.file.write_text(JOB_FILE)
        self._world, self._dsn, self._origin = world, dsn, origin

    def process(self, *arguments: str, factor: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rekindle.cli", "shadow", str(self.file), "--from", self._origin, "--json"]
        command += ["--storage", self._world.storage, "--key", "start", "--key", "k", *arguments]
        for name, value in CONFIG.items():
            command += ["--set", f"{name}={value}"]
        paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        of_job = {"LIVE": str(self._world.live), "DSN": self._dsn, "FACTOR": str(factor), "PYTHONPATH": paths}
        with (self._world.root / "shadow.log").open("ab") as log:
            return subprocess.Popen(command, env={**os.environ, **of_job}, stdout=subprocess.PIPE, stderr=log)

    def dispose(self, folder: Path) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "rekindle.cli", "dispose", str(folder), "--yes"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False)


@pytest.mark.slow
def test_a_shadow_is_killed_and_disposed_of_and_the_next_ones_find_rows_that_differ_or_are_equal(
    spark: SparkSession, postgres: PostgresServer, world: World, tmp_path: Path
) -> None:
    world.add_live(rows(0, 90))
    original = hourly(str(world.live), postgres.dsn(), factor=1).start(spark, storage=world.storage, config=CONFIG)
    until(lambda: bool(original.status().tasks) and original.status().tasks[0].batch >= 0)
    origin = original.savepoint(str(tmp_path / "saves")).path
    world.add_live(rows(3, 90), rows(6, 90))
    until(lambda: bool(postgres.query("SELECT 1 FROM shadowed WHERE start >= '2025-01-01 04:00Z'")))
    last = original.checkpoint().number
    original.stop()
    shadows = Shadows(world, postgres.dsn(), origin)

    killed = shadows.process(factor=2)
    until(lambda: killed.poll() is not None or any(shadows.folder.glob("*/state/hourly/checkpoints/*/manifest.json")))
    [left] = shadows.folder.iterdir()
    running = shadows.dispose(left)
    assert (running.returncode, b"JOB_RUNNING" in running.stderr) == (1, True)
    killed.kill()
    killed.wait()
    assert JobStorage(open_store(f"{left}/state"), "hourly").state() == "LOST"
    assert shadows.dispose(left).returncode == 0
    assert list(shadows.folder.iterdir()) == []

    differs = shadows.process("--until-checkpoint", str(last), factor=2)
    said, _ = differs.communicate(timeout=120)
    [sink] = json.loads(said)["sinks"]
    assert (differs.returncode, sink["unseen"], sink["missing"], sink["extra"]) == (3, None, 0, 0), said
    assert sink["different"] >= 2 and sink["equal"] >= 4
    [left] = shadows.folder.iterdir()
    assert shadows.dispose(left).returncode == 0

    equal = shadows.process("--until-checkpoint", str(last), factor=1)
    said, _ = equal.communicate(timeout=120)
    assert (equal.returncode, json.loads(said)["verdict"]) == (0, "equal"), said
    assert list(shadows.folder.iterdir()) == []
