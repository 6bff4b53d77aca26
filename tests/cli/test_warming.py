"""What `rekindle warm-up` runs. What is kept of it: tests/session/test_kept_classes.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.kit import committed

RUNS = """
import os, sys
from pathlib import Path
from rekindle.cli.warming import run_example
before = os.getcwd()
run_example(Path(sys.argv[1]))
assert os.getcwd() == before
"""


@pytest.mark.spark
def test_the_example_runs_to_its_end_in_a_folder_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNS, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    hours = {row["window"]["start"].hour for row in committed(tmp_path / "out" / "hourly")}
    assert hours >= set(range(6)), "all of the history"
