"""What a person is told of Spark's errors."""

from __future__ import annotations

from rekindle.spark.failures import BEFORE_EPOCH, translate

PLAN = f"""
=== Streaming Query ===
Identifier: x
Logical Plan:
Project [CASE WHEN (ts < 1970) THEN raise_error({BEFORE_EPOCH}:history:ts), NullType) does not exist]
"""


def test_the_guard_speaks_where_it_was_raised() -> None:
    known = translate(
        RuntimeError(f"[USER_RAISED_EXCEPTION] {BEFORE_EPOCH}:history:ts SQLSTATE: P0001{PLAN}"), "history"
    )

    assert known is not None
    assert (known.code, known.parameters) == ("EVENT_TIME_BEFORE_EPOCH", {"source": "history", "column": "ts"})


def test_what_merely_stands_in_the_plan_says_nothing_of_the_reason() -> None:
    assert (
        translate(RuntimeError(f"[STREAM_FAILED] terminated with exception: something else{PLAN}"), "history") is None
    )
