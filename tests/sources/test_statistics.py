"""Files in the order of their least event times, from real Parquet footers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.sources import statistics
from rekindle.sources.statistics import NoStatisticsError, by_time
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import file_uri

UTC_US = pa.timestamp("us", "UTC")


def put(folder: Path, name: str, times: list[int | None], kind: Any = UTC_US, **options: Any) -> FrozenFile:
    """A Parquet file with a column `ts` of these times, in the unit of `kind`."""
    path = folder / name
    pq.write_table(pa.table({"ts": pa.array(times, kind), "n": list(range(len(times)))}), path, **options)
    return FrozenFile(path=file_uri(str(path)), size=path.stat().st_size)


def order(*files: FrozenFile) -> list[tuple[str, int | None]]:
    return [(file.path.rpartition("/")[2], file.first_ms) for file in by_time(files, "ts")]


def why(*files: FrozenFile) -> str:
    with pytest.raises(NoStatisticsError) as raised:
        by_time(files, "ts")
    return str(raised.value)


def test_they_come_in_the_order_of_their_least_times_whatever_they_are_called(tmp_path: Path) -> None:
    files = [put(tmp_path, "a", [9_000_000, 7_000_999]), put(tmp_path, "b", [1_000_000, 50_000_000])]
    assert order(*files) == [("b", 1_000), ("a", 7_000)]


@pytest.mark.parametrize(("unit", "time"), [("ms", 1_234), ("us", 1_234_567), ("ns", 1_234_567_890)])
def test_the_least_time_is_rounded_down_to_a_millisecond_in_every_unit(unit: str, time: int, tmp_path: Path) -> None:
    assert order(put(tmp_path, "a", [time], pa.timestamp(unit, "UTC"))) == [("a", 1_234)]


def test_a_time_before_1970_is_rounded_down_too(tmp_path: Path) -> None:
    assert order(put(tmp_path, "a", [-1])) == [("a", -1)]


def test_the_least_of_all_row_groups_counts_and_those_without_any_time_do_not(tmp_path: Path) -> None:
    times = [None, None, 8_000_000, 9_000_000, 3_000_000, None]
    assert order(put(tmp_path, "a", times, row_group_size=2)) == [("a", 3_000)]


def test_files_without_a_time_come_first_and_hold_nothing_back(tmp_path: Path) -> None:
    files = [put(tmp_path, "b", [5_000_000]), put(tmp_path, "nulls", [None, None]), put(tmp_path, "empty", [])]
    (tmp_path / "bytes").touch()
    files.append(FrozenFile(path=file_uri(str(tmp_path / "bytes")), size=0))
    assert order(*files) == [("bytes", None), ("empty", None), ("nulls", None), ("b", 5_000)]


def test_a_path_with_odd_letters_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20ä"
    folder.mkdir()
    assert order(put(folder, "x", [1_000])) == [("x", 1)]


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        (UTC_US, {"write_statistics": False}, "no statistics"),
        (UTC_US, {"use_deprecated_int96_timestamps": True}, "is INT96"),
        (pa.timestamp("us"), {}, "is INT64"),
        (pa.int64(), {}, "is INT64"),
    ],
    ids=["none written", "as Spark writes by default", "without a zone", "a number"],
)
def test_one_file_that_does_not_tell_is_enough(kind: Any, options: dict[str, Any], word: str, tmp_path: Path) -> None:
    files = [put(tmp_path, "a", [1_000]), put(tmp_path, "b", [2_000], kind, **options)]
    assert word in why(*files)


def test_a_file_without_the_column_does_not_tell(tmp_path: Path) -> None:
    file = put(tmp_path, "a", [1])
    with pytest.raises(NoStatisticsError, match="has not one column 'at'"):
        by_time([file], "at")


def test_a_file_that_cannot_be_read_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no Parquet at all")
    assert "cannot be read" in why(FrozenFile(path=file_uri(str(tmp_path / "a")), size=17))


def test_a_row_group_with_nulls_and_no_least_time_does_not_tell() -> None:
    told = SimpleNamespace(has_min_max=False, has_null_count=True, null_count=1)
    with pytest.raises(NoStatisticsError, match="no statistics of column 'ts'"):
        statistics._least(SimpleNamespace(num_values=2, statistics=told), "a", "ts")
