"""The Parquet sink holds the contract, plain and partitioned; and what is its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rekindle.errors import SinkError, StorageError
from rekindle.sinks import Parquet
from rekindle.sinks.parquet import STAGING
from rekindle.storage.open import open_store
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.servers.places import ELSEWHERE, place_for_spark
from tests.sinks import plain_frames
from tests.sinks.plain_frames import PlainFrame


class TestParquet(SinkContract):
    effects = (
        "rekindle.sinks.writing.run_write",
        "rekindle.storage.local.LocalStore.move",
        "rekindle.storage.local.LocalStore.delete_tree",
    )
    looks = ("rekindle.storage.local.LocalStore.exists",)

    def make(self, target: Path) -> Parquet:
        return Parquet(target)

    def visible(self, spark: SparkSession, target: Path) -> Iterable[Row]:
        # Without Spark: a reader that looks at every moment of a commit is to be quick.
        files = [path for path in target.rglob("part-*.parquet") if STAGING not in path.parts]
        return [self.row(row, path) for path in files for row in pq.ParquetFile(path).read().to_pylist()]

    def row(self, row: dict[str, Any], path: Path) -> Row:
        return row["n"], row["text"]

    def staged(self, target: Path) -> int:
        return sum(1 for _ in (target / STAGING).glob("*/*/*"))


@pytest.mark.slow
class TestPartitionedParquet(TestParquet):
    def make(self, target: Path) -> Parquet:
        return Parquet(target, partition_by=["text"], options={"compression": "zstd"})

    def row(self, row: dict[str, Any], path: Path) -> Row:
        text = unquote(path.parent.name.removeprefix("text="))
        return row["n"], None if text == "__HIVE_DEFAULT_PARTITION__" else text


@pytest.mark.slow
class TestParquetElsewhere(SinkContract):
    effects = (
        "rekindle.sinks.writing.run_write",
        "rekindle.storage.hdfs.HdfsStore.delete",
        "rekindle.storage.hdfs.HdfsStore.delete_tree",
        "rekindle.storage.hdfs.HdfsStore.move",
        "rekindle.storage.objects.ObjectStore.copy",
        "rekindle.storage.objects.ObjectStore.delete",
        "rekindle.storage.objects.ObjectStore.delete_tree",
    )

    @pytest.fixture(params=ELSEWHERE)
    def target(self, request: pytest.FixtureRequest) -> str:
        return f"{place_for_spark(request.param, request)}/target ä%20"

    def make(self, target: str) -> Parquet:
        return Parquet(target)

    def visible(self, spark: SparkSession, target: str) -> Iterable[Row]:
        store = open_store(target)
        for path in [entry.path for entry in store.walk("")]:
            if path.endswith(".parquet") and STAGING not in path.split("/"):
                yield from [(row["n"], row["text"]) for row in pq.read_table(BytesIO(store.read(path))).to_pylist()]

    def staged(self, target: str) -> int:
        found = {entry.path.split("/")[2] for entry in open_store(f"{target}/{STAGING}").walk("")}
        return len(found - {""})


def opened(sink: Parquet) -> Parquet:
    sink.open("job-1234", "out")
    return sink


def test_options_are_the_writers_and_files_without_rows_are_not_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(Parquet(f"file://{tmp_path}/a%20b", options={"compression": "gzip"}))
    frame = spark.range(4).repartition(3, "id").filter("id = 1")
    sink.commit(sink.prepare(frame, batch_of(7)), permit())
    [file] = (tmp_path / "a b").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "GZIP"
    assert file.name.startswith("part-job-1234-out-000001-000000007-0000-")
    assert not [path for path in (tmp_path / "a b").rglob("*") if path.is_file() and path != file]


def test_files_appear_whole_under_their_names_and_a_commit_cut_short_between_two_files_is_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(Parquet(tmp_path / "out", partition_by=["half"]))
    made = sink.prepare(spark.range(4).selectExpr("id", "id % 2 AS half").coalesce(1), batch_of(0))
    (committable,) = made
    in_the_way = tmp_path / "out" / Path(committable["files"][-1]["to"]).parent
    in_the_way.write_text("a file, where a folder has to be")
    with pytest.raises(StorageError):
        sink.commit(made, permit())
    assert len(list((tmp_path / "out").glob("half=*/*.parquet"))) == 1
    in_the_way.unlink()
    opened(Parquet(tmp_path / "out", partition_by=["half"])).commit(made, permit())
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "reason"), [("ftp://bucket/x", "begin with 'ftp'"), ("{root}/file/below", "Not a directory")]
)
def test_a_target_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=reason) as error:
        opened(Parquet(path.format(root=tmp_path)))
    assert error.value.code == "SINK_TARGET_INVALID"


@pytest.mark.parametrize("letters", [91, 95, 96, 100])
def test_a_name_that_would_be_too_long_for_a_file_has_a_digest_and_others_are_as_they_were(
    tmp_path: Path, letters: int
) -> None:
    job, uid = "j" * 100 + "-12345678", "s" * letters
    sink = Parquet(tmp_path)
    sink.open(job, uid)
    with patch("rekindle.sinks.writing.run_write", plain_frames.run_write):
        made = sink.prepare(PlainFrame([(1, "a")]), batch_of(7, job=job, sink=uid, attempt="0123abcd"))
    sink.commit(made, permit())
    [file] = tmp_path.glob("*.parquet")
    plain = f"part-{job}-{uid}-000001-000000007-0000-00000-0123abcd.parquet"
    digest = hashlib.sha256(f"{job}-{uid}".encode()).hexdigest()[:32]
    assert file.name == (plain if len(plain) <= 255 else f"part-{digest}-000001-000000007-0000-00000-0123abcd.parquet")
    sink.rewind(0, {1: made})
    assert not [*tmp_path.glob("*.parquet")]
