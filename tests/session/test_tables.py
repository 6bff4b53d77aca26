"""What a person is told of a table of Delta or Iceberg that cannot be read on. Needs no JVM."""

from __future__ import annotations

import pytest

from rekindle.session.failures import translate
from tests.session.test_failures import FromSpark, Java
from tests.session.test_servers import died_of

DELTA = "org.apache.spark.sql.delta.DeltaIllegalStateException"
ICEBERG = "org.apache.iceberg.spark.source.SyncSparkMicroBatchPlanner"
CHANGED = "Cannot process overwrite snapshot: 4948859647940222585, to ignore overwrites, set streaming-skip-…=true"


HISTORY, COLUMNS = "TABLE_NOT_CONTINUED", "TABLE_COLUMNS_CHANGED"


@pytest.mark.parametrize(
    ("condition", "code", "reason", "advice"),
    [
        (
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
            HISTORY,
            "Detected a data update (for example DELETE (Map(id = 7))) in the source table at version 1.",
            " This is currently not supported. Restart with a fresh checkpoint directory.",
        ),
        (
            "DELTA_SOURCE_IGNORE_DELETE",
            HISTORY,
            "Detected deleted data (for example a.parquet) from streaming source at version 3.",
            " This is currently not supported.",
        ),
        (
            "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
            HISTORY,
            "Delta stream cannot resume from version 1; transaction log starts at 6.",
            " Log files may have been deleted.",
        ),
        (
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            HISTORY,
            "The streaming query was reading from an unexpected Delta table (id = 'a').",
            " \nIt used to read from another Delta table.",
        ),
        (
            "DELTA_SCHEMA_CHANGED_WITH_VERSION",
            COLUMNS,
            "Detected schema change in version 1",
            ":\nstreaming source schema: root\n |-- id: long (nullable = true)",
        ),
        (
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
            COLUMNS,
            "Streaming read is not supported on tables with read-incompatible schema changes.",
            " Please provide a schema location.",
        ),
    ],
)
def test_a_table_of_delta_that_cannot_be_read_on_ends_the_job(
    condition: str, code: str, reason: str, advice: str
) -> None:
    said = Java(DELTA, f"[{condition}] {reason}{advice}", condition=condition)
    error = translate(died_of(said), lambda path: "orders")
    assert error is not None
    assert (error.code, error.permanent) == (code, True)
    assert error.parameters == {"source": "orders", "reason": reason}


@pytest.mark.parametrize("by", [ICEBERG, "org.apache.iceberg.relocated.com.google.common.base.Preconditions"])
def test_a_table_of_iceberg_that_cannot_be_read_on_ends_the_job(by: str) -> None:
    error = translate(died_of(Java("java.lang.IllegalStateException", CHANGED, by=by)), lambda path: "orders")
    assert error is not None
    assert (error.code, error.permanent) == ("TABLE_NOT_CONTINUED", True)
    assert error.parameters == {"source": "orders", "reason": CHANGED}


def test_what_a_sink_raised_of_iceberg_inside_a_batch_is_no_failure_of_a_source() -> None:
    assert translate(FromSpark(Java("java.lang.IllegalStateException", CHANGED, by=ICEBERG)), lambda path: "a") is None


@pytest.mark.parametrize(
    ("name", "condition", "by"),
    [
        ("org.apache.iceberg.exceptions.ServiceFailureException", "", ICEBERG),
        ("java.io.UncheckedIOException", "", ICEBERG),
        ("java.lang.IllegalStateException", "", "org.apache.spark.sql.execution.SparkPlan"),
        ("org.apache.spark.sql.delta.DeltaFileNotFoundException", "DELTA_EMPTY_DIRECTORY", ""),
    ],
)
def test_what_may_be_gone_later_is_tried_again(name: str, condition: str, by: str) -> None:
    assert translate(died_of(Java(name, "no", condition=condition, by=by)), lambda path: "orders") is None
