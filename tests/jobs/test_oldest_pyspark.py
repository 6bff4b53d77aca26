"""Jobs on the oldest PySpark that Rekindle is for, which lacks much of what the newest has.

These are tests of other files, run by a Python that finds that PySpark first. `make matrix` runs more of them, and on
more versions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = ROOT / ".venv" / "oldest-pyspark"
"""PySpark 3.5 with its Py4J, and in ``spark-tables`` the jars of Delta and Iceberg for it; made by tools/setup.sh."""

TESTS = [
    "tests/jobs/test_life_of_a_job.py",
    "tests/jobs/test_available_now.py::test_each_run_reads_what_is_there_and_stops_though_more_comes_all_the_time",
    "tests/jobs/test_batch_mode.py::test_every_form_of_task_gives_the_rows_of_the_streaming_run",
    "tests/jobs/test_restore_checks.py::test_other_operators_with_state_are_refused_and_the_same_ones_go_on",
]
OF_A_TABLE = (
    "tests/sources/test_streams_of_tables.py::test_rows_that_were_deleted_end_the_job_and_can_be_left_out[delta]"
)
"""Its matter has no connector for the newest Spark, so that it runs nowhere else in `make check`."""

SECONDS_AT_MOST = 900
"""It takes one minute, on a machine that has little time for us many times that."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(SECONDS_AT_MOST + 30),
    pytest.mark.skipif(
        not (OLDEST / "pyspark").is_dir(), reason="no PySpark 3.5 in .venv/oldest-pyspark: `make setup` says why"
    ),
]


def last_line(*arguments: str) -> str:
    """Run Python with these arguments where it finds that PySpark, and return the last line it writes."""
    of_the_newest = ("PYTEST_", "PYSPARK_SUBMIT_ARGS", "COV_")  # set by pytest and by our conftest
    kept = {name: value for name, value in os.environ.items() if not name.startswith(of_the_newest)}
    path = os.pathsep.join([str(OLDEST), kept.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    ran = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=ROOT,
        env={**kept, "PYTHONPATH": path, "REKINDLE_TEST_JARS": str(OLDEST)},
        capture_output=True,
        text=True,
        timeout=SECONDS_AT_MOST,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip().splitlines()[-1]


def passed(*tests: str) -> str:
    return last_line("-m", "pytest", "-q", "-x", "--timeout=240", "-p", "no:cacheprovider", *tests)


def test_that_python_has_the_oldest_pyspark_that_the_package_allows() -> None:
    version = last_line("-c", "import pyspark; print(pyspark.__version__)")
    oldest = ".".join(version.split(".")[:2])
    assert f'"pyspark>={oldest},' in (ROOT / "pyproject.toml").read_text()


def test_jobs_live_their_lives_on_the_oldest_pyspark() -> None:
    assert "skipped" not in passed(*TESTS)


@pytest.mark.skipif(not (OLDEST / "spark-tables").is_dir(), reason="no Delta for PySpark 3.5: `make setup` says why")
def test_a_delta_table_is_read_as_a_stream_on_the_oldest_pyspark() -> None:
    assert "skipped" not in passed(OF_A_TABLE)
