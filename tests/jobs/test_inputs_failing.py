"""Data that is not what it was said to be: the error by name, what to do, and nothing lost once that is done."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from rekindle.runtime.steps import heard_by
from tests.jobs.kit import World, committed

pytestmark = pytest.mark.usefixtures("one_file_a_batch")

GOOD = '{"n": 1, "s": "a"}\n{"n": 2, "s": "b"}\n'
BAD = '{"n": 3, "s": "c"}\nnot json\n{"n": "four", "s": "d"}\n'
ONE_BY_ONE = {"input.target_batch_duration": "1 ms", "restart.attempts": "0", "checkpoint.interval": "1 hour"}


def copy_of(world: World, name: str, source: rk.Files) -> rk.Job:
    job = rk.Job(name)
    job.sink("out", job.task(job.source("in", source), uid="same")(lambda frame: frame), _sink(world, name))
    return job


def _sink(world: World, name: str) -> rk.sinks.Parquet:
    return rk.sinks.Parquet(world.root / "outs" / name)


def numbers(world: World, name: str) -> list[Any]:
    return sorted((row["n"] for row in committed(world.root / "outs" / name)), key=str)


def parquet(path: Path, **columns: list[Any]) -> None:
    pq.write_table(pa.table(columns), path)


def replace_alike(path: Path) -> None:
    """By a file of other rows, as large and as well formed."""
    path.write_text(path.read_text().replace("1", "9"))


def replace_by_more(path: Path) -> None:
    path.write_text(path.read_text() * 2)


def scramble(path: Path) -> None:
    """Not a file of its format any more, and of the size it had."""
    path.write_bytes(b"x" * path.stat().st_size)


def test_what_cannot_be_read_fails_by_name_and_is_read_once_it_is_mended(spark: SparkSession, world: World) -> None:
    root = world.root / "in"

    def folder(name: str, suffix: str, contents: list[Any]) -> Path:
        (root / name).mkdir(parents=True)
        for number, content in enumerate(contents):
            path = root / name / f"{number}.{suffix}"
            if isinstance(content, str):
                path.write_text(content)
            else:
                parquet(path, **content)
        return root / name

    ints, more = {"n": [1, 2], "s": ["a", "b"]}, {"n": [5, 6], "s": ["e", "f"]}
    given = {"schema": "n bigint, s string"}
    failfast = {"mode": "FAILFAST"}
    # What is there, how it is read, what becomes of its second file, what the run says, what mends it.
    cases: dict[str, tuple[Path, dict[str, Any], Callable[[Path], Any], str]] = {
        "malformed": (
            folder("malformed", "json", [GOOD, GOOD, GOOD]),
            {"format": "json", "schema": "n int, s string", "options": failfast},
            lambda path: path.write_text(BAD),
            "MALFORMED_ROW",
        ),
        "malformed-csv": (
            folder("malformed-csv", "csv", ["n,s\n1,a\n", "n,s\n2,b\n", "n,s\n3,c\n"]),
            {"format": "csv", "schema": "n int, s string", "options": {**failfast, "header": True}},
            lambda path: path.write_text("n,s\ntwo,b\n"),
            "MALFORMED_ROW",
        ),
        "other-type": (
            folder("other-type", "parquet", [ints, ints, more]),
            given,
            lambda path: parquet(path, n=["one", "two"], s=["a", "b"]),
            "SCHEMA_MISMATCH",
        ),
        "corrupt": (folder("corrupt", "parquet", [ints, ints, more]), given, scramble, "FILE_DAMAGED"),
        "cut-short": (
            folder("cut-short", "parquet", [ints, ints, more]),
            given,
            lambda path: path.write_bytes(path.read_bytes()[:-20]),
            "FILE_DAMAGED",
        ),
        "vanished": (folder("vanished", "parquet", [ints, ints, more]), given, Path.unlink, "FILE_VANISHED"),
        "vanished-json": (
            folder("vanished-json", "json", [GOOD, GOOD, GOOD]),
            {"format": "json"},
            Path.unlink,
            "FILE_VANISHED",
        ),
        "replaced": (
            folder("replaced", "json", [GOOD, GOOD, GOOD]),
            {"format": "json"},
            replace_alike,
            "FILE_CHANGED",
        ),
        "grown": (folder("grown", "json", [GOOD, GOOD, GOOD]), {"format": "json"}, replace_by_more, "FILE_CHANGED"),
    }

    def fail_and_mend(name: str) -> tuple[Any, ...]:
        place, arguments, harm, _ = cases[name]
        second = next(iter(sorted(place.glob("1.*"))))
        whole, then = second.read_bytes(), second.stat()
        harmed = []

        def watch(step: str) -> None:
            # Behind the first batch: the second file is admitted already, and listed.
            if step == "record.create/after" and not harmed:
                harmed.append(harm(second))

        first = heard_by(watch, copy_of(world, name, rk.Files(str(place), **arguments)).start)(
            spark, storage=world.storage, config=ONE_BY_ONE
        ).wait()
        before = numbers(world, name)
        second.write_bytes(whole)
        put_back = name in ("replaced", "vanished")
        if put_back:
            os.utime(second, ns=(then.st_atime_ns, then.st_mtime_ns))
        again = (
            copy_of(world, name, rk.Files(str(place), **arguments))
            .start(spark, storage=world.storage, config=ONE_BY_ONE, allow_changed_files=not put_back)
            .wait()
        )
        return first, before, again

    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(cases, pool.map(fail_and_mend, cases), strict=True))

    codes = {name: (first.error or {}).get("code") for name, (first, _, _) in results.items()}
    assert codes == {name: case[3] for name, case in cases.items()}
    for name, (first, before, again) in results.items():
        place, arguments, _, _ = cases[name]
        assert (first.state, again.state, again.error) == ("FAILED", "FINISHED", None), name
        assert first.error["next_step"]
        assert place.name in str(first.error["message"]) and "1." in str(first.error["message"]), first.error
        assert before == [], "no checkpoint was completed"
        reader = spark.read.format(arguments.get("format", "parquet")).options(**arguments.get("options", {}))
        if "schema" in arguments:
            reader = reader.schema(arguments["schema"])
        assert numbers(world, name) == sorted((row["n"] for row in reader.load(str(place)).collect()), key=str), name


def test_modes_of_malformed_rows_are_sparks(spark: SparkSession, world: World) -> None:
    place = world.root / "in"
    place.mkdir()
    (place / "0.json").write_text(GOOD)
    (place / "1.json").write_text(BAD)
    found = {}
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        source = rk.Files(str(place), format="json", schema="n int, s string", options={"mode": mode})
        result = copy_of(world, mode, source).start(spark, storage=world.storage).wait()
        assert result.error is None
        expected = spark.read.schema("n int, s string").option("mode", mode).json(str(place)).collect()
        found[mode] = sorted(str((row["n"], row["s"])) for row in committed(world.root / "outs" / mode))
        assert found[mode] == sorted(str((row["n"], row["s"])) for row in expected)
    assert (len(found["PERMISSIVE"]), len(found["DROPMALFORMED"])) == (5, 3)


def test_a_fault_at_the_first_start_is_reported_there_and_nothing_is_frozen(spark: SparkSession, world: World) -> None:
    place = world.root / "in"
    sources = {
        "PATH_MISSING": rk.Files(str(place / "none")),
        "PATH_EMPTY": rk.Files(str(place / "empty")),
        "FILE_DAMAGED": rk.Files(str(place / "corrupt")),
    }
    (place / "empty").mkdir(parents=True)
    (place / "corrupt").mkdir()
    (place / "corrupt" / "0.parquet").write_bytes(b"x" * 100)

    for code, source in sources.items():
        with pytest.raises(InputError) as error:
            copy_of(world, code, source).start(spark, storage=world.storage)
        assert error.value.code == code
        assert error.value.next_step
        assert str(place) in str(error.value)
        # Mended, it starts.
        folder = Path(source.paths[0])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        parquet(folder / "0.parquet", n=[1])
        assert copy_of(world, code, source).start(spark, storage=world.storage).wait().error is None
        assert numbers(world, code) == [1]
