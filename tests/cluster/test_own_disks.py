"""Workers that do not share a folder with the driver: an error that says so, and not a job without its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster import machines
from tests.cluster.machines import MachineCluster
from tests.cluster.submitting import PYTHON, SECONDS_AT_MOST
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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("own", CASES)
def test_rows_on_the_workers_own_disks_fail_the_job_with_the_place(tmp_path: Path, own: str) -> None:
    missing = machines.why_not()
    if missing:
        pytest.skip(missing)
    source, place = CASES[own]
    (tmp_path / own).mkdir(parents=True)
    (tmp_path / "numbers").mkdir()
    pq.write_table(pa.table({"n": range(100)}), tmp_path / "numbers" / "0.parquet")
    job_file, storage = tmp_path / "job_file.py", str(tmp_path / "state")
    job_file.write_text(JOB.format(root=tmp_path, source=source.format(root=tmp_path)))
    log = tmp_path / "driver.log"
    cluster = MachineCluster(tmp_path / "cluster", also=(tmp_path / own,))
    try:
        driver = cluster.start().add("driver")
        settings = cluster.settings(driver)
        command = [
            *(sys.executable, "-m", "rekindle.cli", "run", str(job_file), "--storage", storage, "--json"),
            *(part for key, value in QUICK.items() for part in ("--set", f"{key}={value}")),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        ]
        code = driver.start(log, command, PYTHON).wait(SECONDS_AT_MOST)
    finally:
        cluster.destroy()
    said = log.read_text()
    assert code != 0
    assert "OUTPUT_NOT_SHARED" in said and place in said, said[-3000:]
    if own == "out":
        assert '"state": "FAILED"' in said
    assert not [*(tmp_path / "out").glob("*.parquet")]
