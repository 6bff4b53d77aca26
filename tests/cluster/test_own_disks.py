"""Workers that do not share a folder with the driver: an error that says so, and not a job without its rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.standalone import EXECUTOR_MEMORY, ROOT, Cluster
from tests.jobs.kit import QUICK

JOB = """
import rekindle as rk

job = rk.Job("numbers")
numbers = job.source("numbers", {source})
same = job.task(numbers, uid="same")(lambda frame: frame)
job.sink("out", same, rk.sinks.Parquet("{root}/out"))
"""

#: what lies on the workers' own disks → the job's source, and the place that the error names
CASES = {
    "out": ('rk.Files("{root}/numbers", schema="n long")', "out/.rekindle/numbers-"),
    "state/numbers/sources": ("rk.Batch(lambda spark: spark.range(100))", "state/numbers/sources/numbers/"),
}


def can_unshare() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("own", CASES)
def test_rows_on_the_workers_own_disks_fail_the_job_with_the_place(tmp_path: Path, own: str) -> None:
    if sys.platform != "linux" or not can_unshare():
        pytest.skip("mount namespaces want root on Linux")
    source, place = CASES[own]
    (tmp_path / own).mkdir(parents=True)
    (tmp_path / "numbers").mkdir()
    pq.write_table(pa.table({"n": range(100)}), tmp_path / "numbers" / "0.parquet")
    job_file, storage = tmp_path / "job_file.py", str(tmp_path / "state")
    job_file.write_text(JOB.format(root=tmp_path, source=source.format(root=tmp_path)))
    cluster = Cluster(tmp_path / "cluster", own_disk=tmp_path / own)
    try:
        cluster.start()
        settings = {
            "spark.master": cluster.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": "1",
        }
        command = [
            *(sys.executable, "-m", "rekindle.cli", "run", str(job_file), "--storage", storage, "--json"),
            *(part for key, value in QUICK.items() for part in ("--set", f"{key}={value}")),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        ]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    finally:
        cluster.kill()
    assert done.returncode != 0
    assert "OUTPUT_NOT_SHARED" in done.stdout + done.stderr, done.stderr[-3000:]
    assert place in done.stdout + done.stderr
    if own == "out":
        assert json.loads(done.stdout)["state"] == "FAILED"
    assert not [*(tmp_path / "out").glob("*.parquet")]
