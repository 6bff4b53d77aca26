"""`Files` that lie in HDFS, found as Spark's batch reader finds them there, and read."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from rekindle.sources import Files, statistics
from rekindle.sources.listing import check_present, check_unchanged
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from tests.jobs.kit import committed
from tests.servers.hdfs import HdfsServer


@pytest.fixture
def folder(hdfs: HdfsServer) -> Store:
    return open_store(hdfs.make_folder())


def fill(folder: Store, *names: str) -> None:
    for name in names:
        folder.replace(name, name.encode())


def test_what_is_listed_is_what_sparks_batch_reader_reads(spark: SparkSession, folder: Store) -> None:
    fill(
        folder, "flat/a", "flat/b c%20", "flat/ü+", "flat/_SUCCESS", "flat/.x", "flat/_k=1", "flat/y._COPYING_",
        "flat/sub/d", "hive/k=1/_j=2/a", "hive/k=1/_j=3/b", "hive/k=2/_j=3/deep/c", "many/x1/a", "many/x2/b",
    )  # fmt: skip
    cases: list[tuple[str, dict[str, str]]] = [
        ("flat", {}),
        ("flat/", {"recursiveFileLookup": "true"}),
        ("flat/b c%20", {}),
        ("{flat,many/x?}/[a-c]*", {}),
        ("hive", {}),
        ("hive/k=*", {"basePath": f"{folder.location}/hive"}),
    ]
    for path, options in cases:
        frame = spark.read.format("text").options(**options).load(f"{folder.location}/{path}")
        listed = Files(f"{folder.location}/{path}", format="text", options=options).list_files()
        rows = frame.select("_metadata.file_path", "_metadata.file_size").distinct().collect()
        assert [(file.path, file.size) for file in listed.files] == sorted(map(tuple, rows)), (path, options)
        assert ["value", *listed.partition_columns] == frame.columns, (path, options)


def test_a_file_that_is_missing_has_vanished_or_was_replaced_is_reported_by_name(folder: Store) -> None:
    fill(folder, "in/a b%", "in/c", "in/d")
    for path in ("nowhere", "no*"):
        with pytest.raises(InputError, match="PATH_MISSING"):
            Files(f"{folder.location}/{path}").list_files("history")
    files = Files(f"{folder.location}/in").list_files("history").files
    check_present("history", files)
    check_unchanged("history", files)

    folder.replace("in/c", b"in/C")
    with pytest.raises(InputError, match="FILE_CHANGED") as error:
        check_unchanged("history", files)
    assert error.value.parameters["path"] == f"{folder.location}/in/c"

    folder.delete("in/a b%")
    with pytest.raises(InputError) as error:
        check_present("history", files)
    assert error.value.parameters == {"source": "history", "path": f"{folder.location}/in/a b%"}


def test_a_name_node_that_is_away_is_reported(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", hdfs.configured("nobody", dfs_namenode_http__address="127.0.0.1:9"))
    with pytest.raises(InputError, match="FILE_UNREADABLE"):
        Files("hdfs:///in").list_files("history")


def test_statistics_put_them_in_the_order_of_time(folder: Store) -> None:
    for name, hour in (("a", 7), ("b", 3), ("c", 5)):
        times = pa.array([dt.datetime(2025, 1, 1, hour, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))
        file = io.BytesIO()
        pq.write_table(pa.table({"ts": times}), file)
        folder.replace(f"in/{name}", file.getvalue())
    listing = Files(f"{folder.location}/in").list_files()
    assert [file.path[-1] for file in statistics.by_time(listing.files, "ts")] == ["b", "c", "a"]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_job_reads_them_with_the_columns_of_their_folders(
    spark: SparkSession, folder: Store, tmp_path: Path, mode: str
) -> None:
    for day in (1, 2):
        folder.replace(f"all of it/day={day}/x.json", f'{{"v": {10 * day}}}\n'.encode())
    job = rk.Job("reads-hdfs")
    history = job.source("history", Files(f"{folder.location}/all of it", format="json"))
    job.sink("out", job.task(history, uid="pass")(lambda rows: rows), rk.sinks.Parquet(str(tmp_path / "out")))
    result = job.run(spark, storage=str(tmp_path / "storage"), mode=mode)
    assert (result.state, result.error) == ("FINISHED", None)
    assert Counter((row["v"], row["day"]) for row in committed(tmp_path / "out")) == Counter({(10, 1): 1, (20, 2): 1})


def test_files_of_this_machine_are_read_where_hdfs_is_what_a_path_without_a_scheme_leads_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    for day in (1, 2):
        folder = tmp_path / "all of it" / f"day={day}"
        folder.mkdir(parents=True)
        (folder / "x.json").write_text(f'{{"v": {10 * day}}}\n')
    job = rk.Job("reads-local")
    files = Files(str(tmp_path / "all of it/day=*"), format="json", options={"basePath": str(tmp_path / "all of it")})
    job.sink(
        "out",
        job.task(job.source("history", files), uid="pass")(lambda rows: rows),
        rk.sinks.Parquet(str(tmp_path / "out")),
    )
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:9")
    try:
        result = job.run(spark, storage=str(tmp_path / "storage"))
    finally:
        spark.conf.unset("fs.defaultFS")
    assert (result.state, result.error) == ("FINISHED", None)
    assert Counter((row["v"], row["day"]) for row in committed(tmp_path / "out")) == Counter({(10, 1): 1, (20, 2): 1})
