"""`Files` that lie on Azure or Google, found as Spark's batch reader finds them there, and read."""

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
from rekindle.errors import DefinitionError, InputError
from rekindle.sources import Files, statistics
from rekindle.sources.listing import check_present, check_unchanged
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from tests.jobs.kit import committed
from tests.servers.azurite import ACCOUNT

CLOUDS = ("azure", "google")
NEEDED = {"azure": "spark_on_azure", "google": "spark_on_google"}


@pytest.fixture(params=CLOUDS)
def folder(request: pytest.FixtureRequest) -> Store:
    """A folder in a container or bucket of its own."""
    server = request.getfixturevalue(request.param)
    if request.param == "azure":
        return open_store(f"abfs://{server.make_container()}@{ACCOUNT}.dfs.core.windows.net/in it")
    return open_store(f"gs://{server.make_bucket()}/in it")


@pytest.fixture
def spark_there(folder: Store, request: pytest.FixtureRequest) -> SparkSession:
    """The session, which reaches the same cloud."""
    return request.getfixturevalue(NEEDED[request.node.callspec.params["folder"]])


def fill(folder: Store, *names: str) -> None:
    for name in names:
        folder.replace(name, name.encode())


def test_what_is_listed_is_what_sparks_batch_reader_reads(spark_there: SparkSession, folder: Store) -> None:
    fill(
        folder, "flat/a", "flat/b c%20", "flat/ü+", "flat/_SUCCESS", "flat/.x", "flat/_k=1", "flat/y._COPYING_",
        "flat/sub/d", "hive/k=1/_j=2/a", "hive/k=1/_j=3/b", "hive/k=2/_j=3/deep/c", "hive/_logs/e", "many/x1/a",
        "many/x2/b", "many/.x3/c", "made/a",
    )  # fmt: skip
    # What Hadoop leaves where it makes a folder.
    hadoop = spark_there._jvm.org.apache.hadoop.fs
    made = hadoop.Path(f"{folder.location}/made/sub")
    made.getFileSystem(spark_there._jsparkSession.sessionState().newHadoopConf()).mkdirs(made)
    cases: list[tuple[str, dict[str, str]]] = [
        ("flat", {}),
        ("flat/", {"recursiveFileLookup": "true"}),
        ("flat", {"pathGlobFilter": "[ab]*"}),
        ("flat/b*", {}),
        ("flat/b c%20", {}),
        ("{flat,many/x?}/[a-c]*", {}),
        ("hive", {}),
        ("hive/k=*", {"basePath": f"{folder.location}/hive"}),
        ("hive/k=1", {}),
        ("hive", {"recursiveFileLookup": "true"}),
        ("made", {}),
        ("m*y/x[!1]", {}),
    ]
    for path, options in cases:
        frame = spark_there.read.format("text").options(**options).load(f"{folder.location}/{path}")
        listed = Files(f"{folder.location}/{path}", format="text", options=options).list_files()
        rows = frame.select("_metadata.file_path", "_metadata.file_size").distinct().collect()
        assert [(file.path, file.size) for file in listed.files] == sorted(map(tuple, rows)), (path, options)
        assert ["value", *listed.partition_columns] == frame.columns, (path, options)


def test_a_file_that_is_missing_has_vanished_or_was_replaced_is_reported_by_name(folder: Store) -> None:
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


def test_a_missing_container_is_reported(folder: Store) -> None:
    place = folder.location.replace("gs://", "gs://no").replace("abfs://", "abfs://no")
    with pytest.raises(InputError) as error:
        Files(f"{place}/in").list_files("history")
    assert error.value.code in ("FILE_UNREADABLE", "PATH_MISSING")


def test_statistics_put_them_in_the_order_of_time(folder: Store) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_job_reads_them_with_the_columns_of_their_folders(
    spark_there: SparkSession, folder: Store, tmp_path: Path, mode: str
) -> None:
    for day in (1, 2):
        folder.replace(f"all of it/day={day}/x.json", f'{{"v": {10 * day}}}\n'.encode())
    job = rk.Job("reads-a-cloud")
    history = job.source("history", Files(f"{folder.location}/all of it", format="json"))
    job.sink("out", job.task(history, uid="pass")(lambda rows: rows), rk.sinks.Parquet(str(tmp_path / "out")))
    result = job.run(spark_there, storage=str(tmp_path / "storage"), mode=mode)
    assert (result.state, result.error) == ("FINISHED", None)
    assert Counter((row["v"], row["day"]) for row in committed(tmp_path / "out")) == Counter({(10, 1): 1, (20, 2): 1})


def test_the_account_of_az_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "weather")
    assert Files("az://readings/2025/*").paths == ("abfss://readings@weather.dfs.core.windows.net/2025/*",)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(DefinitionError, match="FILES_SCHEME_UNSUPPORTED"):
        Files("az://readings/2025")
