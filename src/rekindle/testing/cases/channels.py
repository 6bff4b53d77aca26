"""Conformance kinds ``aligned`` and ``unaligned``: what one subtask makes of a script of its channels.

A case has `ch` channels and a `script`: ``B5@0`` barrier of checkpoint 5 on channel 0, ``X5@0`` its cancellation,
``E@0`` the end of the channel, ``D@0`` data. An object in between says what holds at that point; only what it names is
compared. A word is what the subtask reads, so a barrier counts even on a channel that is held back; data there waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rekindle.protocol.alignment import Alignment
from rekindle.protocol.alignment_outcomes import Aborted, Aligned, AlignedSnapshot, Outcome
from rekindle.protocol.channel_state import ChannelState

_WORD = re.compile(r"([BX](?=\d)|[ED](?=@))(\d*)@(\d+)")


def check_aligned(case: Mapping[str, Any]) -> tuple[bool, list[dict[str, Any]]]:
    """Return whether every assertion of the case holds, and what holds in its place, with the same keys."""
    return _check(case, unaligned=False)


def check_unaligned(case: Mapping[str, Any]) -> tuple[bool, list[dict[str, Any]]]:
    """Return whether every assertion of the case holds, and what holds in its place, with the same keys."""
    return _check(case, unaligned=True)


def _check(case: Mapping[str, Any], *, unaligned: bool) -> tuple[bool, list[dict[str, Any]]]:
    subtask = _Subtask(case["ch"], after_tasks_finish=case.get("feature", True), unaligned=unaligned)
    expected: list[dict[str, Any]] = []
    actual: list[dict[str, Any]] = []
    for step in case["script"]:
        if isinstance(step, str):
            subtask.read(step)
        else:
            expected.append(step)
            actual.append({key: _in_the_order_of(value, subtask.look(key)) for key, value in step.items()})
            if step.get("reset"):
                subtask.reset()
    return actual == expected, actual


def _in_the_order_of(expected: Any, actual: Any) -> Any:
    """Return a set as the case writes an equal one, otherwise sorted; anything else unchanged."""
    if not isinstance(actual, frozenset):
        return actual
    return expected if len(expected) == len(actual) == len(actual & set(expected)) else sorted(actual)


class _Subtask:
    """The protocol's alignment, and what it has said so far."""

    def __init__(self, channels: int, *, after_tasks_finish: bool, unaligned: bool) -> None:
        self._alignment = Alignment(ChannelState(range(channels)), after_tasks_finish)
        self._unaligned = unaligned
        self._snapshots: list[int] = []
        self._aborts: list[Aborted] = []
        #: data of each channel, in all and up to the last reset
        self._data = [0] * channels
        self._before = [0] * channels
        #: (channel, position) of what was held for snapshots since the last reset
        self._held: set[tuple[int, int]] = set()
        self._looks: dict[str, Callable[[], Any]] = {
            "triggered": lambda: self._snapshots,
            "aborted": lambda: [abort.checkpoint for abort in self._aborts],
            "lastAborted": lambda: self._aborts[-1].checkpoint if self._aborts else None,
            "reason": lambda: self._aborts[-1].reason.name if self._aborts else None,
            "latest": lambda: self._alignment.latest,
            "pending": lambda: self._alignment.pending,
            "open": lambda: len(self._alignment.channels.open),
            "blocked": lambda: frozenset(self._alignment.channels.blocked),
            "inflight": lambda: frozenset(f"{channel}#{at - self._before[channel]}" for channel, at in self._held),
            "reset": lambda: True,
        }

    def look(self, key: str) -> Any:
        """Return what holds now under a key of the assertions."""
        seen = self._looks[key]()
        return list(seen) if isinstance(seen, list) else seen

    def reset(self) -> None:
        """Forget the data held; from here on data is counted from 0."""
        self._held.clear()
        self._before = list(self._data)

    def read(self, word: str) -> None:
        """Read one word of the script."""
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"not a word of a script: {word!r}")
        kind, checkpoint, channel = match[1], int(match[2] or -1), int(match[3])
        if kind == "D":
            self._receive(channel)
        elif kind == "B":
            self._hear(self._alignment.barrier(channel, checkpoint, unaligned=self._unaligned))
        elif kind == "X":
            self._hear(self._alignment.cancelled(channel, checkpoint))
        else:
            self._hear(self._alignment.ended(channel))

    def _receive(self, channel: int) -> None:
        if channel not in self._alignment.channels.blocked:
            self._alignment.channels.received(channel)
            self._data[channel] += 1
            self._hold(self._alignment.in_flight)

    def _hear(self, outcomes: Iterable[Outcome]) -> None:
        aborts = [outcome for outcome in outcomes if isinstance(outcome, Aborted)]
        # One that the cancellation of a later one leaves over is only left over in Flink: nothing is said of it.
        self._aborts += aborts[-1:]
        for outcome in outcomes:
            if isinstance(outcome, AlignedSnapshot):
                self._snapshots.append(outcome.checkpoint)
            elif isinstance(outcome, Aligned):
                self._hold(outcome.in_flight)

    def _hold(self, in_flight: Mapping[int, tuple[int, int]]) -> None:
        self._held |= {
            (channel, at)
            for channel, (start, end) in in_flight.items()
            for at in range(max(start, self._before[channel]), end)
        }
