"""The sinks and channels of a subtask, without Spark: what becomes of a batch of which one part fails."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rekindle.errors import StorageError
from rekindle.runtime.steps import no_steps
from rekindle.sinks.writing import write_parquet
from rekindle.spark.output.outputs import Outputs, SubtaskPlace
from rekindle.spark.output.segments import SegmentWriter
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.fake_sink import FakeSink
from rekindle.testing.memory_store import MemoryStore

PLACE = SubtaskPlace(
    owner="job-1a2b", task="task", subtask=0, lineage=1, run=1, folder=layout.subtask("job", "task", 0, 1)
)


class Rows(list[int]):
    """What a batch evaluates to; Spark cannot write it into files."""

    def persist(self) -> Rows:
        """See Spark."""
        return self

    def unpersist(self) -> None:
        """See Spark."""


ROWS: Any = Rows([1, 2])


def away() -> None:
    raise RuntimeError("the server is away")


def test_what_other_sinks_have_prepared_is_taken_back_where_one_fails() -> None:
    first, second = FakeSink(), FakeSink()
    outputs = Outputs(PLACE, {"first": first, "second": second}, None, no_steps)
    second.before["prepare"] = away
    for _ in range(3):
        with pytest.raises(RuntimeError, match="the server is away"):
            outputs.prepare(ROWS, 7)
        assert first.staged == {}

    second.before.clear()
    prepared = outputs.prepare(ROWS, 7)
    assert [one["attempt"] for one in prepared.committables["first"]] == [*first.staged]
    assert len(first.staged) == len(second.staged) == 1


def test_what_sinks_have_prepared_is_taken_back_where_the_channel_fails() -> None:
    sink = FakeSink()
    writer = SegmentWriter(JobStorage(MemoryStore(), "job"), PLACE.folder, 1_000, 1)
    with pytest.raises(AttributeError, match="sparkSession"):
        Outputs(PLACE, {"out": sink}, writer, no_steps).prepare(ROWS, 7)
    assert sink.staged == {}


def test_a_sink_that_takes_nothing_back_hides_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    sinks = {"first": FakeSink(), "second": FakeSink(), "third": FakeSink()}

    def refuse() -> None:
        raise StorageError("STORAGE_UNAVAILABLE", uri="staging", reason="it is away, too")

    sinks["first"].before["abort"] = refuse
    sinks["third"].before["prepare"] = away
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError, match="the server is away"):
        Outputs(PLACE, sinks, None, no_steps).prepare(ROWS, 7)
    assert len(sinks["first"].staged) == 1 and sinks["second"].staged == {}
    [message] = caplog.messages
    assert message.startswith("What a failed batch has prepared in first is not removed yet") and "away" in message


class Failing:
    """A DataFrame of which Spark has written a file when a task of it fails."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @property
    def sparkSession(self) -> Any:  # noqa: N802 -- Spark's name
        """See Spark."""
        self._store.replace("staged/attempt/part-00000.parquet", b"PAR1")
        raise RuntimeError("a task has failed")


def test_the_files_of_a_write_that_failed_are_deleted() -> None:
    store = MemoryStore()
    store.replace("staged/other/part-00000.parquet", b"PAR1")
    frame: Any = Failing(store)
    with pytest.raises(RuntimeError, match="a task has failed"):
        write_parquet(frame, store, "staged/attempt")
    assert [entry.path for entry in store.walk("")] == ["staged/other/part-00000.parquet"]
