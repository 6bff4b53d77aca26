"""`Files` that lie in HDFS."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from rekindle.sources import Files
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from tests.jobs.kit import committed
from tests.servers.hdfs import HdfsServer
from tests.sources.files_contract import FilesContract, ReadingContract


@pytest.fixture
def folder(hdfs: HdfsServer) -> Store:
    return open_store(hdfs.make_folder())


@pytest.fixture
def spark_there(spark: SparkSession) -> SparkSession:
    return spark


class TestFiles(FilesContract):
    """Those of HDFS."""


class TestReading(ReadingContract):
    """Those of HDFS."""


def test_a_name_node_that_is_away_is_reported(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", hdfs.configured("nobody", dfs_namenode_http__address="127.0.0.1:9"))
    with pytest.raises(InputError, match="FILE_UNREADABLE"):
        Files("hdfs:///in").list_files("history")


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
