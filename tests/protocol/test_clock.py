"""The clock: which watermark an input has. Watermarks are small numbers here, END is the end of time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.protocol.clock import END_OF_TIME as END
from rekindle.protocol.clock import ChannelInput, ProducerClock, SourceInput, watermarks

Inputs = Mapping[str, SourceInput | ChannelInput]

OPEN, ENDED = SourceInput(), SourceInput(ended=True)
OVER = ProducerClock(ended=True)


def at(watermark_ms: int | None) -> ProducerClock:
    return ProducerClock(watermark_ms=watermark_ms)


def channel(*producers: ProducerClock) -> ChannelInput:
    return ChannelInput(producers=producers)


def w(one: SourceInput | ChannelInput, before: int | None = None, draining: bool = False) -> int | None:
    """The watermark of an input beside another that goes on."""
    in_force = {} if before is None else {"one": before}
    beside = channel(at(None))
    return watermarks({"one": one, "beside": beside}, in_force=in_force, draining=draining).get("one")


# --- sources ----------------------------------------------------------------------------------------------------------


def test_nothing_of_a_bounded_source_in_any_order_is_late_until_it_has_ended() -> None:
    """Architecture: "W stays below all data until the input has ended, so a bounded input loses no row to lateness"."""
    assert w(OPEN) is None
    assert w(ENDED) == END


def test_an_ordered_source_is_just_before_the_least_time_that_was_not_read() -> None:
    """Architecture: the watermark follows "the smallest time not yet read"; a row at it is dropped."""
    assert w(SourceInput(unread_from_ms=1_000)) == 999
    assert w(SourceInput(unread_from_ms=1_000, ended=True)) == END


def test_a_stream_is_left_to_spark_but_can_be_restored_and_ended() -> None:
    """Architecture: "A Stream keeps its own delay and Spark's own tracking, and can still be ended or restored"."""
    assert w(OPEN) is None
    assert w(OPEN, before=500) == 500
    assert w(ENDED, before=500) == END


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ({}, {}),
        ({"history": False, "live": False}, {}),
        ({"history": True, "live": False}, {"history": END}),
        ({"history": True, "live": True}, {}),
    ],
)
def test_an_input_that_has_ended_is_at_the_end_of_time_while_another_goes_on(ended: dict, expected: dict) -> None:
    """Architecture: "the end of an input: W = end of time; it then holds nothing back"."""
    assert watermarks({uid: SourceInput(ended=over) for uid, over in ended.items()}) == expected


# --- channels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("producers", "expected"),
    [
        ((at(5),), 5),
        ((at(5), at(3), at(9)), 3),
        ((at(5), at(None)), None),
        ((at(None),), None),
        ((OVER, at(5)), 5),
        ((ProducerClock(watermark_ms=2, ended=True), at(5)), 5),
        ((OVER, at(None)), None),
        ((OVER,), END),
        ((OVER, OVER), END),
    ],
)
def test_a_channel_has_the_minimum_of_its_producers_that_have_not_ended(
    producers: tuple[ProducerClock, ...], expected: int | None
) -> None:
    """Architecture: "the minimum of its producers' output watermarks, from their batch records"."""
    assert w(channel(*producers)) == expected


def test_the_end_of_time_comes_only_when_aligned_on_all_producers() -> None:
    """FLIP-147, Final Checkpoint, non-source tasks: "Aligned on MAX_WATERMARK: Advanced To MAX_WATERMARK"."""
    assert w(channel(OVER, at(7))) == 7
    assert w(channel(OVER, OVER)) == END


def test_a_plain_stop_emits_no_end_of_time() -> None:
    """FLIP-147, Final Checkpoint, stop with savepoint: "N/A (MAX_WATERMARK is not emitted in this case)".

    Who sends EndOfData[finished=false] has not ended, and keeps its last watermark.
    """
    assert w(channel(at(7), OVER)) == 7
    assert watermarks({"source": OPEN, "channel": channel(at(7))}, draining=False) == {"channel": 7}


def test_mixed_ends_of_the_producers_are_no_end() -> None:
    """As in Flink's testDrainFlagComputation: all ended, at least one without a drain → stopped, not drained."""
    assert w(channel(OVER, at(None), OVER)) is None


