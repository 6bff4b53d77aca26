"""Which tasks may compute their history as a batch: everything that stands against it is said, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.graph.prelude import FIRST_READS, REASONS, PreludeFacts, PreludeInput, why_streamed

HISTORY = PreludeInput(uid="history", bounded=True)
LIVE = PreludeInput(uid="live", bounded=False, reads=frozenset({"files"}))
WINDOWS = PreludeFacts(
    inputs=(HISTORY, LIVE),
    output_mode="append",
    parallelism=1,
    operators=frozenset({"Project", "Aggregate", "Union", "EventTimeWatermark", "StreamingRelation"}),
    kept=None,
)

AGAINST = {
    "it reads another task": replace(WINDOWS, inputs=(HISTORY, LIVE, replace(LIVE, is_channel=True))),
    "several subtasks": replace(WINDOWS, parallelism=2),
    "its output mode is update": replace(WINDOWS, output_mode="update"),
    "no event time": replace(WINDOWS, inputs=(replace(HISTORY, timed=False), LIVE)),
    "may be idle": replace(WINDOWS, inputs=(HISTORY, replace(LIVE, may_be_idle=True))),
    "overlap": replace(WINDOWS, inputs=(replace(HISTORY, overlaps=True), LIVE)),
    "may have been replaced": replace(WINDOWS, changed_files=True),
    "reading rate twice": replace(WINDOWS, inputs=(HISTORY, replace(LIVE, reads=frozenset({"files", "rate"})))),
    "hand on to each other": replace(WINDOWS, operators=WINDOWS.operators | {"Deduplicate"}),
    "depends on their order": replace(WINDOWS, operators=frozenset({"Project", "DeduplicateWithinWatermark"})),
    "GlobalLimit is not known": replace(WINDOWS, operators=WINDOWS.operators | {"GlobalLimit"}),
    "it keeps no state": replace(WINDOWS, operators=frozenset({"Project"})),
    "goes on after it": replace(WINDOWS, kept="a session that has begun goes on after it"),
    "in several places": replace(WINDOWS, operators=frozenset({"Join"}), reads_twice=True),
    "chance": replace(WINDOWS, deterministic=False),
}


def test_windows_over_a_history_and_a_live_stream_may() -> None:
    assert WINDOWS.has_history
    assert why_streamed(WINDOWS) is None
    joined = replace(WINDOWS, operators=WINDOWS.operators | {"Join with a table"})
    assert why_streamed(joined) is None


@pytest.mark.parametrize("keeping", FIRST_READS)
def test_each_operator_that_lets_go_may(keeping: frozenset[str]) -> None:
    facts = replace(WINDOWS, operators=keeping | {"Project", "Union"})
    assert why_streamed(facts) is None
    assert facts.keeping == keeping
    assert facts.first_reads == ("Aggregate" not in keeping)


def test_windows_of_an_input_that_is_read_twice_may() -> None:
    assert why_streamed(replace(WINDOWS, reads_twice=True)) is None


@pytest.mark.parametrize("words", AGAINST)
def test_what_stands_against_it_is_said(words: str) -> None:
    assert words in (why_streamed(AGAINST[words]) or "")


def test_each_reason_is_the_first_for_some_task() -> None:
    first = [next(reason for reason in REASONS if reason(facts) is not None) for facts in AGAINST.values()]
    assert {*first} == {*REASONS}


@pytest.mark.parametrize("inputs", [(HISTORY,), (LIVE,), (LIVE, LIVE)])
def test_a_task_of_one_kind_of_inputs_has_no_history_before_a_stream(inputs: tuple[PreludeInput, ...]) -> None:
    assert not replace(WINDOWS, inputs=inputs).has_history
