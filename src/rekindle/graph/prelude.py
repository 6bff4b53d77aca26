"""Rules for the tasks that compute their history as a batch before they stream (docs/backlog.md).

A task that reads a history and a live stream may begin with a *prelude*: Spark's batch engine computes what the stream
would have put out by the time at which the watermark of the live stream, when the job starts, is in force. The query
streams from that watermark on. What it needs of earlier rows depends on the operator (`FIRST_READS`):

- Rows of a closed window are late for the stream, and Spark drops them, so each window comes from one of the two, and
  so does what is made of equal windows.
- A pair of rows or a session may have begun before the watermark. The first batch of the query reads all rows that its
  state keeps at that watermark, and puts out nothing.

A running total that no watermark closes would need every row. `REASONS` is the table of the reasons against a prelude.

This module reads no plan of Spark's: `PreludeFacts` holds what was found in one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ROW_BY_ROW = frozenset(
    {
        "Project", "Filter", "Union", "SubqueryAlias", "View", "Generate", "Expand", "ResolvedHint", "CollectMetrics",
        "EventTimeWatermark", "StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation",
        "StreamingDataSourceV2Relation", "Join with a table",
    }
)  # fmt: skip
"""Operators that turn a row into the same rows in a batch and in a stream, whatever other rows are read with it."""

FIRST_READS = {
    frozenset({"Aggregate"}): False,
    frozenset({"Aggregate", "Join"}): False,
    frozenset({"Session"}): True,
    frozenset({"Join"}): True,
    frozenset({"Deduplicate"}): True,
}
"""The operators of a task that keep rows → True if its first batch has to read what they still keep of its history."""

_KEEPING: frozenset[str] = frozenset().union(*FIRST_READS)

_SAYS = {
    "DeduplicateWithinWatermark": "which rows of a deduplication within the watermark count depends on their order",
    "Distinct": "deduplication by columns without an event time remembers every row",
}

_READ_TWICE = frozenset({"files", "kafka"})
"""Formats of sources that a test has shown to give the same rows when they are read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreludeInput:
    """One input of a task."""

    uid: str
    bounded: bool
    #: True if another task writes it
    is_channel: bool = False
    #: True if it has an event time
    timed: bool = True
    #: for a bounded input: True if the user has declared how much its files overlap, so that rows may be late
    overlaps: bool = False
    #: for an unbounded input: True if it may be idle
    may_be_idle: bool = False
    #: for an unbounded input: the formats that Spark reads it from, e.g. "kafka"
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreludeFacts:
    """Facts about a task that decide whether it may begin with a prelude."""

    inputs: tuple[PreludeInput, ...]
    output_mode: str
    parallelism: int
    #: its operators that run on a stream, each name once
    operators: frozenset[str]
    #: reason why a watermark does not let go what it keeps; None: it does
    kept: str | None
    #: True if what it computes of a row before it keeps it depends on the row alone, not on chance or the time of day
    deterministic: bool = True
    #: True if it reads an input in several places
    reads_twice: bool = False
    #: True if files may have been replaced by others since they were listed
    changed_files: bool = False

    @property
    def has_history(self) -> bool:
        """Return whether the task reads both a bounded and an unbounded input."""
        return len({one.bounded for one in self.inputs}) == 2

    @property
    def keeping(self) -> frozenset[str]:
        """The operators that keep rows, of those that are known."""
        return self.operators & _KEEPING

    @property
    def first_reads(self) -> bool:
        """Return whether the first batch of its query has to read a part of its history."""
        return FIRST_READS[self.keeping]


_Found = Callable[[PreludeFacts], str | None]


def _where(reason: str, holds: Callable[[PreludeFacts], bool]) -> _Found:
    return lambda facts: reason if holds(facts) else None


def _some(which: bool, holds: Callable[[PreludeInput], bool]) -> Callable[[PreludeFacts], bool]:
    return lambda facts: any(one.bounded == which and holds(one) for one in facts.inputs)


def _unreadable(facts: PreludeFacts) -> str | None:
    kinds = sorted({kind for one in facts.inputs for kind in one.reads} - _READ_TWICE)
    return f"nothing is known of reading {kinds[0]} twice" if kinds else None


def _other_operators(facts: PreludeFacts) -> str | None:
    others = sorted(facts.operators - ROW_BY_ROW - _KEEPING)
    return _SAYS.get(others[0], f"{others[0]} is not known to close with the watermark") if others else None


REASONS: tuple[_Found, ...] = (
    _where("it reads another task", lambda facts: any(one.is_channel for one in facts.inputs)),
    _where("it has several subtasks", lambda facts: facts.parallelism > 1),
    lambda facts: f"its output mode is {facts.output_mode}" if facts.output_mode != "append" else None,
    _where("an input has no event time", lambda facts: not all(one.timed for one in facts.inputs)),
    _where("an input may be idle", _some(False, lambda one: one.may_be_idle)),
    _where("files of its history overlap as its user says", _some(True, lambda one: one.overlaps)),
    _where("files of its history may have been replaced", lambda facts: facts.changed_files),
    _unreadable,
    _other_operators,
    _where("it keeps no state that a batch would spare it", lambda facts: not facts.keeping),
    _where("its operators hand on to each other what they keep", lambda facts: facts.keeping not in FIRST_READS),
    lambda facts: facts.kept,
    _where("it reads an input in several places", lambda facts: facts.first_reads and facts.reads_twice),
    _where("what it computes of a row depends on chance or the time of day", lambda facts: not facts.deterministic),
)
"""Reasons against a prelude: each returns its wording, or None if it does not apply."""


def why_streamed(facts: PreludeFacts) -> str | None:
    """Return the first reason why a task streams its history; None: it may begin with a prelude."""
    return next((found for reason in REASONS if (found := reason(facts)) is not None), None)
