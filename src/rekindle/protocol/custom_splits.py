"""The splits of a custom source: which there are, who reads which, and how far each is read.

Theory of operation
-------------------

A *split* is a part of a source that is read by itself: a partition, an account, a page of results. It is any JSON
value, and is known by that value. A *position* in it is a JSON value too, None at its beginning. A split may also begin
at a position: that is written down with who reads it, so it stays what it was when the split was discovered.

The enumerator knows the splits. One that is discovered is given, at once and for as long as the lineage lasts, to the
subtask that was given the fewest. What is given is written down before anyone acts on it, so the *log* of that is all
there is to know. A split that was known once is never given again.

A reader is a subtask. It takes up what it was given in that order. Its open splits are read in turn: the first of them
next, which then goes to the end of the row. `ReaderState` is all that it keeps; it is written down with each read.

A checkpoint holds both as *operator state* (FLIP-147, Operator state; FLIP-27): the open splits of each reader are list
state, dealt out again on a restore. What is ended, and what no reader had taken up, is the coordinator's. A reader that
has finished leaves a marker, since all of its splits have ended; when all have finished nothing is left, and nothing is
started again.

This module does not know what splits are, how they are read, nor where any of this is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.protocol.operator_state import NamedState, OperatorState, StateKind, SubtaskState

SPLITS = "splits"
"""Name of the list state that holds the open splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split, and how far it is read."""

    #: what it is known by, JSON
    id: Any
    #: JSON; None at its beginning
    position: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSplit:
    """An entry of the log: who reads a split, and from where."""

    split: Split
    subtask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """What one subtask keeps of a custom source."""

    #: how many of the splits that it was given in this lineage it has taken up
    given: int = 0
    #: those of them that have not ended, the next one to be read first
    open: tuple[Split, ...] = ()

    def with_given(self, given: Sequence[Split]) -> ReaderState:
        """Return the state with all that it was given taken up."""
        return ReaderState(given=max(self.given, len(given)), open=(*self.open, *given[self.given :]))

    def after_read(self, split: Split, position: Any, *, ended: bool) -> ReaderState:
        """Return the state once an open split is read up to `position`; it goes to the end of the row."""
        # By keys: to Python the splits 1, 1.0 and True are one.
        others = tuple(one for one in self.open if key_of(one.id) != key_of(split.id))
        return ReaderState(given=self.given, open=others if ended else (*others, Split(id=split.id, position=position)))


def key_of(split: Any) -> str:
    """Return what tells a split from others: equal JSON values have the same key."""
    return json.dumps(split, sort_keys=True, separators=(",", ":"))


class SplitEnumerator:
    """The splits of one custom source for one task, and who reads them.

    Args:
        parallelism: how many subtasks there are.
        restored: the operator state that the lineage began with; None where it began with nothing.
    """

    def __init__(self, parallelism: int, restored: OperatorState | None = None) -> None:
        self._parallelism = parallelism
        self._given: list[list[Split]] = [[] for _ in range(parallelism)]
        #: keys of those that had ended before
        self._ended: list[str] = []
        #: known before, and given to no one in this lineage yet
        self._waiting: dict[str, Split] = {}
        #: whether the source was asked for its splits
        self.discovered = False
        #: entries of the log
        self.entries = 0
        if restored is not None:
            self._restore(restored)
        self._known = {*self._ended, *self._waiting, *(key_of(one.id) for part in self._given for one in part)}

    def _restore(self, restored: OperatorState) -> None:
        for part, state in zip(self._given, restored.reassigned(self._parallelism), strict=True):
            part.extend(map(_split_of, state[SPLITS].entries if state and SPLITS in state else ()))
        coordinator = restored.coordinator or {}
        self._ended = list(coordinator.get("ended", ()))
        self._waiting = {key_of(one["id"]): _split_of(one) for one in coordinator.get("waiting", ())}
        # What has wholly finished has no coordinator any more, and no more splits.
        self.discovered = restored.fully_finished or bool(coordinator.get("discovered"))

    def given_to(self, subtask: int) -> Sequence[Split]:
        """Return what a subtask was given, in the order it takes it up."""
        return self._given[subtask]

    @property
    def waits(self) -> bool:
        """Whether known splits are still to be given."""
        return bool(self._waiting)

    def new_among(self, discovered: Iterable[Any]) -> dict[str, Any]:
        """Return key → split of those that were not known."""
        return {key: one for one in discovered if (key := key_of(one)) not in self._known}

    def give(self, discovered: Iterable[Any], begin: Mapping[str, Any] | None = None) -> tuple[GivenSplit, ...]:
        """Say who is to read what is new among `discovered`, and what is known and waits. Changes nothing: `append`
        does.

        Args:
            begin: key of a new split → the position at which it begins; others begin at their beginning.
        """
        places = begin or {}
        new = dict(self._waiting)
        new |= {key: Split(id=one, position=places.get(key)) for key, one in self.new_among(discovered).items()}
        loads = [len(part) for part in self._given]
        given = []
        for split in new.values():
            subtask = loads.index(min(loads))
            loads[subtask] += 1
            given.append(GivenSplit(split=split, subtask=subtask))
        return tuple(given)

    def append(self, given: Iterable[GivenSplit]) -> None:
        """Take in the next entry of the log."""
        self.entries += 1
        self.discovered = True
        for one in given:
            key = key_of(one.split.id)
            self._known.add(key)
            self._waiting.pop(key, None)
            self._given[one.subtask].append(one.split)

    def state(
        self,
        readers: Mapping[int, ReaderState],
        finished: Collection[int] = (),
        own: Mapping[int, SubtaskState] | None = None,
    ) -> OperatorState:
        """Return what a checkpoint holds.

        Args:
            readers: of each subtask that has not finished, where it stood.
            finished: subtasks that are over for good.
            own: what the source itself keeps for each subtask, under names of its own.
        """
        opened = {subtask: reader.open for subtask, reader in readers.items()}
        ahead = [one for subtask, reader in readers.items() for one in self._given[subtask][reader.given :]]
        waiting = [*self._waiting.values(), *ahead]
        going = {key_of(one.id) for part in (*opened.values(), waiting) for one in part}
        coordinator = {
            "discovered": self.discovered,
            "ended": sorted(self._known - going),
            "waiting": [_entry(one) for one in waiting],
        }
        states: dict[int, SubtaskState] = {
            subtask: {
                SPLITS: NamedState(StateKind.LIST, [_entry(one) for one in part]),
                **(own or {}).get(subtask, {}),
            }
            for subtask, part in opened.items()
        }
        return OperatorState.gathered(self._parallelism, states, finished=finished, coordinator=coordinator)


def _entry(split: Split) -> dict[str, Any]:
    return {"id": split.id, "position": split.position}


def _split_of(entry: Mapping[str, Any]) -> Split:
    return Split(id=entry["id"], position=entry["position"])
