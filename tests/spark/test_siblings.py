"""What is done once for all the subtasks of a task falls to the last of them."""

from __future__ import annotations

from rekindle.spark.streaming.siblings import Siblings


def test_the_last_one_is_known_whatever_the_order() -> None:
    siblings = Siblings(3)
    assert [siblings.finish(index) for index in (2, 0, 1)] == [False, False, True]
    assert [siblings.close(index) for index in (1, 2, 0)] == [False, False, True]


def test_those_that_had_finished_before_this_driver_count_as_finished_and_hold_nothing_open() -> None:
    siblings = Siblings(2, [1])
    assert siblings.finish(0)
    assert siblings.close(0)
    assert not siblings.close(1)


def test_where_all_had_finished_what_the_run_has_opened_is_closed_all_the_same() -> None:
    siblings = Siblings(2, [0, 1])
    assert [siblings.close(0), siblings.close(1)] == [False, True]


def test_one_that_tries_again_is_the_last_again() -> None:
    siblings = Siblings(2)
    siblings.finish(0)
    assert siblings.finish(1)
    assert siblings.finish(1)


def test_an_attempt_is_closed_once_and_only_where_no_other_subtask_is_at_work() -> None:
    siblings = Siblings(2)
    assert not siblings.close(0)
    siblings.begin(0)
    assert [siblings.close(1), siblings.close(0), siblings.close(0)] == [False, True, False]
    siblings.begin(0)
    assert siblings.close(0)
