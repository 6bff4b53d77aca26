"""A function for each batch: what it is given, and what it cannot promise. A job with one is in `tests/jobs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.errors import SinkError
from rekindle.sinks import Foreach
from rekindle.testing.sink_contract import batch_of, permit


def test_the_function_is_given_each_attempt_at_once_and_nothing_is_left_to_commit() -> None:
    heard: list[Any] = []
    sink = Foreach(lambda df, batch: heard.append((df, batch.key)))
    sink.open("job-1234", "out")
    assert list(sink.prepare("rows", batch_of(7))) == []  # type: ignore[arg-type]
    assert list(sink.prepare("rows", batch_of(7, run=2, attempt="bb"))) == []  # type: ignore[arg-type]
    sink.commit([], permit())
    sink.abort([])
    assert heard == [("rows", "job-1234/out/t-1-0-000001-000000007")] * 2
    with pytest.raises(SinkError) as error:
        sink.commit([], None)  # type: ignore[arg-type]
    assert error.value.code == "PERMIT_REQUIRED"


@pytest.mark.parametrize(
    "other", [{"job": "j"}, {"sink": "s"}, {"task": "t"}, {"subtask": 1}, {"lineage": 2}, {"batch": 8}]
)
def test_no_other_batch_has_its_key(other: dict[str, Any]) -> None:
    assert replace(batch_of(7), **other).key != batch_of(7).key
