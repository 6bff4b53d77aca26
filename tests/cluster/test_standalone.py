"""A job on a cluster, some of which dies under it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import EXECUTOR_MEMORY, ROOT, WORKERS, Cluster, executor_of
from tests.crash.pipeline_kit import PipelineWorld
from tests.jobs.kit import QUICK, until

JOB_FILE = Path(__file__).with_name("job_file.py")
SECONDS_AT_MOST = 400


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    try:
        yield made.start()
    finally:
        made.kill()


@pytest.mark.spark
@pytest.mark.slow
def test_an_executor_that_is_killed_in_the_middle_of_a_batch_costs_no_row_and_doubles_none(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = PipelineWorld(tmp_path / "world").fill()
    gate, held = world.root / "shut", world.root / "held"
    gate.touch()
    settings = {
        "spark.master": cluster.master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
    }
    command = [
        *(sys.executable, "-m", "rekindle.cli", "run", str(JOB_FILE), "--storage", world.storage),
        *(part for key, value in QUICK.items() for part in ("--set", f"{key}={value}")),
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "PYSPARK_PYTHON": sys.executable,
        "CLUSTER_WORLD": str(world.root),
    }
    log = tmp_path / "driver.log"
    with log.open("wb") as out:
        driver = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        until(lambda: driver.poll() is not None or (held.exists() and held.read_text() != ""), SECONDS_AT_MOST)
        assert driver.poll() is None, log.read_text()[-3000:]
        executor = executor_of(int(held.read_text()))
        os.kill(executor, signal.SIGKILL)
        until(lambda: len(cluster.executors()) > WORKERS, SECONDS_AT_MOST)
        gate.unlink()
        assert driver.wait(SECONDS_AT_MOST) == 0, log.read_text()[-3000:]
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    world.check(live=False)
