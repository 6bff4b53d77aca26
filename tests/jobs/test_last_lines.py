"""What stands on the terminal when a job has failed or was canceled, and what stands in Spark's log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.logs import pieces
from rekindle.logs.pieces import LogPosition
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import World, rows

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("failing_job_file.py")

pytestmark = pytest.mark.spark


def run(world: World, *command: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, what stands on stderr, and Spark's log."""
    world.add_history(rows(0, 60))
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    around = {**os.environ, "PYTHONPATH": path, "FAILING_WORLD": str(world.root), "REKINDLE_STORAGE": world.storage}
    around["REKINDLE_LOGS"] = str(world.root / "my logs")
    done = subprocess.run(
        [sys.executable, *command], env=around | environment, capture_output=True, text=True, timeout=300, check=False
    )
    log = world.root / "my logs" / "failing.log"
    assert f"Spark logs to {log}\n" in done.stderr
    return done.returncode, done.stderr, log.read_text()


def check_quiet(stderr: str, log: str) -> None:
    """Spark's words are in its log, and only there."""
    assert re.search(r"^\tat org\.apache\.spark\.", log, re.MULTILINE), log
    assert not re.search(r"^\s+at (org|java|scala)\.", stderr, re.MULTILINE), stderr
    assert not re.search(r"^\S+ \S+ (WARN|ERROR) ", stderr, re.MULTILINE), stderr
    noise = "scheduler pool rekindle-|adaptive.enabled is not supported|Cannot find active jobs|native-hadoop"
    assert re.findall(noise, log) == []


def test_the_last_lines_of_python_are_the_error_and_what_to_do(world: World) -> None:
    code, stderr, log = run(world, str(FILE))

    assert code == 1
    error, place, advice = stderr.splitlines()[-3:]
    assert re.match(r"rekindle\.errors\.JobError: \[RESTARTS_EXHAUSTED\] .*no such customer", error), stderr
    assert place.startswith("Spark's log: ") and place.endswith("/my logs/failing.log")
    assert advice.startswith("next: ")
    check_quiet(stderr, log)
    kept = [line for _, line in pieces.read(JobStorage(open_store(world.storage), "failing"), LogPosition())]
    assert [line.logger for line in kept if "RESTARTS_EXHAUSTED" in line.message] == ["rekindle.history.events"]
    failed = [line for line in kept if line.message.startswith("Task ")]
    assert "no such customer" in failed[0].message and "Traceback" in failed[0].trace
    assert [line.trace for line in failed[1:] if line.trace not in ("", "(a trace that is above)")] == []
    assert any(line.logger.startswith("spark.") and "org.apache.spark" in line.trace for line in kept)


@pytest.mark.slow
def test_the_last_lines_of_rekindle_run_are_the_error_and_what_to_do(world: World) -> None:
    code, stderr, log = run(
        world, "-m", "rekindle.cli", "run", str(FILE), "--set", "restart.attempts=0",
        "--conf", "spark.master=local[2]", "--conf", "spark.sql.shuffle.partitions=2",
    )  # fmt: skip

    assert code == 1
    place, error, advice = stderr.splitlines()[-3:]
    assert place.startswith("Spark's log: ") and place.endswith("/my logs/failing.log")
    assert re.match(r"\[RESTARTS_EXHAUSTED\] .*no such customer", error), stderr
    assert advice.startswith("next: ")
    check_quiet(stderr, log)


@pytest.mark.slow
def test_a_cancelled_job_does_not_look_like_one_that_has_ended_well(world: World) -> None:
    code, stderr, _ = run(world, str(FILE), FAILING_CANCEL="yes")

    assert code == 1
    error, _, advice = stderr.splitlines()[-3:]
    assert error.startswith("rekindle.errors.JobError: [JOB_CANCELED] The job 'failing' was canceled in run 1"), stderr
    assert advice.startswith("next: ")
