"""Rules for the tasks that compute their history as a batch before they stream (docs/backlog.md).

A task that reads a history and a live stream may begin with a *prelude*: Spark's batch engine computes every window
that the watermark of the live stream has closed when the job starts, and the query streams from that watermark on. Rows
of a closed window that the stream then reads are late, and Spark drops them, so each window comes from one of the two.
That holds for windows of event time only: a session, a pair of rows or a running total that has begun before the
watermark continues after it. `REASONS` is the table of the reasons against a prelude.

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

_SAYS = {
    "Join": "a join of two streams keeps rows that wait for others",
    "Deduplicate": "deduplication remembers rows that it has emitted",
    "DeduplicateWithinWatermark": "deduplication remembers rows that it has emitted",
    "Distinct": "deduplication remembers rows that it has emitted",
}

_READ_TWICE = frozenset({"files"})
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
    #: reason why a watermark does not close its windows for good; None: it does
    windows: str | None
    #: True if what it computes before its windows depends on the row alone, not on chance or the time of day
    deterministic: bool = True
    #: True if files may have been replaced by others since they were listed
    changed_files: bool = False

    @property
    def has_history(self) -> bool:
        """Return whether the task reads both a bounded and an unbounded input."""
        return len({one.bounded for one in self.inputs}) == 2


_Found = Callable[[PreludeFacts], str | None]


def _where(reason: str, holds: Callable[[PreludeFacts], bool]) -> _Found:
    return lambda facts: reason if holds(facts) else None


def _some(which: bool, holds: Callable[[PreludeInput], bool]) -> Callable[[PreludeFacts], bool]:
    return lambda facts: any(one.bounded == which and holds(one) for one in facts.inputs)


def _unreadable(facts: PreludeFacts) -> str | None:
    kinds = sorted({kind for one in facts.inputs for kind in one.reads} - _READ_TWICE)
    return f"nothing is known of reading {kinds[0]} twice" if kinds else None


def _other_operators(facts: PreludeFacts) -> str | None:
    others = sorted(facts.operators - ROW_BY_ROW - {"Aggregate"})
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
    _where("it keeps no state that a batch would spare it", lambda facts: "Aggregate" not in facts.operators),
    lambda facts: facts.windows,
    _where("what it computes of a row depends on chance or the time of day", lambda facts: not facts.deterministic),
)
"""Reasons against a prelude: each returns its wording, or None if it does not apply."""


def why_streamed(facts: PreludeFacts) -> str | None:
    """Return the first reason why a task streams its history; None: it may begin with a prelude."""
    return next((found for reason in REASONS if (found := reason(facts)) is not None), None)
