"""What a person is told of Spark's errors: by their classes and conditions, never by their words. Needs no JVM."""

# ruff: noqa: N802
from __future__ import annotations

from typing import Any

import pytest

from rekindle.errors import RekindleError
from rekindle.session.failures import (
    AFTER_9999,
    BEFORE_EPOCH,
    brief,
    is_of_newer_spark,
    is_of_other_query,
    is_same_file,
    task_failed,
    translate,
)
from rekindle.session.links import chain

PATH = "file:///data/history/a%20b.parquet"
TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 7, in work\n    raise\n'


class Java:
    """An exception of the JVM."""

    def __init__(
        self, name: str, message: str, *, condition: str = "", cause: Java | None = None, path: str = "", by: str = ""
    ) -> None:
        self.name, self.message, self.condition, self.cause, self.path, self.by = (
            name,
            message,
            condition,
            cause,
            path,
            by,
        )

    def getClass(self) -> Java:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str:
        return self.message

    def getErrorClass(self) -> str:
        return self.condition

    def getMessageParameters(self) -> dict[str, str]:
        return {"path": self.path} if self.path else {}

    def getStackTrace(self) -> list[Java]:
        return [self]

    def getClassName(self) -> str:
        return self.by

    def getCause(self) -> Java | None:
        return self.cause


class FromSpark(Exception):
    """As PySpark raises it."""

    def __init__(self, java: Java) -> None:
        super().__init__(java.message)
        self._origin = java


def reading(cause: Java, condition: str = "FAILED_READ_FILE.NO_HINT", path: str = PATH) -> FromSpark:
    wrapped = Java(
        "org.apache.spark.SparkException", "Encountered an error", condition=condition, cause=cause, path=path
    )
    return FromSpark(Java("org.apache.spark.SparkException", "Job aborted", cause=wrapped))


def history(path: str) -> str | None:
    return "history" if is_same_file(path, "/data/history/a b.parquet") else None


def code(error: BaseException) -> str | None:
    known = translate(error, history)
    return known.code if isinstance(known, RekindleError) else None


