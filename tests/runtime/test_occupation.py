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
