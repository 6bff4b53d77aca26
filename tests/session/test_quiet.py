"""A process in which Spark was kept quiet: PySpark reports mistakes there as it always does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.errors.exceptions import base

PROGRAM = """
from rekindle.session.session import quiet

with quiet(None):  # it has no JVM, which is passed over
    pass

from pyspark.logger import PySparkLogger

for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
    PySparkLogger.getLogger(name).error("a mistake", file="job.py", line="7")
"""


@pytest.mark.skipif(not hasattr(base, "PySparkLogger"), reason="PySpark has loggers of its own since 4.0")
def test_loggers_of_pyspark_are_still_of_its_own_class_after_quiet() -> None:
    # PySpark makes them at the first mistake, which must not have been made in this process.
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count('"file": "job.py"') == 2
