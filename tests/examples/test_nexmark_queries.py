"""Nexmark's queries, as jobs, give the rows that DuckDB gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nexmark_queries import QUERIES
from nexmark_runs import differences, run_job, run_plain, write_streams

OF_EACH_KIND = ("q3", "q5", "q9", "q11")
"""A join without an end, windows of windows, a join in time with a window after it, sessions."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    write_streams(folder, 10_000, 3)
    return folder


def check(name: str, spark: SparkSession, data: Path, work: Path) -> None:
    result = run_job(QUERIES[name], spark, data, work)
    assert result.state == "FINISHED"
    found = differences(QUERIES[name], data, work / "out")
    assert found["rows"] > 0
    assert (found["missing"], found["too many"]) == (0, 0)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_query_of_each_kind_gives_the_rows_of_another_engine(
    spark: SparkSession, data: Path, tmp_path: Path, name: str
) -> None:
    check(name, spark, data, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUERIES if name not in OF_EACH_KIND])
def test_every_query_gives_the_rows_of_another_engine(
    spark: SparkSession, data: Path, tmp_path: Path, name: str
) -> None:
    check(name, spark, data, tmp_path)


def test_a_plain_query_leaves_rows_behind_which_are_counted(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    run_plain(QUERIES["q5"], spark, data, tmp_path)
    found = differences(QUERIES["q5"], data, tmp_path / "out")
    assert found["missing"] > 0 and found["too many"] == 0
