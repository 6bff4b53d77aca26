"""Watermark rows of inputs that are idle, and of a history in the order of time: real inboxes, no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import Marks, mark_for
from rekindle.channels.splits import Splits
from rekindle.protocol.clock import IdleTimer
from rekindle.spark.inputs.event_times import EventTimeStats
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.intake import Intake
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, InputPosition
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/000001"
IDLE_AFTER_MS = 1_000


class Subtask:
    """A subtask with a stream `live`, one more that may be idle, and, if it is to have one, a history of files."""

    def __init__(self, *firsts_ms: int, by_time: bool = True, holding: bool = False) -> None:
        self.store = MemoryStore()
        self.inputs = [self._stream("live", 10, None), self._stream("quiet", 50, IdleTimer(IDLE_AFTER_MS))]
        if firsts_ms:
            self.inputs.append(self._history(firsts_ms, by_time=by_time))
        self.intake = Intake(self.inputs, -1)
        self.intake.open(holding=holding)
        self._batch = -1

    def _stream(self, uid: str, delay_ms: int, silence: IdleTimer | None) -> Input:
        marks = Marks(self.store, layout.marks(FOLDER, uid), 1)
        return Input(
            uid=uid,
            frame=None,  # type: ignore[arg-type]
            position=InputPosition(),
            event_time="ts",
            marks=marks,
            delay_ms=delay_ms,
            idle_timer=silence,
            observed=True,
        )

    def _history(self, firsts_ms: tuple[int, ...], *, by_time: bool) -> Input:
        files = [FrozenFile(path=f"file:///{first}", size=1, first_ms=first) for first in firsts_ms]
        splits = Splits(JobStorage(self.store, "job"), "splits", 1, files, 1, None, by_time=by_time)
        inbox = Inbox(self.store, layout.inbox(FOLDER, "history"), 4)
        feed = FileFeed(inbox, InputPosition(), AdmissionSizer(1, 1), splits, 0)
        marks = Marks(self.store, layout.marks(FOLDER, "history"), 5)
        history = Input(uid="history", frame=None, position=InputPosition(), bounded=True, feed=feed, marks=marks)  # type: ignore[arg-type]
        history.event_time = "ts"
        return history

    def batch(self, offsets: Mapping[str, int] | None = None, /, **met: tuple[int, int | None]) -> None:
        """A batch with so many rows, and their greatest time in ms, of some inputs; all that was admitted is read."""
        self._batch += 1
        positions = {}
        for item in self.inputs:
            mark = item.marks.inbox.last_admitted() if item.marks else -1
            at = item.feed.after(item.position.admission + item.feed.waiting) if item.feed else item.position
            offset = (offsets or {}).get(item.uid, item.position.offset)
            positions[item.uid] = replace(at, mark=mark, offset=offset)
        record = BatchRecord(batch=self._batch, offsets_hash="", run=1, inputs=positions)
        seen = {
            uid: EventTimeStats(rows, None, None if last is None else last * 1000) for uid, (rows, last) in met.items()
        }
        self.intake.recorded(record, 1_000_000, seen)

    def marks(self, uid: str) -> list[int]:
        """Event times of an input's marks, microseconds, in order."""
        folder = layout.mark_rows(layout.marks(FOLDER, uid))
        tables = [
            pq.read_table(pa.BufferReader(self.store.read(f"{folder}/{one}"))) for one in self.store.names(folder)
        ]
        return [table.column(0).cast(pa.int64())[0].as_py() for table in tables]


def quiet_at(watermark_ms: int) -> int:
    """The event time that moves `quiet` there."""
    return (watermark_ms + 50) * 1000


NO_MOVE = 50 * 1000
"""The event time of a mark that moves `quiet` to 1970, where Spark's watermarks begin."""


def silent(subtask: Subtask, from_ms: int = 0) -> bool:
    """Let as much time pass as a stream may be silent; return whether the query has to look."""
    assert not subtask.intake.ticked(from_ms, resting=True)
    assert not subtask.intake.ticked(from_ms + IDLE_AFTER_MS - 1, resting=True)
    return subtask.intake.ticked(from_ms + IDLE_AFTER_MS, resting=True)


