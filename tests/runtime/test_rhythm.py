"""How often a driver looks: rarely while nothing happens, where looks are paid for, and often again at once."""

from __future__ import annotations

from rekindle.runtime.rhythm import Rhythm


def looks(rhythm: Rhythm, upto_s: int, happened_s: float, from_s: int = 0) -> list[int]:
    """The seconds in which it looks."""
    return [now_s for now_s in range(from_s, upto_s) if rhythm.is_due(now_s, happened_s)]


def test_pauses_grow_with_the_silence_up_to_the_longest() -> None:
    rhythm = Rhythm(10, every_s=0.2, at_rest_s=0.5)
    assert looks(rhythm, 11, happened_s=0) == [0, 2, 4, 6, 8, 10]
    assert looks(rhythm, 1_011, 0, from_s=1_000) == [1_000, 1_005, 1_010]
    assert rhythm.pause_s == 5.0


def test_what_happens_makes_the_next_look_come_at_once_and_the_following_ones_often() -> None:
    rhythm = Rhythm(10, every_s=1, at_rest_s=3)
    looks(rhythm, 1_000, 0)
    last_s = looks(rhythm, 1_061, 0, from_s=1_000)[-1]
    assert rhythm.pause_s == 30
    happened_s = last_s + 12
    assert looks(rhythm, happened_s + 25, happened_s, from_s=happened_s) == [
        happened_s,
        happened_s + 10,
        happened_s + 20,
    ]
    assert rhythm.pause_s == 10


def test_where_looks_are_free_nothing_changes_at_rest() -> None:
    assert looks(Rhythm(1, every_s=2, at_rest_s=30), 1_009, 0, from_s=1_000) == [1_000, 1_002, 1_004, 1_006, 1_008]
