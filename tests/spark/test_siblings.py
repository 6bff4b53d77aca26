"""What is done once for all the subtasks of a task falls to the last of them."""

from __future__ import annotations

from rekindle.protocol.life import Call
from rekindle.spark.streaming.siblings import Siblings


def test_the_last_one_is_told_whatever_the_order() -> None:
    siblings = Siblings(3)
    assert [siblings.are_over(Call.FINISH, index) for index in (2, 0, 1)] == [False, False, True]
    assert [siblings.are_over(Call.CLOSE, index) for index in (1, 2, 0)] == [False, False, True]


def test_those_that_had_finished_before_this_driver_count_but_have_still_to_be_closed_here() -> None:
    siblings = Siblings(2, [1])
    assert siblings.are_over(Call.FINISH, 0)
    assert not siblings.are_over(Call.CLOSE, 0)


def test_one_that_tries_again_is_the_last_again() -> None:
    siblings = Siblings(2)
    siblings.are_over(Call.FINISH, 0)
    assert siblings.are_over(Call.FINISH, 1)
    assert siblings.are_over(Call.FINISH, 1)