def test_an_idle_stream_is_moved_along_with_the_other_once_a_batch_has_proven_it() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    assert silent(subtask)
    assert subtask.marks("quiet") == [NO_MOVE], "it is asked for in a batch, and nothing is moved"
    assert not subtask.intake.ticked(IDLE_AFTER_MS + 50, resting=True), "once is enough"
    subtask.batch()
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(1_000)]
    subtask.batch(live=(1, 3_010))
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(1_000), quiet_at(3_000)]
    assert subtask.marks("live") == []


def test_a_batch_that_ran_when_its_time_was_up_proves_nothing() -> None:
    """Its rows may have come while it ran, and may be in it: how long it takes is nobody's silence."""
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    for now_ms in (0, 10 * IDLE_AFTER_MS):
        assert not subtask.intake.ticked(now_ms, resting=False)
    subtask.batch(live=(3, 9_010))
    assert subtask.marks("quiet") == [NO_MOVE], "the next one is asked"
    subtask.batch(live=(3, 9_020), quiet=(100, 600))
    subtask.batch(live=(3, 9_030))
    assert subtask.marks("quiet") == [NO_MOVE]


def test_rows_in_the_batch_that_was_to_prove_it_show_that_it_was_none() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    assert silent(subtask)
    subtask.batch(live=(1, 9_010), quiet=(1, 600))
    assert subtask.marks("quiet") == [NO_MOVE]
    assert silent(subtask, 5_000), "it counts from the start"


@pytest.mark.parametrize("offset", [3, 4], ids=["where it stood", "further on"])
def test_where_a_batch_does_not_tell_its_rows_what_spark_has_read_of_the_stream_does(offset: int) -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    subtask.inputs[1].position = replace(subtask.inputs[1].position, offset=3)
    assert silent(subtask)
    subtask.batch({"quiet": offset}, live=(1, 9_010))
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(9_000)][: 2 if offset == 3 else 1]


@pytest.mark.parametrize("last_ms", [9_000, None], ids=["a row", "a row without a time"])
def test_data_ends_it_at_once(last_ms: int | None) -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    silent(subtask)
    subtask.batch(quiet=(0, None))
    subtask.batch(live=(1, 2_010), quiet=(1, last_ms))
    subtask.batch(live=(1, 9_010))
    subtask.intake.ticked(IDLE_AFTER_MS + 50, resting=True)
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(1_000)]


def test_a_late_row_takes_nothing_back() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.batch(live=(3, 700))
    silent(subtask)
    subtask.batch()
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(1_000)]


def test_a_query_that_is_started_again_has_not_been_silent() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.intake.ticked(0, resting=True)
    subtask.intake.open()
    assert silent(subtask, IDLE_AFTER_MS)
    subtask.batch()
    assert subtask.marks("quiet") == [NO_MOVE], "it is idle, but the other has told nothing since"
    subtask.batch(live=(3, 2_010))
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(2_000)]


def test_a_query_that_is_held_is_given_nothing() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.intake.close()
    assert not subtask.intake.ticked(0, resting=True)
    assert not subtask.intake.ticked(10 * IDLE_AFTER_MS, resting=True)
    assert subtask.marks("quiet") == []


def test_a_history_in_order_is_followed_to_the_least_time_that_no_record_covers() -> None:
    subtask = Subtask(100, 200, 300)
    seen = [subtask.marks("history")]
    for _ in range(2):
        subtask.batch()
        seen.append(subtask.marks("history"))
    told = [mark_for((first - 1) * 1000) for first in (100, 200, 300)]
    assert seen == [told[:1], told[:2], told]


def test_an_idle_stream_is_not_moved_beyond_a_history_in_order() -> None:
    subtask = Subtask(100, 200, 300)
    subtask.batch(live=(1, 9_010))
    silent(subtask)
    subtask.batch(quiet=(0, None))
    assert subtask.marks("quiet") == [NO_MOVE, quiet_at(299)]


@pytest.mark.parametrize(("by_time", "watermark_ms"), [(True, 4_999), (False, 0)])
def test_a_first_batch_without_the_history_has_a_watermark_row_of_it_alone(by_time: bool, watermark_ms: int) -> None:
    subtask = Subtask(5_000, by_time=by_time, holding=True)
    *_, history = subtask.inputs
    assert history.feed is not None
    assert not history.feed.waiting
    assert subtask.marks("history") == [mark_for(watermark_ms * 1000)]

    subtask.batch()

    assert history.feed.waiting
