"""Random lives of jobs with state end with exactly the rows of a batch query in each sink."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.jobs.stateful_lives import Life
from tests.jobs.stateful_queries import SHAPES

pytestmark = [pytest.mark.usefixtures("one_file_a_batch"), pytest.mark.since("4.2")]

ALWAYS = {"time-outs after a left join": 0}
SLOW = {"a task for two": 1, "timers, then windows": 2}
"""What is in them is also in tests of its own: a task for two in test_parallel.py, timers in test_processors.py."""


def lives_through(spark: SparkSession, root: Path, seed: int, shape: str) -> None:
    life = Life(spark, root, seed, shape)
    life.live()
    assert life.differences() == {}, f"seed {seed}: {life.told}"


@pytest.mark.parametrize(
    ("shape", "seed"), [*ALWAYS.items(), *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW.items())]
)
def test_a_life_with_state_ends_with_the_rows_of_a_batch(
    spark: SparkSession, tmp_path: Path, shape: str, seed: int
) -> None:
    lives_through(spark, tmp_path, seed, shape)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 200, 300])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_lives_with_state_end_with_the_rows_of_a_batch(
    spark: SparkSession, tmp_path: Path, shape: str, seed: int
) -> None:
    lives_through(spark, tmp_path, seed + list(SHAPES).index(shape), shape)
