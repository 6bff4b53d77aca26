"""The job of the README, given to a standalone cluster by spark-submit: run, stopped, given again, drained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cluster.standalone import EXECUTOR_MEMORY, ROOT, Cluster
from tests.jobs.kit import until

SECONDS_AT_MOST = 300

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
}
SUBMIT = [
    str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
    *(part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")),
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYSPARK_PYTHON": sys.executable}
REKINDLE = [sys.executable, "-m", "rekindle.cli"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    try:
        yield made.start()
    finally:
        made.kill()


def asked(folder: Path, *arguments: str, code: int = 0) -> dict:
    """What a verb answers, from another process."""
    command = [*REKINDLE, *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def is_at_work(folder: Path, run: int) -> bool:
    """Return True if this run of the job has read rows, or an earlier one has, and its task runs."""
    status = JobStorage(LocalStore(str(folder / "rekindle-state")), "hourly_bids").status()
    return (
        status is not None
        and status.run == run
        and status.batches > 0
        and [task.status for task in status.tasks] == ["running"]
    )


def submitted(cluster: Cluster, folder: Path, run: int, *end: str) -> tuple[int, dict, str]:
    """Give the job to the cluster; once it is at work, end it. Return its exit code, the answer and what it printed."""
    log = folder / "driver.log"
    with log.open("wb") as out:
        command = [*SUBMIT, "--master", cluster.master, "hourly_bids.py"]
        driver = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=out, stderr=out, start_new_session=True)
    try:
        until(lambda: driver.poll() is not None or is_at_work(folder, run), SECONDS_AT_MOST)
        assert driver.poll() is None, log.read_text()[-3000:]
        answer = asked(folder, *end)
        return driver.wait(SECONDS_AT_MOST), answer, log.read_text()
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, 9)
            driver.wait()


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_was_submitted_is_stopped_and_goes_on_when_it_is_submitted_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    asked(tmp_path, "example", "job")
    folder = tmp_path / "job"

    code, answer, log = submitted(cluster, folder, 1, "stop", "hourly_bids")
    assert (code, answer["state"]) == (0, "STOPPED"), log[-3000:]
    assert len(cluster.executors()) >= 1, "the rows were read on the cluster"

    code, answer, log = submitted(cluster, folder, 2, "stop", "hourly_bids", "--drain")
    assert (code, answer["state"]) == (0, "DRAINED"), log[-3000:]
    assert [(run["run"], run["state"]) for run in asked(folder, "runs", "hourly_bids")] == [
        (2, "DRAINED"), (1, "STOPPED"),
    ]  # fmt: skip
    bids = sum(pq.read_metadata(file).num_rows for file in (folder / "bids").rglob("*.parquet"))
    written = pq.read_table(folder / "out" / "hourly").to_pydict()
    assert sum(written["bids"]) == bids
    windows = [(start["start"], auction) for start, auction in zip(written["window"], written["auction"], strict=True)]
    assert len(set(windows)) == len(windows)
