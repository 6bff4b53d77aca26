"""The segments of a batch: as many as Spark makes of it, unless that is crumbs or too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rekindle.spark.output.segments import SegmentWriter
from rekindle.storage import layout
from rekindle.storage.documents.batch import Segment
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore

FOLDER = layout.subtask("job", "task", 0, 1)


@pytest.fixture
def storage(tmp_path: Path) -> JobStorage:
    return JobStorage(LocalStore(str(tmp_path)), "job")


def rows_of(segments: tuple[Segment, ...]) -> int:
    return sum(segment.rows for segment in segments)


def test_crumbs_are_gathered_from_the_next_batch_on(spark: SparkSession, storage: JobStorage) -> None:
    writer = SegmentWriter(storage, FOLDER, 1 << 20, cores=2)
    batch = spark.range(0, 60, numPartitions=30)
    written = [writer.write(batch, number, "a") for number in range(3)]
    assert [len(segments) for segments in written] == [30, 2, 2]
    assert [rows_of(segments) for segments in written] == [60, 60, 60]


def test_a_large_part_is_cut_once_the_size_of_a_row_is_known(spark: SparkSession, storage: JobStorage) -> None:
    writer = SegmentWriter(storage, FOLDER, 20_000, cores=2)
    batch = spark.range(0, 20_000, numPartitions=1).select(F.rand(1).alias("x"))
    first, second = writer.write(batch, 0, "a"), writer.write(batch, 1, "a")
    assert len(first) == 1
    assert len(second) > 4
    assert max(segment.size for segment in second) < 40_000
    assert rows_of(second) == 20_000


def test_a_batch_much_larger_than_the_ones_before_it_is_still_written_by_all_cores(
    spark: SparkSession, storage: JobStorage
) -> None:
    writer = SegmentWriter(storage, FOLDER, 1 << 20, cores=4)
    writer.write(spark.range(0, 60, numPartitions=30), 0, "a")
    assert len(writer.write(spark.range(0, 100_000, numPartitions=30), 1, "a")) >= 4


def test_a_batch_without_rows_puts_nothing_into_the_channels_and_tells_nothing(
    spark: SparkSession, storage: JobStorage
) -> None:
    writer = SegmentWriter(storage, FOLDER, 1 << 20, cores=2)
    assert writer.write(spark.range(0), 0, "a") == ()
    assert len(writer.write(spark.range(0, 10, numPartitions=5), 1, "a")) == 5
