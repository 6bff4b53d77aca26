"""What Spark's tasks say they have written is what the driver takes: no less, and no file besides."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.errors import StorageError
from rekindle.sinks import writing
from rekindle.sinks.session_settings import for_old_times, set_while
from rekindle.sinks.writing import write_parquet, write_unread
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Entry

Write = Callable[[DataFrame, LocalStore, str], list[tuple[str, int]]]


def read(df: DataFrame, store: LocalStore, folder: str) -> list[tuple[str, int]]:
    return [(file.path, file.bytes) for file in write_parquet(df, store, folder)]


def unread(df: DataFrame, store: LocalStore, folder: str) -> list[tuple[str, int]]:
    return [(entry.path.removeprefix(f"{folder}/"), entry.size_bytes) for entry in write_unread(df, store, folder)]


class Harmed(LocalStore):
    """A store in which something happens to the files after Spark has written them, and before the driver looks."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.happens: Callable[[list[Path]], None] = lambda files: None

    def walk(self, folder: str) -> Iterator[Entry]:
        happens, self.happens = self.happens, lambda files: None
        happens(sorted(Path(self.path(folder)).rglob("*.parquet")))
        return super().walk(folder)


class ReadOnly(LocalStore):
    """A store on a disk that the system has made read-only."""

    def replace(self, path: str, data: bytes) -> None:
        raise StorageError("STORAGE_READ_ONLY", uri=self.location, reason="Read-only file system")


@pytest.fixture
def store(tmp_path: Path) -> Harmed:
    return Harmed(str(tmp_path))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look comes at once."""
    monkeypatch.setattr(writing, "LOOKS_AGAIN_AFTER_S", (0, 0))


def test_texts_that_the_name_of_a_folder_does_not_tell_from_null_lie_there(
    spark: SparkSession, store: LocalStore
) -> None:
    texts = spark.sql(
        "SELECT * FROM VALUES (1, NULL), (2, '__HIVE_DEFAULT_PARTITION__'), (3, ''), (4, 'a') AS t(n, `a b`)"
    )
    files = write_parquet(texts.coalesce(1), store, "out", ["a b"])
    found = {file.path.partition("/")[0]: file.rows for file in files}
    assert found == {"a b=__HIVE_DEFAULT_PARTITION__": 3, "a b=a": 1}


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_shape_of_a_write_is_counted_by_its_tasks(spark: SparkSession, store: LocalStore, adaptive: str) -> None:
    rows = spark.range(0, 1000, numPartitions=3).selectExpr("id", "id % 3 AS _part", "id % 3 = 0 AS third")
    persisted = rows.groupBy("_part").count().persist()
    shapes: dict[str, tuple[DataFrame, tuple[str, ...], dict[str, object], int]] = {
        "plain": (rows, (), {}, 1000),
        "partitioned": (rows, ("_part", "third"), {}, 1000),
        "cut": (rows, ("third",), {"maxRecordsPerFile": 100, "compression": "gzip"}, 1000),
        "shuffled": (rows.repartition(4).filter("id > 900"), (), {}, 99),
        "persisted": (persisted, (), {}, 3),
        "empty": (rows.repartition(4).filter("id < 0"), ("_part",), {}, 0),
        "nothing": (spark.range(0), (), {}, 0),
    }
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for name, (frame, partition_by, options, wanted) in shapes.items():
            files = write_parquet(frame, store, name, partition_by, options)
            assert sum(file.rows for file in files) == wanted, name
            assert all(file.rows for file in files)
            if name == "cut":
                assert max(file.rows for file in files) == 100
                assert all(file.path.endswith(".gz.parquet") for file in files)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        persisted.unpersist()


@pytest.mark.parametrize("write", [read, unread])
def test_what_an_attempt_that_failed_has_left_is_no_output(spark: SparkSession, store: Harmed, write: Write) -> None:
    def leave(files: list[Path]) -> None:
        for hidden in ("_temporary/0/_temporary/attempt_1/part=1", ".spark-staging-1", "part=1/_temporary"):
            (files[0].parent / hidden).mkdir(parents=True)
            shutil.copy(files[0], files[0].parent / hidden / files[0].name)
        shutil.copy(files[0], files[0].parent / "_part-9.parquet")

    store.happens = leave
    written = write(spark.range(0, 9, numPartitions=2), store, "out")
    assert len(written) == 2
    assert all("/" not in path and path.startswith("part-") for path, _ in written)


def test_a_place_that_has_become_read_only_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")  # no folder can be made below it
    with pytest.raises(StorageError, match="cannot be written: Read-only file system") as caught:
        write_parquet(spark.range(1), ReadOnly(str(tmp_path / "file")), "out")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("write", [read, unread])
def test_rows_that_the_driver_does_not_find_are_an_error_and_not_nothing(
    spark: SparkSession, store: Harmed, write: Write
) -> None:
    rows = spark.range(0, 9, numPartitions=2)
    store.happens = lambda files: [file.unlink() for file in files]
    with pytest.raises(StorageError) as all_gone:
        write(rows, store, "gone")
    assert all_gone.value.code == "OUTPUT_NOT_SHARED"
    assert all_gone.value.permanent
    assert all_gone.value.parameters["rows"] == 9


@pytest.mark.parametrize("write", [read, unread])
@pytest.mark.parametrize("fault", ["one file is missing", "a file is there twice"])
def test_a_driver_that_finds_other_files_than_were_written_tries_again(
    spark: SparkSession, store: Harmed, write: Write, fault: str
) -> None:
    def act(files: list[Path]) -> None:
        if fault == "one file is missing":
            files[0].unlink()
        else:
            shutil.copy(files[0], files[0].with_name("part-7.parquet"))

    store.happens = act
    with pytest.raises(StorageError) as error:
        write(spark.range(0, 9, numPartitions=2), store, "out")
    assert error.value.code == "OUTPUT_INCOMPLETE"
    assert not error.value.permanent


@pytest.mark.parametrize("write", [read, unread])
def test_a_file_system_that_shows_files_a_little_later_is_looked_at_again(
    spark: SparkSession, tmp_path: Path, write: Write
) -> None:
    class Late(LocalStore):
        looks = 0

        def walk(self, folder: str) -> Iterator[Entry]:
            self.looks += 1
            return super().walk(folder) if self.looks == 3 else iter(())

    store = Late(str(tmp_path))
    assert len(write(spark.range(0, 9, numPartitions=2), store, "out")) == 2
    assert store.looks == 3


def test_old_times_are_written_as_they_are_unless_the_user_chose_how_and_the_session_is_as_it_was(
    spark: SparkSession, store: LocalStore
) -> None:
    names = ("spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite")
    session = spark.newSession()
    old = "SELECT date '1500-02-28' AS day, timestamp '1500-02-28 00:00:00 UTC' AS ts, inline(array(struct(1 AS id)))"
    for name in names:
        session.conf.set(name, "EXCEPTION")  # as it is in Spark 3.5

    assert write_parquet(session.sql(old), store, "old")[0].rows == 1

    (row,) = pq.read_table(f"{store.location}/old", columns=["day"]).to_pylist()
    assert row["day"] == dt.date(1500, 2, 28)
    assert [session.conf.get(name) for name in names] == ["EXCEPTION", "EXCEPTION"]
    with set_while(session, for_old_times(session)):
        second = for_old_times(session)
        assert second == dict.fromkeys(names, "CORRECTED"), "the first writer may be done before the second"
    session.conf.set(names[0], "LEGACY")
    assert for_old_times(session) == {names[1]: "CORRECTED"}
