"""How many batches Spark is told to keep: never fewer than a retained checkpoint needs, and no more than it takes."""

from __future__ import annotations

import random

import pytest

from rekindle.spark.query.kept_batches import LEAST, MARGIN, MOST_ROOM, KeptBatches


def deleted_by(newest: int, number: int) -> int:
    """The newest batch whose files Spark may have deleted while it plans the batch after `newest`."""
    return newest + 1 - number


def test_without_a_checkpoint_spark_keeps_what_it_does_by_default() -> None:
    kept = KeptBatches()
    assert kept.start(-1) == LEAST
    assert not any(kept.ran(batch) for batch in range(MOST_ROOM - 1))
    assert kept.start(99_999) == LEAST


def test_a_query_whose_checkpoints_follow_it_is_started_again_now_and_then_for_what_grows_from_start_to_start() -> None:
    kept, starts = KeptBatches(), list[int]()
    kept.start(-1)
    for batch in range(10 * MOST_ROOM):
        assert kept.pin(batch)
        kept.release(batch - 5)
        if kept.ran(batch):
            starts.append(batch)
            assert kept.start(batch) == LEAST + 5
    assert starts == list(range(MOST_ROOM - 1, 10 * MOST_ROOM, MOST_ROOM))


def test_a_query_is_held_before_spark_could_delete_what_the_oldest_checkpoint_needs() -> None:
    kept = KeptBatches(oldest=40)
    number = kept.start(50)
    last = next(batch for batch in range(51, 1_000) if kept.ran(batch))
    assert last == 40 + number - MARGIN
    assert kept.start(last) > number
    assert not kept.ran(last + 1)


def test_a_checkpoint_that_is_released_makes_room() -> None:
    kept = KeptBatches(oldest=0)
    kept.start(0)
    assert kept.ran(LEAST)
    kept.release(LEAST - 20)
    assert not kept.ran(LEAST + 1)
    kept.release(3)  # a report that comes late
    assert not kept.ran(LEAST + 2)


def test_the_first_checkpoint_of_a_run_pins_its_batch_and_one_that_comes_too_late_is_declined() -> None:
    kept = KeptBatches()
    assert kept.pin(7), "no query has run yet"
    kept = KeptBatches()
    kept.start(-1)
    for batch in range(500):
        kept.ran(batch)
    assert not kept.pin(500 - LEAST)
    assert kept.pin(490)
    assert not kept.ran(500) and kept.ran(490 + LEAST)


def test_a_checkpoint_that_is_kept_for_ever_costs_few_starts_and_bounded_room() -> None:
    kept, batch, starts = KeptBatches(oldest=0), 0, 0
    while batch < 1_000_000:
        number = kept.start(batch)
        starts += 1
        assert number - batch <= MOST_ROOM
        # From one room's end to the next; nothing in between ends it.
        end = min(number - MARGIN, batch + MOST_ROOM)
        assert not kept.ran(end - 1) and kept.ran(end)
        batch = end
    assert starts < 520


@pytest.mark.parametrize("seed", range(200))
def test_in_no_life_has_spark_deleted_what_a_retained_checkpoint_needs(seed: int) -> None:
    chance = random.Random(seed)
    retained: list[int] = []
    newest, keep = -1, chance.choice([1, 3, 50])
    kept, number = KeptBatches(), 0
    number = kept.start(newest)
    for _ in range(4_000):
        newest += 1
        held = kept.ran(newest)
        assert not retained or deleted_by(newest, number) < retained[0]
        if chance.random() < 0.02 and kept.pin(acknowledged := max(newest - chance.randrange(3), 0)):
            retained.append(acknowledged)
            retained.sort()
            if chance.random() < 0.8:
                del retained[:-keep]
                kept.release(retained[0])
        if held or chance.random() < 0.005:
            if chance.random() < 0.3:  # the driver starts again, from what is retained
                kept = KeptBatches(retained[0] if retained else None)
            number = kept.start(newest)
