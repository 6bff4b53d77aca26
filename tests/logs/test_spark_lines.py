"""Spark's log, read while it is written, rotated and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.logs.lines import LineMaker
from rekindle.logs.spark_lines import READ_BYTES, SparkLines, SparkLog
from rekindle.redaction import Redaction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bids.log"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def reading(path: Path, begins: int = 0, read_bytes: int = READ_BYTES) -> SparkLines:
    return SparkLines(lambda: SparkLog(str(path), begins), LineMaker(Redaction()), read_bytes)


def said(log: SparkLines) -> list[tuple[str, str, str]]:
    """What is new, the last line too: the second look finds that nothing more comes."""
    return [(one.level, one.message, one.trace) for one in (*log.new(), *log.new())]


def test_lines_come_once_each_with_their_traces(path: Path) -> None:
    log = reading(path)
    assert said(log) == []
    append(path, "2026-11-23 02:00:00 WARN TaskSetManager: Lost task\njava.lang.X: boom\n\tat a.b.C\n")
    append(path, "2026-11-23 02:00:01 ERROR Executor: Exc")
    assert said(log) == [("WARNING", "Lost task", "java.lang.X: boom\n\tat a.b.C")]
    append(path, "eption in task\n")
    assert said(log) == [("ERROR", "Exception in task", "")]
    assert said(log) == []


def test_what_was_in_the_file_before_is_of_another_run(path: Path) -> None:
    append(path, "2026-11-22 02:00:00 WARN A: old\n")
    log = reading(path, begins=path.stat().st_size)
    append(path, "2026-11-23 02:00:00 WARN A: new\n")

    assert said(log) == [("WARNING", "new", "")]


def test_a_file_that_is_rotated_is_read_to_its_end_and_then_the_next(path: Path) -> None:
    log = reading(path)
    append(path, "2026-11-23 02:00:00 WARN A: one\n")
    assert [message for _, message, _ in said(log)] == ["one"]
    append(path, "2026-11-23 02:00:00 WARN A: two\n")
    path.rename(path.with_suffix(".log.1"))
    append(path, "2026-11-23 02:00:00 WARN A: three\n")

    assert [message for _, message, _ in (*said(log), *said(log))] == ["two", "three"]
    path.write_text("")
    path.write_text("2026-11-23 02:00:00 WARN A: 4\n")  # shorter: somebody has emptied it
    assert [message for _, message, _ in said(log)] == ["4"]


def test_of_a_flood_the_end_is_read(path: Path) -> None:
    log = reading(path, read_bytes=1_000)
    append(path, "".join(f"2026-11-23 02:00:00 WARN A: line {number}\n" for number in range(10_000)))
    messages = [message for _, message, _ in said(log)]

    assert messages[-1] == "line 9999"
    assert len(messages) < 50
    append(path, "x" * 100_000)  # a line without an end
    assert said(log) == []
    append(path, "\n2026-11-23 02:00:00 WARN A: goes on\n")
    assert [message for _, message, _ in (*said(log), *said(log))] == ["goes on"]
