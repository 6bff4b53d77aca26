"""The runner of the conformance kinds ``aligned`` and ``unaligned``, on the behaviour that Flink's
``AlignedCheckpointsTest``, ``UnalignedCheckpointsTest`` and ``AlternatingCheckpointsTest`` assert.

Each script is one string, with a ``!`` wherever the next assertion stands.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from rekindle.protocol.alignment import Alignment
from rekindle.testing.cases.channels import check_aligned, check_unaligned

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
INPUT_ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"


def case(name: str, channels: int, script: str, *assertions: dict[str, Any], feature: bool = True) -> dict[str, Any]:
    """A case as the JSON files hold it; ``!`` stands for the next assertion."""
    left = iter(assertions)
    steps = [next(left) if word == "!" else word for word in script.split()]
    assert next(left, None) is None
    return {"name": name, "ch": channels, "script": steps, "feature": feature}


ALIGNED = [
    case(
        "one channel without barriers",
        1,
        "D@0 D@0 D@0 ! E@0 !",
        {"triggered": [], "aborted": [], "latest": -1, "pending": False, "open": 1},
        {"open": 0, "blocked": [], "pending": False, "lastAborted": None, "reason": None},
    ),
    case(
        "several channels without barriers",
        4,
        "D@2 D@2 D@0 D@1 D@0 E@0 D@3 D@1 E@3 ! D@1 E@1 D@2 E@2 !",
        {"open": 2},
        {"open": 0, "triggered": [], "aborted": []},
    ),
    case(
        "one channel is aligned with itself",
        1,
        "D@0 B1@0 ! D@0 B2@0 B3@0 D@0 B4@0 B5@0 B6@0 D@0 E@0 !",
        {"triggered": [1], "blocked": [], "pending": False},
        {"triggered": [1, 2, 3, 4, 5, 6], "aborted": []},
    ),
    case(
        "channels are aligned with each other, with data or without",
        3,
        "D@0 D@2 D@0 ! B1@1 B1@2 D@0 ! B1@0 ! D@0 D@1 D@2 B2@0 B2@1 B2@2 ! D@2 B3@2 D@0 B3@0 B3@1 B4@1 B4@2 B4@0 "
        "D@0 E@0 E@1 E@2 !",
        {"triggered": [], "latest": -1},
        {"triggered": [], "pending": True, "blocked": [1, 2]},
        {"triggered": [1], "blocked": []},
        {"triggered": [1, 2], "blocked": []},
        {"triggered": [1, 2, 3, 4], "aborted": [], "blocked": [], "open": 0},
    ),
    case(
        "barriers of later checkpoints jump over pending ones, the end of a channel aborts",
        3,
        "D@0 D@2 D@0 B1@1 ! B1@2 D@0 B1@0 ! D@1 D@0 B2@1 ! D@2 B2@0 D@2 ! B3@2 ! D@1 D@0 B3@0 ! B4@1 ! D@2 D@0 E@0 ! "
        "D@2 E@2 D@1 E@1 !",
        {"latest": 1},
        {"blocked": [], "triggered": [1]},
        {"latest": 2},
        {"blocked": [0, 1]},
        {"latest": 3, "blocked": [2], "aborted": [2], "reason": SUBSUMED},
        {"blocked": [0, 2]},
        {"latest": 4, "blocked": [1], "aborted": [2, 3]},
        {"blocked": [], "aborted": [2, 3, 4], "reason": INPUT_ENDED, "pending": False, "open": 2},
        {"triggered": [1], "aborted": [2, 3, 4], "open": 0},
        feature=False,
    ),
    case(
        "channels that ended before are not waited for",
        4,
        "E@2 E@1 D@0 D@0 D@3 B2@3 ! B2@0 ! B3@0 B3@3 ! D@0 D@3 E@0 D@3 B4@3 ! D@3 E@3 !",
        {"pending": True, "blocked": [3]},
        {"latest": 2, "blocked": []},
        {"latest": 3, "blocked": []},
        {"latest": 4, "blocked": [], "open": 1},
        {"triggered": [2, 3, 4], "aborted": []},
    ),
    case(
        "cancellations in a single channel, of checkpoints never begun",
        1,
        "D@0 B1@0 ! D@0 B2@0 ! D@0 X4@0 ! B5@0 ! D@0 X6@0 D@0 !",
        {"triggered": [1]},
        {"triggered": [1, 2], "blocked": []},
        {"latest": 4, "lastAborted": 4, "reason": CANCELLED},
        {"latest": 5, "lastAborted": 4, "blocked": [], "triggered": [1, 2, 5]},
        {"latest": 6, "lastAborted": 6, "triggered": [1, 2, 5], "aborted": [4, 6]},
    ),
    case(
        "a late barrier of a cancelled checkpoint is ignored and its channel goes on",
        3,
        "D@1 B1@1 D@2 D@0 X1@0 ! D@1 B2@1 D@2 D@0 B1@2 ! D@0 D@2 B2@0 B2@2 ! D@0 D@1 D@2 !",
        {"lastAborted": 1, "reason": CANCELLED, "blocked": []},
        {"blocked": [1], "latest": 2, "aborted": [1]},
        {"blocked": [], "triggered": [2]},
        {"triggered": [2], "aborted": [1]},
    ),
    case(
        "missing cancellation barriers: Flink reports the cancelled checkpoint, not the one left behind",
        2,
        "B1@0 ! X3@1 ! X2@0 X3@0 D@0 !",
        {"blocked": [0], "pending": True},
        {"aborted": [3], "latest": 3, "pending": False},
        {"blocked": [], "aborted": [3], "triggered": []},
    ),
    case(
        "barrier and end of one channel count once",
        3,
        "B2@0 B2@1 E@1 ! B2@2 !",
        {"triggered": [], "aborted": [], "pending": True},
        {"triggered": [2], "pending": False, "blocked": []},
    ),
    case(
        "the next barrier overtakes a cancellation",
        2,
        "B1@0 B2@0 ! X1@1 ! B2@1 !",
        {"aborted": [1], "reason": SUBSUMED, "latest": 2, "blocked": [0]},
        {"aborted": [1], "pending": True},
        {"triggered": [2], "aborted": [1], "blocked": []},
    ),
    case("a savepoint waits for both", 2, "B123@0 ! B123@1 !", {"triggered": []}, {"triggered": [123], "blocked": []}),
    case("barriers out of order", 2, "B10@0 B5@1 !", {"latest": 10, "blocked": [0], "aborted": []}),
    case(
        "data of a channel held back waits",
        2,
        "B1@0 D@0 D@1 B1@1 D@0 !",
        {"triggered": [1], "blocked": [], "inflight": []},
    ),
]

UNALIGNED = [
    case("one channel without barriers", 1, "D@0 D@0 E@0 !", {"inflight": [], "triggered": [], "open": 0}),
    case(
        "one channel never has data in flight",
        1,
        "D@0 B1@0 D@0 D@0 B2@0 B3@0 D@0 B4@0 B5@0 B6@0 D@0 E@0 !",
        {"triggered": [1, 2, 3, 4, 5, 6], "inflight": [], "pending": False},
    ),
    case(
        "data in front of the later barriers is in flight",
        3,
        "D@0 D@2 D@0 B1@1 ! B1@2 D@2 D@1 D@0 ! B1@0 ! D@0 D@0 D@1 D@1 D@2 B2@0 B2@1 B2@2 ! D@2 D@2 B3@2 D@2 D@2 B3@0 "
        "B3@1 ! B4@1 B4@2 B4@0 ! D@0 D@2 D@0 B5@1 D@2 D@0 D@2 D@1 B5@2 D@1 D@0 D@2 D@1 B5@0 ! D@0 E@0 E@1 E@2 !",
        {"triggered": [1], "blocked": [], "inflight": []},
        {"inflight": ["0#2"]},
        {"triggered": [1], "inflight": ["0#2"], "reset": True},
        {"triggered": [1, 2], "inflight": [], "reset": True},
        {"inflight": [], "reset": True},
        {"triggered": [1, 2, 3, 4], "inflight": [], "reset": True},
        {"inflight": ["2#1", "0#2", "2#2", "0#3"], "triggered": [1, 2, 3, 4, 5], "reset": True},
        {"inflight": [], "pending": False, "open": 0},
    ),
    case(
        "every channel in front of its barrier",
        3,
        "D@0 D@1 D@2 B1@1 D@0 D@1 D@2 B1@0 D@0 D@1 D@2 ! B1@2 D@0 D@1 D@2 E@0 E@1 E@2 !",
        {"inflight": ["0#1", "2#1", "2#2"], "pending": True},
        {"inflight": ["0#1", "2#1", "2#2"], "latest": 1},
    ),
    case(
        "an early end aborts, with the feature off",
        3,
        "D@0 D@1 D@2 B1@1 B1@2 B1@0 ! D@2 D@1 D@0 B2@1 D@1 D@1 E@1 ! D@0 D@2 B2@2 D@2 E@2 D@0 E@0 !",
        {"triggered": [1], "inflight": [], "reset": True},
        {"aborted": [2], "reason": INPUT_ENDED},
        {"triggered": [1, 2], "inflight": [], "aborted": [2]},
        feature=False,
    ),
    case(
        "one channel ends behind its barrier, one in front of it",
        3,
        "B1@0 B1@1 B1@2 ! D@0 D@0 D@2 B2@2 B2@0 D@0 D@2 D@1 E@2 ! E@1 ! D@0 E@0 !",
        {"triggered": [1], "inflight": [], "reset": True},
        {"pending": True},
        {"pending": False, "inflight": ["1#0"]},
        {"triggered": [1, 2], "aborted": [], "inflight": ["1#0"]},
    ),
    case(
        "cancelled by the other channel",
        2,
        "B1@0 X1@1 ! E@0 E@1 !",
        {"aborted": [1], "pending": False},
        {"triggered": [1], "open": 0},
    ),
    case(
        "cancellations in a single channel",
        1,
        "D@0 B1@0 D@0 B2@0 X4@0 ! B5@0 D@0 X6@0 D@0 E@0 !",
        {"triggered": [1, 2], "lastAborted": 4, "inflight": [], "reset": True},
        {"triggered": [1, 2, 5], "lastAborted": 6, "inflight": []},
    ),
    case(
        "a pending checkpoint 0 is cancelled, then the next one",
        2,
        "B0@0 ! X0@0 ! X1@0 !",
        {"pending": True, "latest": 0},
        {"pending": False, "latest": 0, "lastAborted": 0},
        {"pending": False, "latest": 1, "lastAborted": 1},
    ),
    case(
        "a pending checkpoint 0 and the cancellation of the next one",
        2,
        "B0@0 X1@0 ! X2@0 !",
        {"pending": False, "latest": 1, "lastAborted": 1},
        {"pending": False, "latest": 2, "aborted": [1, 2]},
    ),
    case(
        "cancelled before any barrier",
        1,
        "X0@0 ! B0@0 !",
        {"latest": 0, "aborted": [0]},
        {"pending": False, "triggered": [], "aborted": [0]},
    ),
    case(
        "after one channel has ended, with another ending in between",
        3,
        "E@0 B3@1 D@1 D@2 E@1 B3@2 ! D@2 B4@2 E@2 !",
        {"inflight": ["2#0"], "triggered": [3], "aborted": [], "reset": True},
        {"inflight": [], "triggered": [3, 4], "aborted": []},
    ),
    case(
        "counting starts anew at a reset, also while a checkpoint is pending",
        2,
        "B1@0 D@1 ! D@1 B1@1 !",
        {"inflight": ["1#0"], "reset": True},
        {"inflight": ["1#0"], "pending": False},
    ),
]


@pytest.mark.parametrize("one", ALIGNED, ids=lambda one: one["name"])
def test_an_aligned_subtask_does_what_flink_does(one: dict[str, Any]) -> None:
    assert check_aligned(one) == (True, [step for step in one["script"] if isinstance(step, dict)])


@pytest.mark.parametrize("one", UNALIGNED, ids=lambda one: one["name"])
def test_an_unaligned_subtask_does_what_flink_does(one: dict[str, Any]) -> None:
    assert check_unaligned(one) == (True, [step for step in one["script"] if isinstance(step, dict)])


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("triggered", [], [1]),
        ("aborted", [1], []),
        ("lastAborted", 1, None),
        ("reason", SUBSUMED, None),
        ("latest", 2, 1),
        ("pending", False, True),
        ("open", 2, 3),
        ("blocked", [0], []),
        ("inflight", ["1#0"], ["1#0", "2#0"]),
        ("inflight", ["1#0", "1#0"], ["1#0", "2#0"]),
    ],
)
def test_what_does_not_hold_is_shown_as_it_is(key: str, wrong: object, right: object) -> None:
    script = case("", 3, "B1@0 D@2 D@1 ! E@0", {key: wrong, "reset": True})
    assert check_unaligned(script) == (False, [{key: right, "reset": True}])


def test_the_two_kinds_differ() -> None:
    script = case("", 2, "B1@0 D@1 B1@1 !", {"triggered": [1], "inflight": []})
    assert check_aligned(script)[0]
    assert check_unaligned(script) == (False, [{"triggered": [1], "inflight": ["1#0"]}])


@pytest.mark.parametrize("word", ["Q1@0", "B@0", "X@0", "D1@0", "E1@0", "B1", "B1@"])
def test_a_word_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        check_aligned(case("", 2, word))


def test_the_runner_drives_the_alignment_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rule of the product changed, the cases that rest on it are no longer ok."""
    ended = Alignment.ended
    monkeypatch.setattr(Alignment, "ended", lambda task, channel: ended(task, channel)[:0])
    script = case("", 3, "B1@0 B1@1 E@2 !", {"triggered": [1]})
    assert check_aligned(script) == (False, [{"triggered": []}])


@pytest.mark.parametrize("check", [check_aligned, check_unaligned])
def test_random_scripts_run(check) -> None:
    """Whatever order the words come in, while nothing follows the end of a channel."""
    dice = random.Random(7)
    for _ in range(200):
        ended: set[int] = set()
        script: list[object] = []
        for _ in range(40):
            channel = dice.randrange(3)
            word = dice.choice("BBBXEDDDDDDDDDD")
            if channel not in ended:
                script.append(f"{word}{dice.randrange(6) if word in 'BX' else ''}@{channel}")
            if word == "E":
                ended.add(channel)
        script += [f"E@{channel}" for channel in range(3) if channel not in ended]
        ok, actual = check({"ch": 3, "script": [*script, {"pending": False, "blocked": [], "open": 0, "triggered": 0}]})
        assert not ok
        triggered = actual[0].pop("triggered")
        assert actual == [{"pending": False, "blocked": [], "open": 0}]
        assert triggered == sorted(set(triggered))
