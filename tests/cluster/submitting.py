"""The job of the README, given to a cluster by spark-submit, watched and ended from another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cluster.standalone import EXECUTOR_MEMORY, ROOT
from tests.jobs.kit import until

SECONDS_AT_MOST = 300

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
}
PYTHON = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYSPARK_PYTHON": sys.executable}
"""What a process needs to run the job; the driver and the executors of a cluster too."""

ENVIRONMENT = {**os.environ, **PYTHON}
REKINDLE = [sys.executable, "-m", "rekindle.cli"]


def submit_command(settings: Mapping[str, str]) -> list[str]:
    """The command line up to where the cluster is named."""
    every = {**SETTINGS, **settings}.items()
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return [str(spark_submit), *(part for key, value in every for part in ("--conf", f"{key}={value}"))]


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


class Submitted:
    """A `spark-submit` of the job in a folder, and what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self._process, self._folder, self._log = process, folder, log

    def wait_for_work(self, run: int) -> None:
        """Wait until this run of the job is at work."""
        until(lambda: self._process.poll() is not None or is_at_work(self._folder, run), SECONDS_AT_MOST)
        assert self._process.poll() is None, self.log()

    def end(self, *verb: str) -> tuple[int, dict]:
        """End the job by a verb; return the exit code of `spark-submit` and what the verb answers."""
        answer = asked(self._folder, *verb)
        return self.wait(), answer

    def wait(self) -> int:
        """Return the exit code of `spark-submit`."""
        return self._process.wait(SECONDS_AT_MOST)

    def log(self) -> str:
        return self._log.read_text()[-3000:]


@contextmanager
def submitted(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Submitted]:
    """Give the job to a cluster; it does not outlive the block."""
    log = folder / "driver.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "hourly_bids.py"],
            cwd=folder,
            env={**ENVIRONMENT, **(environment or {})},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Submitted(process, folder, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def assert_every_bid_is_counted_once(folder: Path) -> None:
    """The windows that were written have all bids of the folder, and each window and auction is there once."""
    import pyarrow.parquet as pq

    bids = sum(pq.read_metadata(file).num_rows for file in (folder / "bids").rglob("*.parquet"))
    written = pq.read_table(folder / "out" / "hourly").to_pydict()
    assert sum(written["bids"]) == bids
    windows = [(start["start"], auction) for start, auction in zip(written["window"], written["auction"], strict=True)]
    assert len(set(windows)) == len(windows)
