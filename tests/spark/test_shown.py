"""What is shown of a subtask, made of Spark's report."""

from __future__ import annotations

import pytest

from rekindle.spark.query.flush import END_OF_TIME_MS
from rekindle.spark.streaming.shown import watermark_ms


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (None, None),
        ("1970-01-01T00:00:00.000Z", None),
        ("2025-01-01T00:00:00.500Z", 1_735_689_600_500),
        ("+12004-02-23T23:59:50.000Z", END_OF_TIME_MS),
        ("12004-02-23T23:59:50.000Z", END_OF_TIME_MS),  # Spark 3.5
    ],
)
def test_a_watermark_is_shown_however_spark_writes_it(written: str | None, shown: int | None) -> None:
    assert watermark_ms({"eventTime": {"watermark": written} if written else {}}) == shown
