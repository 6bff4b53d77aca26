"""What a job keeps, on disk and in memory, does not grow with its batches: `soak` and `day` say how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.curves import Bound, growers, verdicts

BATCHES = int(os.environ.get("REKINDLE_SOAK_BATCHES", "20000"))
FILES = int(os.environ.get("REKINDLE_DAY_FILES", str(24 * 60)))


def run(*command: str | Path) -> None:
    """Run it in a process of its own: it measures all of it."""
    root = Path(__file__).parents[2]
    line = [sys.executable, "-m", *map(str, command)]
    done = subprocess.run(line, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(4 * 3_600)
def test_a_pipeline_that_is_left_alone_does_not_grow(tmp_path: Path) -> None:
    run("tests.soak.soak", tmp_path / "soak", "--batches", str(BATCHES))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(4 * 3_600)
@pytest.mark.parametrize("example", ["hot_bids", pytest.param("orders", marks=pytest.mark.since("4.0")), "flights"])
def test_an_example_job_does_not_grow_in_a_day_and_writes_what_a_batch_query_does(tmp_path: Path, example: str) -> None:
    run("tests.soak.day", tmp_path / "day", example, "--files", str(FILES))


def flat(curve: list[float], bound: Bound) -> bool:
    (found,) = verdicts({"x": curve}, {"x": bound})
    return found.flat


def test_what_rises_to_its_level_in_the_first_quarter_is_flat() -> None:
    assert flat([1, 50, 90, *[100.0] * 9], Bound(0.05, 0))


def test_what_goes_on_rising_is_not_flat_however_slowly() -> None:
    assert not flat([1_000 + 10 * number for number in range(40)], Bound(0.1, 0))


def test_one_figure_that_was_taken_at_a_bad_moment_is_no_growth() -> None:
    assert flat([*[100.0] * 39, 1_000], Bound(0.05, 0))


def test_growers_are_named_by_how_much_they_grew() -> None:
    assert growers({"a": 5, "b": 5, "c": 9}, {"a": 6, "b": 50, "c": 1, "d": 3}) == [
        ("b", 5, 50),
        ("d", 0, 3),
        ("a", 5, 6),
    ]
