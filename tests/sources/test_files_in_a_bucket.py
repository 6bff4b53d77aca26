"""`Files` that lie in a bucket, found as Spark's batch reader finds them there, and read."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from rekindle.sources import Files, statistics
from rekindle.sources.listing import Listing, check_present, check_unchanged
from tests.jobs.kit import committed
from tests.servers.s3 import S3Server
from tests.sources.files_contract import LISTED, check_listing


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


def fill(s3: S3Server, bucket: str, *names: str) -> None:
    for name in names:
        # A name that ends in a slash is what some tools leave where they make a folder.
        content = b"" if name.endswith("/") else name.encode()
        s3.client.call_s3("put_object", Bucket=bucket, Key=name, Body=content)


def names(listing: Listing) -> list[str]:
    return [unquote(file.path) for file in listing.files]


def code(path: str, **more: object) -> str:
    with pytest.raises(InputError) as error:
        Files(path, **more).list_files("history")
    return error.value.code


def test_what_is_listed_is_what_sparks_batch_reader_reads(spark_on_s3: SparkSession, s3: S3Server, bucket: str) -> None:
    fill(s3, bucket, *LISTED, "made/", "made/sub/")
    check_listing(spark_on_s3, f"s3://{bucket}", f"s3a://{bucket}")


def test_a_missing_file_is_reported_by_name(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(s3, bucket, "in/_hidden", "in/plain/a")
    assert code(f"s3://{bucket}/nowhere") == "PATH_MISSING"
    assert code(f"s3://{bucket}/no*") == "PATH_MISSING"
    assert code(f"s3://{bucket}/in") == "PATH_EMPTY"
    assert code("s3://no-such-bucket-of-anybody/in") == "FILE_UNREADABLE"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert code(f"s3://{bucket}/in/plain") == "FILE_UNREADABLE"


def test_an_object_that_has_vanished_is_named(s3: S3Server, bucket: str) -> None:
    fill(s3, bucket, *(f"in/a b%{number}" for number in range(40)))
    listing = Files(f"s3a://{bucket}/in").list_files("history")
    assert len(names(listing)) == 40
    check_present("history", listing.files)
    s3.client.rm_file(f"{bucket}/in/a b%7")
    with pytest.raises(InputError) as error:
        check_present("history", listing.files)
    assert error.value.parameters == {"source": "history", "path": f"s3a://{bucket}/in/a b%7"}


def test_an_object_that_has_taken_the_place_of_another_is_named(s3: S3Server, bucket: str) -> None:
    fill(s3, bucket, "in/a b%", "in/c")
    listing = Files(f"s3a://{bucket}/in").list_files("history")
    s3.client.pipe_file(f"{bucket}/in/a b%", b"in/a b%")
    check_unchanged("history", listing.files)  # the same bytes, written once more

    for content, reason in ((b"in/b a%", "as large as then"), (b"longer than that", "7 bytes then, 16 now")):
        s3.client.pipe_file(f"{bucket}/in/a b%", content)
        with pytest.raises(InputError, match="FILE_CHANGED") as error:
            check_unchanged("history", listing.files)
        assert error.value.parameters["path"] == f"s3a://{bucket}/in/a b%"
        assert str(error.value.parameters["reason"]).startswith(reason)


def test_statistics_of_objects_put_them_in_the_order_of_time(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    for name, hour in (("a", 7), ("b", 3), ("c", 5)):
        times = pa.array([dt.datetime(2025, 1, 1, hour, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times}), tmp_path / name)
        s3.client.put_file(str(tmp_path / name), f"{bucket}/in/{name}")
    listing = Files(f"s3://{bucket}/in").list_files()
    found = statistics.by_time(listing.files, "ts")
    assert [file.path[-1] for file in found] == ["b", "c", "a"]
    fill(s3, bucket, "in/d")
    with pytest.raises(statistics.NoStatisticsError, match="in/d cannot be read"):
        statistics.by_time(Files(f"s3://{bucket}/in").list_files().files, "ts")


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_job_reads_them_with_the_columns_of_their_folders(
    spark_on_s3: SparkSession, s3: S3Server, bucket: str, tmp_path: Path, mode: str
) -> None:
    for day in (1, 2):
        s3.client.pipe_file(f"{bucket}/all of it/day={day}/x.json", f'{{"v": {10 * day}}}\n'.encode())
    job = rk.Job("reads-a-bucket")
    history = job.source("history", Files(f"s3://{bucket}/all of it", format="json"))
    job.sink("out", job.task(history, uid="pass")(lambda rows: rows), rk.sinks.Parquet(str(tmp_path / "out")))
    result = job.run(spark_on_s3, storage=str(tmp_path / "storage"), mode=mode)
    assert (result.state, result.error) == ("FINISHED", None)
    assert Counter((row["v"], row["day"]) for row in committed(tmp_path / "out")) == Counter({(10, 1): 1, (20, 2): 1})