# --- a drain ----------------------------------------------------------------------------------------------------------


def test_a_drain_puts_every_source_at_the_end_of_time() -> None:
    """FLIP-147, Final Checkpoint, source tasks: "Advanced To MAX_WATERMARK and trigger all the event timers"."""
    assert w(OPEN, draining=True) == END
    assert w(SourceInput(unread_from_ms=1_000), draining=True) == END


def test_a_drain_reaches_a_channel_through_its_producers() -> None:
    """FLIP-147, Changes the Operator APIs: "To flush all the records on finished", MAX_WATERMARK first: what the
    producers still emit then must not be late, so their channel ends behind it."""
    assert w(channel(at(7)), draining=True) == 7
    assert w(channel(at(None)), draining=True) is None
    assert w(channel(OVER), draining=True) == END


def test_a_drain_of_a_task_that_reads_sources_alone_leaves_everything_to_the_flush() -> None:
    assert watermarks({"history": OPEN, "live": OPEN}, draining=True) == {}
    assert watermarks({"live": OPEN, "channel": channel(OVER)}, draining=True) == {}


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_watermark_never_goes_backwards() -> None:
    """A producer that was restored without having finished, or one that is new, does not take anything back."""
    assert w(channel(at(3)), before=5) == 5
    assert w(channel(at(None)), before=5) == 5
    assert w(channel(OVER, at(9)), before=END) == END
    assert w(SourceInput(unread_from_ms=3), before=5) == 5


def test_after_a_restore_what_is_in_force_is_set_again() -> None:
    """Architecture: "Spark forgets per-input watermarks; the current W of every input is admitted again"."""
    inputs: Inputs = {"history": ENDED, "live": OPEN, "upstream": channel(at(7), at(9)), "slow": channel(at(None))}
    in_force = watermarks(inputs)
    assert in_force == {"history": END, "upstream": 7}
    forgotten: Inputs = {**inputs, "upstream": channel(at(None), at(None))}
    assert watermarks(forgotten, in_force=in_force) == in_force


def test_what_was_in_force_on_an_input_that_is_gone_is_not_set() -> None:
    assert watermarks({"live": OPEN}, in_force={"removed": 5}) == {}


# --- properties -------------------------------------------------------------------------------------------------------

times = st.integers(0, 20)
producers = st.builds(ProducerClock, watermark_ms=st.none() | times, ended=st.booleans())
channels = st.lists(producers, min_size=1, max_size=4).map(lambda some: ChannelInput(producers=tuple(some)))
sources = st.builds(SourceInput, ended=st.booleans(), unread_from_ms=st.none() | times)
queries = st.dictionaries(st.sampled_from("abc"), channels | sources, max_size=3)


@given(history=st.lists(queries, max_size=6), draining=st.booleans())
def test_each_watermark_of_a_history_is_at_or_after_the_one_before(history: list, draining: bool) -> None:
    in_force: dict[str, int] = {}
    for inputs in history:
        now = watermarks(inputs, in_force=in_force, draining=draining)
        assert all(now[uid] >= before for uid, before in in_force.items() if uid in now)
        assert all(uid in now for uid in in_force if uid in inputs) or not now
        in_force |= now


@given(one=channels, draining=st.booleans())
def test_no_watermark_overtakes_a_producer_that_goes_on(one: ChannelInput, draining: bool) -> None:
    """The oracle: sorted, with those that have none before all others."""
    found = w(one, draining=draining)
    lowest = (
        min((-1 if p.watermark_ms is None else p.watermark_ms) for p in [*one.producers] if not p.ended)
        if any(not p.ended for p in one.producers)
        else END
    )
    assert (-1 if found is None else found) == lowest


@given(inputs=queries)
def test_no_input_has_ended_where_something_may_still_come(inputs: dict) -> None:
    for uid, watermark in watermarks(inputs).items():
        if watermark == END:
            one = inputs[uid]
            assert one.ended if isinstance(one, SourceInput) else all(p.ended for p in one.producers)


@given(inputs=queries)
def test_asking_twice_changes_nothing(inputs: dict) -> None:
    once = watermarks(inputs)
    assert watermarks(inputs, in_force=once) == once
