"""Reads of a custom source come before a stop or a drain, whatever else the task reads, and whoever reads the task."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from tests.crash.pipeline_kit import Gate, task
from tests.jobs.kit import QUICK, committed, until

READS = 4


class Numbers(rk.SplitSource):
    """One split without an end; a read has one number."""

    schema = "n long"
    bounded = False
    poll_every = "50 ms"

    def splits(self) -> list[str]:
        return ["all"]

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        n = position or 0
        return (spark.createDataFrame([(n,)], self.schema), n + 1, False) if n < READS else (None, n, False)


def job_of(root: Path, gate: Gate, *, has_reader: bool, has_stream: bool) -> rk.Job:
    """Numbers that are handed on; the batch with number 1 is held up."""
    job = rk.Job("numbers")
    inputs = [job.source("numbers", Numbers())]
    if has_stream:
        live = root / "live"
        live.mkdir()
        inputs.append(job.source("live", rk.Stream(lambda spark: spark.readStream.schema("n long").parquet(str(live)))))

    @job.task(*inputs)
    def first(numbers: DataFrame, *others: DataFrame) -> DataFrame:
        for other in others:
            numbers = numbers.unionByName(other)
        return gate(numbers, "n = 1")

    last = first
    if has_reader:

        @job.task(first)
        def second(numbers: DataFrame) -> DataFrame:
            return numbers

        last = second
    job.sink("out", last, rk.sinks.Parquet(root / "out"))
    return job


@pytest.mark.parametrize(
    ("has_reader", "has_stream", "room", "drain"),
    [
        pytest.param(True, False, "1 GiB", True, id="another task reads it"),
        pytest.param(True, False, "1", True, id="another task reads it and has enough to read"),
        pytest.param(False, True, "1 GiB", True, id="the task reads a stream too"),
        pytest.param(True, True, "1", False, id="a stop with a savepoint"),
    ],
)
def test_what_was_read_of_a_custom_source_comes_before_the_end(
    spark: SparkSession, tmp_path: Path, gate: Gate, has_reader: bool, has_stream: bool, room: str, drain: bool
) -> None:
    job = job_of(tmp_path, gate, has_reader=has_reader, has_stream=has_stream)
    config = QUICK | {"channel.max_in_flight_bytes": room}
    handle = job.start(spark, storage=str(tmp_path / "storage"), config=config)
    gate.await_held()
    read_ahead = tmp_path / "storage/numbers/tasks/first/0/000001/reads/numbers/000000002.json"
    until(read_ahead.exists)

    savepoints = None if drain else str(tmp_path / "saves")
    ending = threading.Thread(target=lambda: handle.stop(drain=drain, savepoint=savepoints))
    ending.start()
    until(lambda: task(handle, "first").status in ("suspending", "finishing"))
    gate.open()
    ending.join()

    result = handle.wait()
    assert result is not None and result.state == ("DRAINED" if drain else "STOPPED")
    assert sorted(row["n"] for row in committed(tmp_path / "out")) == [0, 1, 2]
