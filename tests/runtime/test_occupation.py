"""The time of a subtask, and what a batch under way says of the newest checkpoint."""

from __future__ import annotations

import pytest

from rekindle.runtime.occupation import BUSY, HELD, IDLE, Occupation, confirmed_until
from rekindle.storage.documents.status import TaskStatusDocument


def test_the_time_of_the_batch_under_way_counts_from_where_it_began_and_waits_are_part_of_it() -> None:
    now_s = [0.0]
    occupation = Occupation(lambda: now_s[0])
    seen = []

    for doing, until_s in (
        (IDLE, 1),
        (BUSY, 3),
        (IDLE, 4),
        (BUSY, 6),
        (HELD, 10),
        (BUSY, 11),
        (IDLE, 12),
        (BUSY, 12.5),
    ):
        occupation.enter(doing)
        now_s[0] = until_s
        seen.append(occupation.batch_so_far_ms)

    assert seen == [None, 2_000, None, 2_000, 6_000, 7_000, None, 500]
    assert (occupation.busy_ms, occupation.held_ms) == (5_500, 4_000)


def test_a_look_is_as_long_as_it_is_the_same_and_ends_with_a_batch() -> None:
    now_s = [0.0]
    occupation = Occupation(lambda: now_s[0])
    seen = []

    answers = (
        (1, False),
        (2, True),
        (5, True),
        (9, True),
        (10, False),
        (11, False),
        (12, True),
        (14, True),
    )
    for now_s[0], still in answers:
        occupation.looks(still)
        seen.append(occupation.look_so_far_ms)
    occupation.enter(BUSY)

    assert seen == [None, 0, 3_000, 7_000, None, None, 0, 2_000]
    assert occupation.look_so_far_ms is None


def test_a_look_that_does_not_end_confirms_no_checkpoint() -> None:
    """A source that did not answer for hours let no alarm know."""
    tasks = [
        TaskStatusDocument(uid=uid, subtask=0, status="running", batch=1, look_so_far_ms=so_far_ms)
        for uid, so_far_ms in (("a", None), ("b", 30_000))
    ]

    assert confirmed_until(90_000, 40_000, tasks, 100_000) == 70_000


@pytest.mark.parametrize(
    ("confirmed_ms", "batches_ms", "until_ms"),
    [
        (None, (None, 50_000), None),
        (90_000, (None, None), 90_000),
        (90_000, (None, 2_000), 90_000),
        (90_000, (30_000, 2_000), 70_000),
        (90_000, (None, 99_000), 40_000),
    ],
)
def test_no_checkpoint_is_confirmed_while_a_batch_runs(
    confirmed_ms: int | None, batches_ms: tuple[int | None, ...], until_ms: int | None
) -> None:
    """A batch that hung for hours let no alarm know: every half minute there was nothing to add."""
    tasks = [
        TaskStatusDocument(uid="t", subtask=number, status="running", batch=1, batch_so_far_ms=so_far_ms)
        for number, so_far_ms in enumerate(batches_ms)
    ]

    assert confirmed_until(confirmed_ms, 40_000, tasks, 100_000) == until_ms
