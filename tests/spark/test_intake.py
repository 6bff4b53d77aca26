"""Watermark rows of inputs that are idle, and of a history in the order of time: real inboxes, no Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import Marks, mark_for
from rekindle.channels.splits import Splits
from rekindle.protocol.clock import Silence
from rekindle.spark.inputs import Input
from rekindle.spark.intake import Intake
from rekindle.spark.times import Seen
from rekindle.storage import layout
from rekindle.storage.documents import BatchRecord, FrozenFile, InputPosition
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.memory import MemoryStore

FOLDER = "job/tasks/t/0/000001"
IDLE_AFTER_MS = 1_000


class Subtask:
    """A subtask with a stream `live`, one more that may be idle, and, if it is to have one, a history of files."""

    def __init__(self, *firsts_ms: int) -> None:
        self.store = MemoryStore()
        self.inputs = [self._stream("live", 10, None), self._stream("quiet", 50, Silence(IDLE_AFTER_MS))]
        if firsts_ms:
            self.inputs.append(self._history(firsts_ms))
        self.intake = Intake(self.inputs, -1)
        self.intake.open()
        self._batch = -1

    def _stream(self, uid: str, delay_ms: int, silence: Silence | None) -> Input:
        marks = Marks(self.store, layout.marks(FOLDER, uid), 1)
        return Input(
            uid=uid,
            frame=None,  # type: ignore[arg-type]
            position=InputPosition(),
            event_time="ts",
            marks=marks,
            delay_ms=delay_ms,
            silence=silence,
            observed=True,
        )

    def _history(self, firsts_ms: tuple[int, ...]) -> Input:
        files = [FrozenFile(path=f"file:///{first}", size=1, first_ms=first) for first in firsts_ms]
        splits = Splits(JobStorage(self.store, "job"), "splits", 1, files, 1, None, by_time=True)
        inbox = Inbox(self.store, layout.inbox(FOLDER, "history"), 4)
        feed = FileFeed(inbox, InputPosition(), AdmissionSizer(1, 1), splits, 0)
        marks = Marks(self.store, layout.marks(FOLDER, "history"), 5)
        history = Input(uid="history", frame=None, position=InputPosition(), bounded=True, feed=feed, marks=marks)  # type: ignore[arg-type]
        history.event_time = "ts"
        return history

    def batch(self, **met: tuple[int, int | None]) -> None:
        """A batch with so many rows, and their greatest time in ms, of some inputs; all that was admitted is read."""
        self._batch += 1
        positions = {}
        for item in self.inputs:
            mark = item.marks.inbox.last_admitted() if item.marks else -1
            at = item.feed.after(item.position.admission + 1) if item.feed else item.position
            positions[item.uid] = InputPosition(admission=at.admission, files=at.files, bytes=at.bytes, mark=mark)
        record = BatchRecord(batch=self._batch, offsets_hash="", run=1, inputs=positions)
        seen = {uid: Seen(rows, None, None if last is None else last * 1000) for uid, (rows, last) in met.items()}
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


def test_an_idle_stream_is_moved_along_with_the_other_from_the_moment_it_is_idle() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    assert not subtask.intake.ticked(0)
    assert not subtask.intake.ticked(IDLE_AFTER_MS - 1)
    assert subtask.marks("quiet") == []
    assert subtask.intake.ticked(IDLE_AFTER_MS)
    assert subtask.marks("quiet") == [quiet_at(1_000)]
    assert not subtask.intake.ticked(IDLE_AFTER_MS + 50), "there is nothing new to tell"
    subtask.batch(live=(1, 3_010))
    assert subtask.marks("quiet") == [quiet_at(1_000), quiet_at(3_000)]
    assert subtask.marks("live") == []


@pytest.mark.parametrize("last_ms", [9_000, None], ids=["a row", "a row without a time"])
def test_data_ends_it_at_once(last_ms: int | None) -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010), quiet=(1, 500))
    for now_ms in (0, IDLE_AFTER_MS):
        subtask.intake.ticked(now_ms)
    subtask.batch(live=(1, 2_010), quiet=(1, last_ms))
    subtask.batch(live=(1, 9_010))
    subtask.intake.ticked(IDLE_AFTER_MS + 50)
    assert subtask.marks("quiet") == [quiet_at(1_000)]


def test_a_late_row_takes_nothing_back() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.batch(live=(3, 700))
    for now_ms in (0, IDLE_AFTER_MS):
        subtask.intake.ticked(now_ms)
    assert subtask.marks("quiet") == [quiet_at(1_000)]


def test_a_query_that_is_started_anew_has_not_been_silent() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.intake.ticked(0)
    subtask.intake.open()
    assert not subtask.intake.ticked(IDLE_AFTER_MS)
    assert not subtask.intake.ticked(2 * IDLE_AFTER_MS), "it is idle, but the other has told nothing since"
    subtask.batch(live=(3, 2_010))
    assert subtask.marks("quiet") == [quiet_at(2_000)]


def test_a_query_that_is_held_is_given_nothing() -> None:
    subtask = Subtask()
    subtask.batch(live=(3, 1_010))
    subtask.intake.close()
    assert not subtask.intake.ticked(0)
    assert not subtask.intake.ticked(10 * IDLE_AFTER_MS)
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
    for now_ms in (0, IDLE_AFTER_MS):
        subtask.intake.ticked(now_ms)
    assert subtask.marks("quiet") == [quiet_at(199)]
