from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from rekindle.errors import ConfigError, DefinitionError, InputError, StorageError
from rekindle.sources import Files
from rekindle.sources.listing import as_they_are, check_present, check_unchanged, parse_time_ms
from rekindle.sources.trees import MountedDisk
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import file_uri

HOUR_MS = 3_600_000


@pytest.fixture
def tree(tmp_path: Path):
    """Make files below a folder with an awkward name, from their relative paths; each holds its path."""
    root = tmp_path / "in ü%20"

    def tree(*names: str) -> Path:
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        return root

    return tree


def names(files: Files, root: Path) -> list[str]:
    start = f"{file_uri(str(root))}/"
    found = [file.path for file in files.list_files("history")[0]]
    assert all(path.startswith(start) for path in found)
    return [path.removeprefix(start) for path in found]


def code(call) -> tuple[str, dict[str, object]]:
    with pytest.raises((InputError, ConfigError, DefinitionError)) as error:
        call()
    return error.value.code, error.value.parameters


# --- what is defined ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["avro", "Parquet", "delta", ""])
def test_a_format_that_files_cannot_have_is_refused_with_those_it_can(name: str) -> None:
    found, parameters = code(lambda: Files("x", format=name))
    assert (found, parameters["format"]) == ("FORMAT_UNKNOWN", name)
    assert "parquet, json, csv, orc, text" in str(parameters["supported"])


