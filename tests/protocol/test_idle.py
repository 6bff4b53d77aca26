"""Idle inputs: who has had no data for long enough holds nothing back, and is given no more than the others tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Sink, Source
from rekindle.graph.validation import validated
from rekindle.protocol.clock import END_OF_TIME as END
from rekindle.protocol.clock import ChannelInput, IdleTimer, ProducerClock, SourceInput, watermarks
from tests.protocol.kit import A, graph_of

IDLE = SourceInput(idle=True)
OVER = SourceInput(ended=True)


def live(own_ms: int | None) -> SourceInput:
    return SourceInput(own_ms=own_ms)


def channel(watermark_ms: int | None) -> ChannelInput:
    return ChannelInput(producers=(ProducerClock(watermark_ms=watermark_ms),))


def w(idle: SourceInput, *others: SourceInput | ChannelInput, before: int | None = None) -> int | None:
    """The watermark that an idle input is given beside others."""
    inputs = {"idle": idle} | {str(number): other for number, other in enumerate(others)}
    return watermarks(inputs, in_force={} if before is None else {"idle": before}).get("idle")


# --- when it is idle --------------------------------------------------------------------------------------------------


def test_it_is_due_once_it_has_had_no_data_for_so_long_and_not_before() -> None:
    timer = IdleTimer(100)
    due = []
    for now_ms in (1_000, 1_050, 1_099, 1_100, 5_000):
        timer.ticked(now_ms)
        due.append(timer.due)
    assert due == [False, False, False, True, True]
    assert not timer.idle, "nothing has proven it yet"


def test_it_is_idle_once_that_is_proven() -> None:
    timer = IdleTimer(100)
    timer.proven()
    assert not timer.idle, "it was not due"
    timer.ticked(0)
    timer.ticked(100)
    timer.proven()
    assert timer.idle


@pytest.mark.parametrize("proven", [True, False])
def test_data_ends_its_silence_at_once_and_the_time_counts_from_the_start(proven: bool) -> None:
    timer = IdleTimer(100)
    timer.ticked(0)
    timer.ticked(100)
    if proven:
        timer.proven()
    timer.broken()
    assert not (timer.due or timer.idle)
    timer.proven()
    assert not timer.idle, "what was asked for before the data came proves nothing after it"
    timer.ticked(150)
    timer.ticked(249)
    assert not timer.due
    timer.ticked(250)
    assert timer.due


# --- what it is given -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((live(500),), 500),
        ((live(500), live(300)), 300),
        ((live(500), channel(200)), 200),
        ((live(500), SourceInput(unread_from_ms=100)), 99),
        ((live(500), OVER), 500),
        ((live(500), IDLE), 500),
    ],
)
def test_it_is_given_the_least_of_what_those_that_go_on_tell(
    others: tuple[SourceInput | ChannelInput, ...], expected: int
) -> None:
    assert w(IDLE, *others) == expected


@pytest.mark.parametrize(
    "others",
    [(live(None),), (live(500), live(None)), (live(500), channel(None)), (live(500), SourceInput())],
    ids=["a stream without rows", "one of two", "a channel", "a history in any order"],
)
def test_it_stays_where_it_is_while_another_tells_no_time(others: tuple[SourceInput | ChannelInput, ...]) -> None:
    assert w(IDLE, *others) is None
    assert w(IDLE, *others, before=200) == 200


@pytest.mark.parametrize("others", [(OVER,), (IDLE,), (IDLE, OVER)])
def test_where_no_other_input_continues_none_is_held_back(others: tuple[SourceInput, ...]) -> None:
    assert w(IDLE, *others) is None


def test_one_that_has_data_again_keeps_what_it_was_given_and_follows_spark_from_there() -> None:
    assert w(SourceInput(own_ms=100), live(900), before=500) == 500


def test_one_that_has_ended_is_at_the_end_of_time_idle_or_not() -> None:
    assert w(SourceInput(idle=True, ended=True), live(5)) == END


def test_one_that_is_not_idle_is_left_to_spark_however_far_the_others_are() -> None:
    assert w(live(100), live(900)) is None


SOURCES = st.builds(SourceInput, ended=st.booleans(), own_ms=st.none() | st.integers(0, 9), idle=st.booleans())


@given(
    st.dictionaries(st.sampled_from("abcd"), SOURCES | st.builds(channel, st.none() | st.integers(0, 9)), min_size=1)
)
def test_an_idle_input_is_never_ahead_of_one_that_goes_on(inputs: dict[str, SourceInput | ChannelInput]) -> None:
    given_to = watermarks(inputs)
    for uid, one in inputs.items():
        if one.idle and not one.ends(False) and uid in given_to:
            going_on = [other for other in inputs.values() if not (other.idle or other.ends(False))]
            assert all(other.tells_ms() is not None and given_to[uid] <= other.tells_ms() for other in going_on)


# --- where it can be said ---------------------------------------------------------------------------------------------


def source(**fields: object) -> Source:
    return Source(**{"uid": "a-source", "bounded": False, "event_time": "ts", "watermark": "1 second"} | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (source(idle_after="5 s", bounded=True), "it is bounded"),
        (source(idle_after="5 s", event_time=None, watermark=None), "it has no event_time"),
    ],
)
def test_it_is_refused_where_it_has_no_meaning(one: Source, reason: str) -> None:
    graph = replace(graph_of(A), sources=(one,), sinks=(Sink(uid="out", task="a"),))
    with pytest.raises(DefinitionError, match=rf"IDLE_AFTER_NEEDLESS.*{reason}"):
        validated(graph)


def test_it_is_a_duration_like_any_other() -> None:
    assert source(idle_after="5 minutes").idle_after_ms == 300_000
    assert source().idle_after_ms is None
