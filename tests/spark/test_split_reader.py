"""Reading a custom source split by split: whose turn it is, and what a read that fails leaves. Without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.inbox import Inbox
from rekindle.channels.split_feed import SplitFeed
from rekindle.errors import InputError
from rekindle.protocol.operator_state import StateKind
from rekindle.runtime.steps import no_steps
from rekindle.sinks.writing import WrittenFile
from rekindle.sources import SplitSource
from rekindle.spark.inputs.split_reader import Reads, SplitReader
from rekindle.storage import read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore

FOLDER = read_layout.reads("job/task", "source")


class Shelf(SplitSource):
    """Two splits, and how many rows the next reads of each find."""

    schema = "v int"
    poll_every = "5 seconds"

    def __init__(self, **rows: list[int]) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def splits(self) -> list[str]:
        return list(self.rows)

    def read(self, spark: Any, split: Any, position: Any) -> tuple[Any, Any, bool]:
        self.asked.append(split)
        count = self.rows[split].pop(0) if self.rows[split] else 0
        return range(count) if count else None, (position or 0) + count, False


def write(rows: range, _: T.StructType, store: MemoryStore, folder: str) -> list[WrittenFile]:
    store.replace(f"{folder}/part-0.parquet", b"rows")
    return [WrittenFile("part-0.parquet", len(rows), 4)]


def reading(
    spec: SplitSource, store: MemoryStore, clock: Callable[[], float] = lambda: 0.0, *, available_now: bool = False
) -> tuple[SplitReader, SplitFeed]:
    storage = JobStorage(store, "job")
    kinds = {name: StateKind(kind) for name, kind in spec.state.items()}
    splits = CustomSplits(storage, "job/task/splits", 1, 1, bounded=False, restored=None, kinds=kinds)
    inbox, sizer = Inbox(store, "job/task/inbox", 0), AdmissionSizer(1_000, 1)
    feed = SplitFeed(inbox, InputPosition(), sizer, storage, FOLDER, splits, 0)
    of = Reads(
        uid="source", subtask=0, spec=spec, spark=None, storage=storage, folder=FOLDER, run=1, steps=no_steps,
        splits=splits, feed=feed, columns=T.StructType(), clock=clock, write=write, available_now=available_now,
    )  # type: ignore[arg-type]  # fmt: skip
    return SplitReader(of), feed


def test_a_split_that_had_nothing_is_asked_again_although_another_always_has_rows() -> None:
    spec = Shelf(busy=[1] * 20, quiet=[0, 7])
    now = [0.0]
    reader, feed = reading(spec, MemoryStore(), lambda: now[0])
    for _ in range(10):
        read = reader.next()
        if read is not None:
            feed.stage(*read)
        now[0] += 1
    assert spec.rows["quiet"] == [], "its rows wait no longer than poll_every"
    assert spec.asked.count("quiet") <= 1 + 10 // 5, "and it is asked no more often than that"


@pytest.mark.parametrize("read_s", [0.1, 30.0])
def test_all_splits_rest_once_each_had_nothing_since_the_last_pause_however_long_a_round_takes(read_s: float) -> None:
    now = [0.0]
    shelf = Shelf(one=[], other=[])
    reader, _ = reading(shelf, MemoryStore(), lambda: now[0])
    for _ in range(3):
        assert reader.next() is None
        assert not reader.rests
        now[0] += read_s
        # One that is due again comes before one that was not asked yet.
        while not reader.rests:
            assert reader.next() is None
            now[0] += read_s
            assert now[0] < 1_000
        now[0] += 5
        reader.wake()


class Paged(Shelf):
    """Two splits whose pages may be empty before others that are not."""

    def has_caught_up(self, split: str, position: Any) -> bool:
        """See `SplitSource`."""
        return not self.rows[split]


def test_a_split_has_not_caught_up_while_its_source_says_that_more_of_what_is_there_comes() -> None:
    now = [0.0]
    reader, feed = reading(Paged(one=[0, 0, 3], other=[]), MemoryStore(), lambda: now[0], available_now=True)
    reader.discover()
    reader.state = reader.state.with_given(reader._of.splits.given_to(0))
    seen = []
    for _ in range(4):
        while not reader.rests:
            if read := reader.next():
                feed.stage(*read)
        seen.append(reader.has_caught_up)
        now[0] += 5
        reader.wake()
    assert seen == [False, False, True, True]


def test_a_read_that_two_threads_have_found_is_staged_once() -> None:
    """One hung in the user's function until it was given up, and the other has found what it had written."""
    store = MemoryStore()
    reader, feed = reading(Shelf(one=[2, 3]), store)
    read = reader.next()
    assert read is not None
    again = SplitReader(reader._of).next()
    assert again == read
    for each in (read, again):
        feed.stage(*each)
    assert (feed.frontier()[0], feed.newest) == (1, read[1])


class Keeping(Shelf):
    """A source that fails as it is asked for what it keeps."""

    state = {"kept": "list"}  # noqa: RUF012

    def initialize_state(self, state: Any) -> None:
        pass

    def snapshot_state(self) -> Any:
        raise OSError("the service is away")


def test_a_read_that_fails_behind_its_rows_leaves_none() -> None:
    store = MemoryStore()
    reader, _ = reading(Keeping(one=[1, 1]), store)
    for _ in range(2):
        with pytest.raises(InputError, match="the service is away"):
            reader.next()
    assert list(store.walk(FOLDER)) == []


def test_a_text_that_is_no_unicode_is_refused_by_the_name_of_its_source() -> None:
    with pytest.raises(InputError) as caught:
        reading(Shelf(**{"half\udc80": [1]}), MemoryStore())[0].next()
    assert caught.value.code == "SPLIT_READ_INVALID"
