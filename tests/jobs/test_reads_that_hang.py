"""A source whose read does not come back, since a table is locked or a server hangs, does not hold up a stop."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from tests.jobs.kit import QUICK, committed, until


class Locked(rk.SplitSource):
    """Gives row 0, then hangs until `unlocked` is set, and then gives row 1."""

    schema = "n long"
    bounded = False
    poll_every = "200 ms"

    def __init__(self) -> None:
        self.hangs, self.unlocked = threading.Event(), threading.Event()

    def splits(self) -> list[str]:
        return ["table"]

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        if position == 1:
            self.hangs.set()
            self.unlocked.wait()
        first = position or 0
        return (spark.createDataFrame([(first,)], "n long") if first < 2 else None), min(first + 1, 2), False


def job_of(source: Locked, out: Path) -> rk.Job:
    job = rk.Job("locked")
    rows = job.source("rows", source)

    @job.task(rows)
    def read(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", read, rk.sinks.Parquet(out))
    return job


def shown(out: Path) -> list[int]:
    return sorted(row["n"] for row in committed(out))


@pytest.mark.slow  # half a minute
def test_a_stop_goes_on_without_a_read_that_hangs_and_the_next_run_makes_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, storage, out = Locked(), str(tmp_path / "storage"), tmp_path / "out"
    handle = job_of(source, out).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == [0] and source.hangs.is_set())
    result = handle.stop()
    assert (result.state, result.error) == ("STOPPED", None)

    source.unlocked.set()  # the read that was given up comes back as well
    handle = job_of(source, out).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == [0, 1])
    assert handle.stop().state == "STOPPED"
    assert shown(out) == [0, 1]