@pytest.mark.parametrize(
    ("cause", "condition", "expected"),
    [
        (Java("java.io.FileNotFoundException", "File x"), "FAILED_READ_FILE.FILE_NOT_EXIST", "FILE_VANISHED"),
        (Java("java.io.FileNotFoundException", "x (Permission denied)"), "FAILED_READ_FILE.NO_HINT", "FILE_UNREADABLE"),
        (Java("java.lang.RuntimeException", "x", by="org.apache.parquet.hadoop.R"), "FAILED_READ_FILE", "FILE_DAMAGED"),
        (Java("org.apache.orc.FileFormatException", "x"), "_LEGACY_ERROR_TEMP_2064", "FILE_DAMAGED"),
        (
            Java("java.net.URISyntaxException", "Relative path in absolute URI: .a:b.parquet.crc: 0"),
            "FAILED_READ_FILE.NO_HINT",
            "FILE_NAME_UNSUPPORTED",
        ),
        (Java("java.io.EOFException", "does not exist"), "FAILED_READ_FILE.NO_HINT", "FILE_UNREADABLE"),
        (Java("x.SchemaColumnConvertNotSupportedException", "x"), "_LEGACY_ERROR_TEMP_2063", "SCHEMA_MISMATCH"),
        (
            Java("x.SparkException", "x", condition="MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
            "FAILED_READ_FILE.NO_HINT",
            "MALFORMED_ROW",
        ),
    ],
)
def test_what_is_wrong_with_a_file_of_a_source_is_known_by_classes_and_conditions(
    cause: Java, condition: str, expected: str
) -> None:
    assert code(reading(cause, condition)) == expected


@pytest.mark.parametrize(
    ("link", "newer", "other"),
    [
        (Java("x.SparkIllegalStateException", "x", condition="INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"), True, False),
        (Java("java.lang.IllegalStateException", "x", by="org.apache.MetadataVersionUtil$"), True, False),
        (Java("java.lang.IllegalStateException", "UnsupportedLogVersion", by="jobs.Customer"), False, False),
        (Java("java.lang.AssertionError", "x", by="org.apache.spark.sql.execution.streaming.OffsetSeq"), False, True),
        (Java("java.lang.AssertionError", "sources in the checkpoint offsets", by="jobs.Customer"), False, False),
        (Java("x.SparkException", "x", condition="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"), False, True),
        (Java("x.StateSchemaNotCompatible", "x"), False, True),
        (Java("x.SparkException", "x", condition="STATE_STORE_INVALID_CONFIG_AFTER_RESTART"), False, True),
        (Java("x.SparkException", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"), False, False),
    ],
)
def test_a_checkpoint_of_another_spark_or_another_query_is_known_by_classes_and_conditions(
    link: Java, newer: bool, other: bool
) -> None:
    links = chain(FromSpark(Java("x.SparkException", "x", condition="STREAM_FAILED", cause=link)))
    assert (is_of_newer_spark(links), is_of_other_query(links)) == (newer, other)


class Status(Java):
    """What RocksDB knows of an exception."""

    def getStatus(self) -> Status:
        return self

    def getSubCode(self) -> str:
        return "NoSpace" if self.condition == "NoSpace" else "None"

    def getReason(self) -> str:
        return "No space left on device"

    def getErrorClass(self) -> str:
        return ""


NO_ROOM = "No space left on device"


@pytest.mark.parametrize(
    ("cause", "full"),
    [
        (Java("java.io.IOException", NO_ROOM, by="java.io.FileOutputStream"), True),
        (Java("java.io.IOException", "Disk quota exceeded", by="sun.nio.ch.FileDispatcherImpl"), True),
        (Status("java.nio.file.FileSystemException", "/tmp/x: No space left on device"), True),
        (Status("org.rocksdb.RocksDBException", "While appending", condition="NoSpace"), True),
        (Status("org.rocksdb.RocksDBException", NO_ROOM), False),
        (Java("java.io.IOException", NO_ROOM, by="com.example.Warehouse"), False),
        (Java("java.io.IOException", "No space left on device for customer 7", by="java.io.X"), False),
        (Java("java.lang.IllegalStateException", NO_ROOM, by="java.io.FileOutputStream"), False),
    ],
)
def test_a_full_disk_is_known_by_what_the_system_has_raised(cause: Java, full: bool) -> None:
    error = FromSpark(
        Java("x.SparkException", "x", condition="STREAM_FAILED", cause=Java("x.FSError", "x", cause=cause))
    )
    assert code(error) == ("STORAGE_FULL" if full else None)
    assert not task_failed(Any, error, history).permanent  # type: ignore[arg-type]


def test_a_full_disk_in_a_users_own_function_keeps_the_users_words() -> None:
    said = f"{TRACEBACK}OSError: [Errno 28] {NO_ROOM}\n"
    error = FromSpark(Java("org.apache.spark.api.python.PythonException", said))
    assert code(error) is None
    assert brief(error) == f"OSError: [Errno 28] {NO_ROOM}"


def test_a_processor_s_worker_that_cannot_begin_says_why() -> None:
    condition = "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE"
    said = (
        f"[{condition}] Streaming Runner initialization failed, returned -2. Cause: {TRACEBACK}ModuleNotFoundError: x\n"
    )
    error = FromSpark(Java("org.apache.spark.api.python.StreamingPythonRunner$X", said, condition=condition))
    assert brief(error) == "ModuleNotFoundError: x"


@pytest.mark.parametrize(
    "words", ["customer 7 does not exist", "CORRUPT", "Permission denied", "404: FAILED_READ_FILE.FILE_NOT_EXIST"]
)
def test_the_words_of_a_users_error_do_not_rename_it(words: str) -> None:
    said = (
        f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {TRACEBACK}jobs.work.NoCustomer: {words}\n"
    )
    raised = Java("org.apache.spark.api.python.PythonException", said, condition="PYTHON_EXCEPTION")
    for error in (
        FromSpark(Java(raised.name, f"{TRACEBACK}jobs.work.NoCustomer: {words}\n")),
        FromSpark(raised),
        FromSpark(Java("org.apache.spark.SparkException", "x", condition="TASK_WRITE_FAILED", cause=raised)),
        reading(raised, "FAILED_READ_FILE.FILE_NOT_EXIST"),
    ):
        assert code(error) is None
        assert brief(error) == f"NoCustomer: {words}"
        assert not task_failed(Any, error, history).permanent  # type: ignore[arg-type]
    in_sql = Java("org.apache.spark.SparkRuntimeException", words, condition="USER_RAISED_EXCEPTION")
    assert code(FromSpark(in_sql)) is None
    assert code(OSError(words)) is None
    assert brief(OSError(words)) == f"OSError: {words}"


def test_an_error_that_cannot_say_what_it_is_has_the_name_of_its_class() -> None:
    class SpeechlessError(Exception):
        def __str__(self) -> str:
            raise KeyError("reason")

    assert brief(SpeechlessError()) == "SpeechlessError"


def test_a_file_that_is_no_sources_is_left_in_sparks_words() -> None:
    gone = Java("java.io.FileNotFoundException", "File /data/prices/1 does not exist")
    error = reading(gone, path="file:///data/prices/1")
    assert code(error) is None
    assert brief(error) == "FileNotFoundException: File /data/prices/1 does not exist"


def test_the_innermost_cause_is_shown_and_not_what_wraps_it() -> None:
    full = Java("java.io.IOException", "No space left on device")
    write = Java("org.apache.spark.SparkException", "[TASK_WRITE_FAILED] x", condition="TASK_WRITE_FAILED", cause=full)
    assert brief(FromSpark(write)) == "IOException: No space left on device"
    malformed = Java("x.SparkException", "[MALFORMED] [null,y].\nMode", condition="MALFORMED", cause=full)
    assert brief(FromSpark(malformed)) == "[MALFORMED] [null,y]."
    parsed = Java("x.ParseException", "\n[SYNTAX] Error near 'x'. SQLSTATE: 42601\n\n== SQL ==", condition="SYNTAX")
    assert brief(FromSpark(parsed)) == "[SYNTAX] Error near 'x'."
    failed = Java("java.lang.AssertionError", "assertion failed: No continuous partitions in state: Array(0, 0)")
    words = "[INTERNAL_ERROR] The Spark SQL phase planning failed with an internal error."
    planning = Java("x.SparkException", words, condition="INTERNAL_ERROR", cause=failed)
    assert brief(FromSpark(planning)) == f"AssertionError: {failed.message}"
    alone = Java("x.SparkException", words, condition="INTERNAL_ERROR")
    assert brief(FromSpark(alone)) == f"SparkException: {words}"


@pytest.mark.parametrize(
    "link",
    [
        Java("x.SparkRuntimeException", "", condition="USER_RAISED_EXCEPTION"),
        Java("java.lang.RuntimeException", ""),
    ],
)
@pytest.mark.parametrize("column", ["ts", "Event Time", "a:b", "two\nlines"])
@pytest.mark.parametrize("what", [BEFORE_EPOCH, AFTER_9999])
def test_the_guard_speaks_where_it_was_raised(link: Java, column: str, what: str) -> None:
    said = f"[USER_RAISED_EXCEPTION] {what}:history:{column} SQLSTATE: P0001" if link.condition else ""
    link.message = said or f"{what}:history:{column}"
    known = translate(FromSpark(Java("x.StreamingQueryException", "x", condition="STREAM_FAILED", cause=link)), history)
    assert known is not None
    assert f"REKINDLE_{known.code}" == what
    assert known.parameters == {"source": "history", "column": column}


def test_what_merely_stands_in_the_plan_says_nothing_of_the_reason() -> None:
    plan = f"=== Streaming Query ===\nProject [raise_error({BEFORE_EPOCH}:history:ts), NullType) does not exist]"
    assert code(FromSpark(Java("x.StreamingQueryException", plan, condition="STREAM_FAILED"))) is None


@pytest.mark.parametrize(
    "link",
    [
        Java(
            "x.state.StateStoreValueSchemaNotCompatible", "[A] x", condition="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
        ),
        Java("x.state.StateSchemaNotCompatible", "Provided schema doesn't match"),
    ],
)
def test_state_that_another_query_has_left_is_permanent(link: Java) -> None:
    error = FromSpark(Java("x.StreamingQueryException", "x", condition="STREAM_FAILED", cause=link))
    assert code(error) == "STATE_SCHEMA_INCOMPATIBLE"
    assert task_failed(Any, error, history).permanent  # type: ignore[arg-type]
