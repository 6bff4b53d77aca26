"""The sources of a subtask have caught up: each kind by its own sign, and none before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rekindle.spark.inputs.catching_up import CatchingUp
from rekindle.spark.inputs.input import Input
from rekindle.storage.documents.batch import BatchRecord, InputPosition


class Caught:
    """A subtask with two streams, `a` and `b`; it notes what is bound, and how often it has caught up."""

    def __init__(self, *, unbound: Collection[int] = (), is_wanted: bool = True) -> None:
        frame: Any = None
        self.bound: list[Collection[int]] = []
        self.times = 0
        self._unbound = unbound
        inputs = [
            Input(uid=uid, frame=frame, position=InputPosition(), spark_sources=(number,))
            for number, uid in enumerate("ab")
        ]
        self.of = CatchingUp(inputs, is_wanted=is_wanted, bind=self._bind, caught_up=self._note)

    def _bind(self, numbers: Collection[int]) -> Collection[int]:
        self.bound.append(numbers)
        return self._unbound

    def _note(self) -> None:
        self.times += 1

    def batch(self, number: int, *offsets: int) -> int:
        """Run a batch that reads the streams to these offsets; return how often it has caught up."""
        self.of.batch()
        inputs = {uid: InputPosition(offset=offset) for uid, offset in zip("ab", offsets, strict=True)}
        self.of.recorded(BatchRecord(batch=number, offsets_hash="", run=1, inputs=inputs))
        return self.times


def test_a_stream_has_caught_up_when_a_later_batch_has_nothing_of_it() -> None:
    caught = Caught()
    assert caught.batch(0, 1, 1) == 0
    assert caught.batch(1, 2, 1) == 0, "of the first there was more"
    assert caught.batch(2, 2, 1) == 1
    assert caught.bound == [[0, 1]], "once"


def test_one_that_cannot_be_bound_has_caught_up_after_a_batch_that_was_planned_since() -> None:
    caught = Caught(unbound={0, 1})
    assert caught.batch(0, 1, 1) == 0, "it may have been planned by an earlier run"
    assert caught.batch(1, 2, 2) == 1


def test_all_have_caught_up_when_a_look_finds_nothing() -> None:
    caught = Caught()
    assert caught.of.listener is not None
    caught.of.listener()
    assert caught.times == 1


def test_a_query_that_is_started_again_asks_them_again() -> None:
    caught = Caught()
    caught.batch(0, 1, 1)
    caught.of.begin()
    assert caught.batch(1, 1, 1) == 0
    assert caught.bound == [[0, 1], [0, 1]]


def test_in_any_other_run_nothing_is_bound_and_no_one_hears_of_it() -> None:
    caught = Caught(is_wanted=False)
    caught.batch(0, 1, 1)
    assert caught.batch(1, 1, 1) == 0
    assert caught.bound == [] and caught.of.listener is None
