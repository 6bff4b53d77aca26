"""Conformance cases of two-phase commit: what Flink's own test asserts, what cannot pass, and what is to be read."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.testing.cases.two_phase import check

NOTIFIED = "w42 s0 w43 s1 w44 s2"
"""The script that Flink's TwoPhaseCommitSinkFunctionTest begins most of its tests with."""


def case(script: str, *committed: int, **more: Any) -> dict[str, Any]:
    return {"name": "one", "script": script.split(), "committed": [*committed], **more}


@pytest.mark.parametrize(
    "runnable",
    [
        pytest.param(case(f"{NOTIFIED} n1", 42, 43, tmpFiles=2), id="testNotifyOfCompletedCheckpoint"),
        pytest.param(
            case(f"{NOTIFIED} n2 n1", 42, 43, 44, tmpFiles=1), id="testSubsumedNotificationOfPreviousCheckpoint"
        ),
        pytest.param(
            case(
                "w42 s0 w43 s1 w44 fin s2 n1 s3",
                42,
                43,
                tmpFiles=1,
                thenError="write 45 -> NullPointerException (no current transaction)",
            ),
            id="testNoTransactionAfterSinkFunctionFinish",
        ),
        case("w42"),
        case("w42 s1"),
        case("w42 n1"),
        case("w7 s1 w3 w7 n1 n1", 7),
        case("w1 s1 w2 s2 w3 s3 n3", 1, 2, 3),
        case("w1 finish s42 s43 s44 n43", 1),
        case("w1 finish s42 w2 n42", 1, thenError="it is over"),
        case(""),
    ],
)
def test_a_case_passes_where_the_protocol_does_what_it_says(runnable: dict[str, Any]) -> None:
    assert check(runnable) == (True, {"committed": runnable["committed"]})


@pytest.mark.parametrize(
    "wrong",
    [
        case(f"{NOTIFIED} n1", 42, 43, 44),
        case(f"{NOTIFIED} n1", 43, 42),
        case(f"{NOTIFIED} n1", 42, 43, tmpFiles=1),
        case(f"{NOTIFIED} n1", 42, 43, thenError="write 45 -> no current transaction"),
        {"script": ["w1", "s1", "n1"]},
    ],
)
def test_a_case_that_says_something_else_fails(wrong: dict[str, Any]) -> None:
    ok, actual = check(wrong)
    assert not ok and "committed" in actual


@pytest.mark.parametrize("word", ["commit starts failing", "snap=s0", "RESTORE ok", "t=1001", 42, "w", "wx"])
def test_a_case_with_other_words_is_to_be_read(word: object) -> None:
    told = {"script": ["w42", word, "n1"], "committed": [42]}
    assert check(told) == (True, {"skipped": f"to be read, not to be run: {word!r}"})
