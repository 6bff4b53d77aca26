"""The contract of `Files` in every place beside this machine: found as Spark's batch reader finds them there, and read.

A file of tests has fixtures `folder`, an empty folder there, and `spark_there`, a session that reaches it.
"""

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
from rekindle.storage.port import Store
from tests.jobs.kit import committed

LISTED = (
    *("flat/a", "flat/b c%20", "flat/ü+", "flat/_SUCCESS", "flat/.x", "flat/_k=1", "flat/y._COPYING_", "flat/sub/d"),
    *("hive/k=1/_j=2/a", "hive/k=1/_j=3/b", "hive/k=2/_j=3/deep/c", "hive/_logs/e"),
    *("many/x1/a", "many/x2/b", "many/.x3/c", "made/a"),
)
"""Names of files that `check_listing` needs. It also needs the empty folder made/sub, as Hadoop makes folders there."""


def check_listing(spark: SparkSession, place: str, as_spark: str) -> None:
    """See that `Files` at `place` lists what Spark reads there, under the address that Spark knows it by."""
    cases: list[tuple[str, dict[str, str]]] = [
        ("flat", {}),
        ("flat/", {"recursiveFileLookup": "true"}),
        ("flat", {"pathGlobFilter": "[ab]*"}),
        ("flat/b*", {}),
        ("flat/b c%20", {}),
        ("{flat,many/x?}/[a-c]*", {}),
        ("hive", {}),
        ("hive/k=*", {"basePath": f"{as_spark}/hive"}),
        ("hive/k=1", {}),
        ("hive", {"recursiveFileLookup": "true"}),
        ("made", {}),
        ("m*y/x[!1]", {}),
    ]
    for path, options in cases:
        frame = spark.read.format("text").options(**options).load(f"{as_spark}/{path}")
        listed = Files(f"{place}/{path}", format="text", options=options).list_files()
        rows = frame.select("_metadata.file_path", "_metadata.file_size").distinct().collect()
        assert [(file.path, file.size) for file in listed.files] == sorted(map(tuple, rows)), (path, options)
        assert ["value", *listed.partition_columns] == frame.columns, (path, options)


def fill(folder: Store, *names: str) -> None:
    """Write files whose contents are their names."""
    for name in names:
        folder.replace(name, name.encode())


class FilesContract:
    """How they are found and what is said of them."""

    def test_what_is_listed_is_what_sparks_batch_reader_reads(self, spark_there: SparkSession, folder: Store) -> None:
        fill(folder, *LISTED)
        hadoop = spark_there._jvm.org.apache.hadoop.fs
        made = hadoop.Path(f"{folder.location}/made/sub")
        made.getFileSystem(spark_there._jsparkSession.sessionState().newHadoopConf()).mkdirs(made)
        check_listing(spark_there, folder.location, folder.location)

    def test_a_file_that_is_missing_has_vanished_or_was_replaced_is_reported_by_name(self, folder: Store) -> None:
        fill(folder, "in/a b%", "in/c", "in/d", "hidden/_x")
        for path, code in (("nowhere", "PATH_MISSING"), ("no*", "PATH_MISSING"), ("hidden", "PATH_EMPTY")):
            with pytest.raises(InputError, match=code):
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

    def test_statistics_put_them_in_the_order_of_time(self, folder: Store) -> None:
        for name, hour in (("a", 7), ("b", 3), ("c", 5)):
            times = pa.array([dt.datetime(2025, 1, 1, hour, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))
            file = io.BytesIO()
            pq.write_table(pa.table({"ts": times}), file)
            folder.replace(f"in/{name}", file.getvalue())
        listing = Files(f"{folder.location}/in").list_files()
        assert [file.path[-1] for file in statistics.by_time(listing.files, "ts")] == ["b", "c", "a"]
        folder.replace("in/d", b"no Parquet")
        with pytest.raises(statistics.NoStatisticsError, match="in/d cannot be read"):
            statistics.by_time(Files(f"{folder.location}/in").list_files().files, "ts")


class ReadingContract:
    """How a job reads them."""

    @pytest.mark.parametrize("mode", ["streaming", "batch"])
    def test_a_job_reads_them_with_the_columns_of_their_folders(
        self, spark_there: SparkSession, folder: Store, tmp_path: Path, mode: str
    ) -> None:
        for day in (1, 2):
            folder.replace(f"all of it/day={day}/x.json", f'{{"v": {10 * day}}}\n'.encode())
        job = rk.Job("reads-files-there")
        history = job.source("history", Files(f"{folder.location}/all of it", format="json"))
        job.sink("out", job.task(history, uid="pass")(lambda rows: rows), rk.sinks.Parquet(str(tmp_path / "out")))
        result = job.run(spark_there, storage=str(tmp_path / "storage"), mode=mode)
        assert (result.state, result.error) == ("FINISHED", None)
        found = Counter((row["v"], row["day"]) for row in committed(tmp_path / "out"))
        assert found == Counter({(10, 1): 1, (20, 2): 1})