@pytest.mark.parametrize(
    "option",
    [
        "cleanSource", "CLEANSOURCE", "sourceArchiveDir", "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge",
        "latestFirst", "fileNameOnly", "maxCachedFiles", "discardCachedInputRatio", "ignoreMissingFiles", "path",
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_by_name_with_the_reason(option: str) -> None:
    found, parameters = code(lambda: Files("x", options={"header": True, option: "1"}))
    assert (found, parameters["option"]) == ("FILES_OPTION_REFUSED", option)
    assert str(parameters["reason"]).endswith(".")


def test_spark_is_given_all_options_but_those_that_choose_files() -> None:
    chosen = {"pathGlobFilter": "*", "MODIFIEDAFTER": "2024-01-01", "recursiveFileLookup": True, "basePath": "/"}
    files = Files("x", format="csv", options={"header": True, "Sep": ";", "samplingRatio": 0.5, **chosen})
    assert files.spark_options == {"header": "true", "Sep": ";", "samplingRatio": "0.5"}
    assert files.all_options == {
        **files.spark_options,
        "pathGlobFilter": "*",
        "MODIFIEDAFTER": "2024-01-01",
        "recursiveFileLookup": "true",
        "basePath": "/",
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("modifiedAfter", "yesterday"),
        ("modifiedBefore", "2024-13-01"),
        ("pathGlobFilter", "{a"),
        ("recursiveFileLookup", "yes"),
    ],
)
def test_an_option_that_cannot_be_understood_is_refused_when_the_job_is_defined(option: str, value: str) -> None:
    found, parameters = code(lambda: Files("x", options={option.upper(): value}))
    assert (found, parameters["key"], parameters["value"]) == ("VALUE_INVALID", option, value)


def test_a_path_that_is_no_pattern_or_not_local_is_refused_when_the_job_is_defined() -> None:
    assert code(lambda: Files("in/[a"))[0] == "VALUE_INVALID"
    for path, shown in (
        ("ftp://host/in", "ftp://host/in"),
        ("gs://me:hunter2@bucket/in", "gs://...@bucket/in"),
        ("abfss://container/in",) * 2,
        ("hdfs://me:hunter2@host/in", "hdfs://...@host/in"),
        ("s3://k:pass@word@b/in", "s3://...@b/in"),
        ("s3://",) * 2,
    ):
        assert code(lambda path=path: Files(["ok", path])) == ("FILES_SCHEME_UNSUPPORTED", {"path": shown})


def test_a_file_uri_is_taken_letter_by_letter_as_spark_does() -> None:
    given = ["file:///a%20b", "file:/c", "d/e:f", "g"]
    assert Files(given).paths == ("/a%20b", "/c", "d/e:f", "g")


# --- which files are found ----------------------------------------------------------------------------------------


def test_the_files_of_a_folder_come_by_path_with_their_sizes_and_encoded_addresses(tree) -> None:
    root = tree("b.json", "a b%.json", "ä.json", "_a=1.json", "B.json")
    files, partition_columns, base = Files(str(root), format="json").list_files()
    order = ["B.json", "_a=1.json", "a b%.json", "b.json", "ä.json"]
    assert [(file.path, file.size) for file in files] == [(file_uri(f"{root}/{n}"), len(n.encode())) for n in order]
    assert files[2].path.endswith("/in%20ü%2520/a%20b%25.json")
    assert (partition_columns, base) == ((), "")


def test_hidden_names_and_plain_subfolders_are_left_out_as_spark_does(tree) -> None:
    root = tree(
        "a.json", "_SUCCESS", ".a.json.crc", "_metadata", "x._COPYING_", "_spark_metadata/0", "sub/b.json", ".h/c.json"
    )
    assert names(Files(str(root)), root) == ["a.json"]
    recursive = Files(str(root), options={"recursiveFileLookup": "TRUE"})
    assert names(recursive, root) == ["a.json", "sub/b.json"]


def test_a_file_of_no_bytes_is_listed(tree) -> None:
    root = tree("a.parquet")
    (root / "empty.parquet").touch()
    assert [file.size for file in Files(str(root)).list_files()[0]] == [9, 0]


def test_a_single_file_and_several_paths_can_be_named_and_a_file_counts_once(tree) -> None:
    root = tree("x/a", "x/b", "y/c", "z/d")
    assert names(Files([f"{root}/y", f"{root}/x/b", f"{root}/x/", f"{root}/x"]), root) == ["x/a", "x/b", "y/c"]


def test_a_relative_path_is_looked_for_where_the_job_runs(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree("x/a")
    monkeypatch.chdir(root)
    assert names(Files("x"), root) == names(Files("./x/../x/*"), root) == ["x/a"]


def test_patterns_choose_files_and_folders(tree) -> None:
    root = tree("2024/01/a", "2024/02/b", "2025/01/c", "2025/01/_d", "other/e")
    assert names(Files(f"{root}/20*/01"), root) == ["2024/01/a", "2025/01/c"]
    assert names(Files(f"{root}/{{2024/0[2-9],other}}/?"), root) == ["2024/02/b", "other/e"]
    assert names(Files(f"{root}/2025/01/*"), root) == ["2025/01/c"]


def test_the_options_that_choose_files_apply(tree) -> None:
    root = tree("old.csv", "at.csv", "new.csv", "new.txt")
    for name, hour in (("old.csv", 1), ("at.csv", 2), ("new.csv", 3), ("new.txt", 3)):
        os.utime(root / name, (hour * 3_600,) * 2)
    assert names(Files(str(root), options={"pathGlobFilter": "*.csv"}), root) == ["at.csv", "new.csv", "old.csv"]
    assert names(Files(str(root), options={"modifiedAfter": "1970-01-01T02:00:00"}), root) == ["new.csv", "new.txt"]
    between = {"modifiedAfter": "1970-01-01 01:59:59.999", "modifiedBefore": "1970-01-01T03:00:00Z"}
    assert names(Files(str(root), options=between), root) == ["at.csv"]


def test_links_lead_to_their_files_and_broken_ones_are_left_out(tree, tmp_path: Path) -> None:
    root = tree("a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").write_text("12345")
    (root / "to_file").symlink_to(tmp_path / "elsewhere" / "data")
    (root / "k=1").symlink_to(tmp_path / "elsewhere")
    (root / "broken").symlink_to(tmp_path / "gone")
    files = Files(str(root), options={"recursiveFileLookup": True}).list_files()[0]
    found = [(file.path.rsplit("/", 1)[1], file.size) for file in files]
    assert found == [("a", 1), ("data", 5), ("to_file", 5)]


def test_a_path_with_nothing_there_is_named(tree) -> None:
    root = tree("x/a")
    for missing in (f"{root}/nothing", f"{root}/x*/b*", f"{root}/x/a/b"):
        found = code(Files([f"{root}/x", missing]).list_files)
        assert found == ("PATH_MISSING", {"source": "files", "path": missing})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf8_is_refused_and_shown(tree) -> None:
    root = tree("a.json")
    (root / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    found, parameters = code(lambda: Files(str(root)).list_files("history"))
    assert (found, parameters["path"]) == ("FILE_UNREADABLE", f"{root}/caf\N{REPLACEMENT CHARACTER}.json")


def test_a_name_with_a_colon_is_refused_since_hadoop_cannot_read_it(tree) -> None:
    root = tree("a.json", "2025-01-01T10:00.json")
    found = code(lambda: Files(str(root)).list_files("history"))
    assert found == ("FILE_NAME_UNSUPPORTED", {"source": "history", "path": f"{root}/2025-01-01T10:00.json"})
    nested = tree("day 10:00/b.json")
    assert names(Files(str(nested / "day 10:00")), nested) == ["day%2010:00/b.json"]


def test_a_path_without_files_to_read_is_named_with_its_source(tree) -> None:
    root = tree("_SUCCESS", "sub/a.json")
    assert code(lambda: Files(str(root)).list_files("history")) == (
        "PATH_EMPTY",
        {"source": "history", "path": str(root)},
    )
    assert code(Files(f"{root}/sub", options={"pathGlobFilter": "*.csv"}).list_files)[0] == "PATH_EMPTY"
    assert code(Files([]).list_files)[0] == "PATH_EMPTY"


# --- key=value folders --------------------------------------------------------------------------------------------


def test_columns_are_found_in_the_folders(tree) -> None:
    root = tree("year=2024/m%3An=1/a", "year=2024/m%3An=2/deeper/b", "year=__HIVE_DEFAULT_PARTITION__/m%3An=x y/c")
    files, partition_columns, base = Files(str(root)).list_files()
    assert len(files) == 3
    assert (partition_columns, base) == (("year", "m:n"), file_uri(str(root)))


def test_columns_may_lie_below_a_plain_folder_and_begin_at_the_base_path(tree) -> None:
    root = tree("t/v1/year=2024/a", "t/v1/year=2025/b")
    assert Files(f"{root}/t").list_files()[1:] == (("year",), file_uri(f"{root}/t/v1"))
    assert Files(f"{root}/t/v1/year=2024").list_files()[1:] == ((), "")
    based = Files(f"{root}/t/v1/year=*", options={"basePath": f"{root}/t/v1"})
    assert based.list_files()[1:] == (("year",), file_uri(f"{root}/t/v1"))
    assert len(based.list_files()[0]) == 2
    assert code(Files(f"{root}/t", options={"basePath": f"{root}/other"}).list_files)[0] == "VALUE_INVALID"


def test_a_recursive_lookup_takes_no_columns_from_folders(tree) -> None:
    root = tree("a", "k=1/b")
    found = Files(str(root), options={"recursiveFileLookup": "true"}).list_files()
    assert (len(found.files), found.partition_columns, found.base) == (2, (), "")


@pytest.mark.parametrize(
    "layout",
    [
        ("k=1/a", "b"),
        ("k=1/a", "j=1/b"),
        ("k=1/j=1/a", "k=1/b"),
        ("k=1/j=1/a", "j=1/k=1/b"),
        ("x/k=1/a", "y/k=1/b"),
        ("k=/a",),
        ("=1/a",),
    ],
)
def test_folders_that_differ_from_file_to_file_are_an_error_that_names_one(tree, layout: tuple[str, ...]) -> None:
    root = tree(*layout)
    found, parameters = code(lambda: Files(str(root)).list_files("history"))
    assert (found, parameters["source"]) == ("SCHEMA_MISMATCH", "history")
    assert str(parameters["path"]).startswith(str(root))


# --- afterwards ---------------------------------------------------------------------------------------------------


def test_a_file_that_has_vanished_is_named(tree) -> None:
    root = tree("a b%", "c")
    files = Files(str(root)).list_files()[0]
    check_present("history", files)
    (root / "a b%").unlink()
    assert code(lambda: check_present("history", files)) == (
        "FILE_VANISHED",
        {"source": "history", "path": f"{root}/a b%"},
    )


def test_a_file_that_has_taken_the_place_of_another_is_named(tree) -> None:
    root = tree("a b%", "c")
    files = Files(str(root)).list_files()[0]
    check_unchanged("history", files)
    name, old = root / "a b%", (root / "a b%").stat()

    name.write_text("c %a")
    os.utime(name, ns=(old.st_atime_ns, old.st_mtime_ns + 1_000_000))
    found, parameters = code(lambda: check_unchanged("history", files))
    assert (found, parameters["source"], parameters["path"]) == ("FILE_CHANGED", "history", str(name))
    assert "as large as then" in str(parameters["reason"])

    name.write_text("longer")
    os.utime(name, ns=(old.st_atime_ns, old.st_mtime_ns))
    found, parameters = code(lambda: check_unchanged("history", files))
    assert (found, parameters["reason"]) == ("FILE_CHANGED", "4 bytes then, 6 now")
    assert [file.size for file in as_they_are("history", files)] == [6, 1]

    name.write_text("back")
    os.utime(name, ns=(old.st_atime_ns, old.st_mtime_ns))
    check_unchanged("history", files)

    name.unlink()
    name.mkdir()
    assert code(lambda: check_unchanged("history", files))[0] == "FILE_VANISHED"


def test_of_a_list_that_an_older_version_has_frozen_the_sizes_count(tree) -> None:
    root = tree("a", "c")
    files = [FrozenFile(path=file.path, size=file.size) for file in Files(str(root)).list_files()[0]]
    (root / "a").write_text("b")
    os.utime(root / "a", (0, 0))
    check_unchanged("history", files)
    (root / "a").write_text("")
    assert code(lambda: check_unchanged("history", files))[0] == "FILE_CHANGED"


def test_a_place_that_fails_is_not_taken_for_one_without_the_file(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(str(tree("a"))).list_files()[0]

    def away(tree: MountedDisk, path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(MountedDisk, "find", away)
    with pytest.raises(StorageError) as error:
        check_unchanged("history", files)
    assert error.value.code == "STORAGE_UNAVAILABLE"
    monkeypatch.setattr(MountedDisk, "find", lambda tree, path: None)
    with pytest.raises(StorageError):
        check_unchanged("history", files)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("1970-01-01", 0),
        ("1970-1-2", 24),
        ("1970-02", 31 * 24),
        ("1970-01-01T02:00", 2),
        ("1970-01-01 02:00:00", 2),
        ("1970-01-01T02:00:00.000000Z", 2),
        (" 1970-01-01T02:00:00 UTC ", 2),
        ("1970-01-01T02:30:00+01:30", 1),
        ("1970-01-01T02:00:00-01:00", 3),
    ],
)
def test_times_are_read_as_spark_reads_them_in_utc(text: str, hours: int) -> None:
    assert parse_time_ms(text) == hours * HOUR_MS


def test_a_time_before_1970_and_a_fraction_of_a_second() -> None:
    assert parse_time_ms("1969-12-31T23:59:59.5") == -500
    assert parse_time_ms("1970-01-01T00:00:00.0019") == 1


def test_listing_does_not_change_what_was_defined(tree) -> None:
    root = tree("a")
    files = Files(str(root), options={"pathGlobFilter": "*"}, ordered=True)
    assert files.list_files() == files.list_files()
    assert files.ordered and files.options == {"pathGlobFilter": "*"}


# --- Spark as the judge -------------------------------------------------------------------------------------------


def test_what_is_listed_is_what_sparks_batch_reader_reads(spark, tree) -> None:
    root = tree(
        "flat/a", "flat/b c%20", "flat/_SUCCESS", "flat/.x", "flat/_k=1", "flat/y._COPYING_", "flat/sub/d",
        "flat/_metadata/m", "flat/_common_metadata", "hive/k=1/_j=2/a", "hive/k=1/_j=3/b", "hive/k=2/_j=3/deep/c",
        "hive/k=2/_j=3/_temporary/d", "hive/_logs/e", "_hidden/f", "many/x1/a", "many/x2/b", "many/.x3/c",
    )  # fmt: skip
    for at, path in enumerate(sorted(path for path in (root / "flat").iterdir() if path.is_file())):
        os.utime(path, (1_700_000_000 + at,) * 2)
    cases: list[tuple[str, dict[str, str]]] = [
        ("flat", {}),
        ("flat", {"recursiveFileLookup": "true"}),
        ("flat", {"pathGlobFilter": "[ab]*"}),
        ("flat", {"pathGlobFilter": "{a,_k=?}"}),
        ("flat", {"modifiedAfter": "2023-11-14T22:13:25", "recursiveFileLookup": "true"}),
        ("flat", {"modifiedBefore": "2023-11-14 22:13:27Z"}),
        ("flat/b*", {}),
        ("{flat,many/x?}/[a-c]*", {}),
        ("hive", {}),
        ("hive/k=*", {"basePath": f"{root}/hive"}),
        ("hive/k=1", {}),
        ("hive", {"recursiveFileLookup": "true"}),
        ("_hidden", {}),
        ("many/*", {}),
        ("m*y/x[!1]", {}),
        ("many/x1/\\a", {}),
    ]
    for path, options in cases:
        frame = spark.read.format("text").options(**options).load(f"{root}/{path}")
        listed = Files(f"{root}/{path}", format="text", options=options).list_files()
        rows = frame.select("_metadata.file_path").distinct().collect()
        read = sorted("/" + row.file_path.removeprefix("file:").lstrip("/") for row in rows)
        ours = sorted(file.path.removeprefix("file://") for file in listed.files)
        assert ours == read, (path, options)
        assert ["value", *listed.partition_columns] == frame.columns, (path, options)
