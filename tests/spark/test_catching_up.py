"""A subtask has caught up: each source by its own sign, then what follows from the last rows, and none before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.spark.inputs.catching_up import CatchingUp, CaughtUpAt
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.progress import Progress
from rekindle.storage.documents.batch import BatchRecord, InputPosition

PRODUCER = SubtaskId("p", 0)


class Caught:
    """A subtask with two streams, `a` and `b`; it notes what is bound, and when it has caught up."""

    def __init__(self, *, unbound: Collection[int] = (), is_wanted: bool = True, streams: str = "ab") -> None:
        frame: Any = None
        self.bound: list[Collection[int]] = []
        self.told: list[Progress] = []
        self.nudges = 0
        self.read = 0
        self.waits = False
        #: looks that are under way
        self.looks: list[Callable[[int], None]] = []
        self._unbound, self._streams, self._batch = unbound, streams, -1
        inputs = [
            Input(uid=uid, frame=frame, position=InputPosition(), spark_sources=(number,))
            for number, uid in enumerate(streams)
        ]
        producer: Any = SimpleNamespace(ended_by=lambda batches: False)
        channel = Input(uid="p", frame=frame, position=InputPosition(), producers={0: producer})
        self.caught_up_at = CaughtUpAt()
        self.of = CatchingUp(
            [*inputs, channel],
            is_wanted=is_wanted,
            bind=self._bind,
            caught_up=self.told.append,
            subtask=SubtaskId("c", 0),
            caught_up_at=self.caught_up_at,
        )
        self.of.reached = lambda: (Progress(self._batch, {PRODUCER: self.read}), not self.waits)
        self.of.nudge = self._nudge

    def _nudge(self) -> None:
        self.nudges += 1

    def _bind(self, numbers: Collection[int]) -> Collection[int]:
        self.bound.append(numbers)
        return self._unbound

    def begun(self) -> None:
        """Let its query run."""
        self.of.begun(self.looks.append)

    def batch(self, *offsets: int, watermark_ms: int = 0) -> list[Progress]:
        """Run a batch that reads the streams to these offsets; return the words that it has caught up."""
        self.of.batch()
        self._batch += 1
        inputs = {uid: InputPosition(offset=offset) for uid, offset in zip(self._streams, offsets, strict=True)}
        self.of.recorded(
            BatchRecord(batch=self._batch, offsets_hash="", run=1, inputs=inputs, watermark_ms=watermark_ms)
        )
        return self.told

    def finds_nothing(self, watermark_ms: int = 0) -> list[Progress]:
        """End the oldest look; return the words that it has caught up."""
        self.looks.pop(0)(watermark_ms)
        return self.told


def test_all_of_a_stream_is_read_when_a_later_batch_has_nothing_of_it() -> None:
    caught = Caught()
    caught.begun()
    caught.batch(1, 1)
    caught.batch(2, 1)  # of the first there was more
    assert caught.batch(2, 1) == [], "a batch without data may follow"
    assert caught.batch(2, 1) == [Progress(3, {PRODUCER: 0})]
    assert caught.bound == [[0, 1]], "once"


def test_one_that_cannot_be_bound_is_read_after_a_batch_that_was_planned_since() -> None:
    caught = Caught(unbound={0, 1})
    caught.batch(1, 1)  # it may have been planned by an earlier run
    assert caught.batch(2, 2) == []
    assert caught.batch(3, 3) == [Progress(2, {PRODUCER: 0})]


def test_it_has_caught_up_when_a_look_after_all_was_read_finds_nothing() -> None:
    caught = Caught()
    caught.begun()
    assert caught.finds_nothing() == [], "it may have begun before all was read"
    assert caught.finds_nothing() == [Progress(-1, {PRODUCER: 0})]
    assert caught.looks == []


def test_what_is_on_its_way_is_waited_for() -> None:
    caught = Caught()
    caught.begun()
    caught.waits = True
    assert caught.finds_nothing() == [] and caught.looks == []
    caught.waits = False
    assert caught.batch(1, 1) == [], "it has read what was on its way"
    assert caught.finds_nothing() == [Progress(0, {PRODUCER: 0})]


def test_it_catches_up_again_once_more_of_a_channel_is_read() -> None:
    caught = Caught(streams="")
    caught.begun()
    caught.finds_nothing()
    caught.finds_nothing()
    caught.read = 1
    caught.of.moved()
    assert len(caught.told) == 1
    assert caught.finds_nothing()[1:] == [Progress(-1, {PRODUCER: 1})]


def test_a_look_that_began_before_more_was_read_counts_for_nothing() -> None:
    caught = Caught(streams="")
    caught.begun()
    caught.finds_nothing()
    caught.read = 1
    caught.of.moved()
    assert len(caught.looks) == 1, "one at a time"
    assert caught.finds_nothing() == []
    assert caught.finds_nothing() == [Progress(-1, {PRODUCER: 1})]


def test_it_is_nudged_where_its_last_record_does_not_say_how_late_it_is() -> None:
    caught = Caught(streams="")
    caught.begun()
    caught.batch(watermark_ms=5)
    caught.finds_nothing(watermark_ms=9)
    assert caught.nudges == 1
    caught.batch(watermark_ms=9)
    assert caught.finds_nothing(watermark_ms=9) == [Progress(1, {PRODUCER: 0})]
    assert caught.nudges == 1


def test_a_query_that_is_started_again_asks_them_again() -> None:
    caught = Caught()
    caught.begun()
    caught.batch(1, 1)
    caught.of.begin()
    assert caught.batch(1, 1) == [] and caught.finds_nothing() == [], "the look was of the query before"
    assert caught.bound == [[0, 1], [0, 1]]


def test_where_more_is_always_on_its_way_it_has_to_read_what_was_there_when_its_producers_had_caught_up() -> None:
    caught = Caught(streams="")
    caught.begun()
    caught.waits = True
    for caught.read in (2, 4, 6):
        assert caught.batch() == [], "its producer has not caught up"
    caught.caught_up_at.note(PRODUCER, 6)
    assert [caught.batch() for _ in range(9)] == [[]] * 9, "7 batches were written by then"
    for caught.read in (7, 9, 11, 13):
        assert caught.batch() == [], "what follows from the seventh may be on its way"
    caught.read = 15
    assert caught.batch() == [Progress(16, {PRODUCER: 15})]
    caught.read = 17
    assert len(caught.batch()) == 1, "that was enough"
    caught.caught_up_at.note(PRODUCER, 20)
    for caught.read in (21, 23, 25, 27, 29):
        caught.batch()
    assert caught.told[1:] == [Progress(22, {PRODUCER: 29})], "its producer has begun again"


def test_what_is_read_after_enough_was_read_counts_for_nothing() -> None:
    """Else the tasks that read this one would have to read more and more."""
    caught = Caught(streams="")
    caught.begun()
    caught.caught_up_at.note(PRODUCER, 0)
    caught.read = 1
    caught.batch()
    caught.batch()
    for caught.read in range(2, 9):
        caught.batch()
    assert caught.told == [Progress(1, {PRODUCER: 1})]


def test_in_any_other_run_nothing_is_bound_and_no_one_hears_of_it() -> None:
    caught = Caught(is_wanted=False)
    caught.begun()
    assert [caught.batch(1, 1) for _ in range(4)] == [[]] * 4
    assert caught.bound == [] and caught.looks == []
