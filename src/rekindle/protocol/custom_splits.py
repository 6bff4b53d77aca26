"""The splits of a custom source: those that are known, their readers, and how far each is read.

Theory of operation
-------------------

A *split* is a part of a source that is read by itself: a partition, an account, a page of results. It is any JSON
value, and is identified by that value. A *position* in it is a JSON value too, None at its beginning. A split may also
begin at a position: the log records that position with the reader, so it stays as it was when the split was discovered.

The enumerator knows the splits. A discovered split is given at once, for as long as the lineage lasts, to the subtask
that was given the fewest. Each assignment is recorded in a *log* before any subtask acts on it, so the log is the whole
state. A split that was known once is never given again.

A reader is a subtask. It takes up the splits that it was given in that order. Its open splits are read in turn: the
first of them next, which then moves to the end of the queue. `ReaderState` is all that it keeps; each read records it.

A checkpoint holds both as *operator state* (FLIP-147, Operator state; FLIP-27): the open splits of each reader are list
state, dealt out again on a restore. Splits that have ended, or that no reader had taken up, are the coordinator's
state. A reader that has finished leaves a marker, since all of its splits have ended; when all have finished nothing is
left, and nothing is started again.

This module does not know what splits are, how they are read, or where any of this is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.protocol.operator_state import NamedState, OperatorState, StateKind, SubtaskState

SPLITS = "splits"
"""The name of the list state that holds the open splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split, and how far it is read."""

    #: JSON value that identifies it
    id: Any
    #: JSON value; None: at its beginning
    position: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSplit:
    """An entry of the log: a split with its position, and the subtask that reads it."""

    split: Split
    subtask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """The state of one subtask as a reader of a custom source."""

    #: number of the splits given to it in this lineage that it has taken up
    given: int = 0
    #: those of them that have not ended, the next one to be read first
    open: tuple[Split, ...] = ()

    def with_given(self, given: Sequence[Split]) -> ReaderState:
        """Return the state after all splits in `given` are taken up."""
        return ReaderState(given=max(self.given, len(given)), open=(*self.open, *given[self.given :]))

    def after_read(self, split: Split, position: Any, *, ended: bool) -> ReaderState:
        """Return the state after an open split is read up to `position`; the split moves to the end of the queue."""
        # By keys: to Python the splits 1, 1.0 and True are one.
        others = tuple(one for one in self.open if key_of(one.id) != key_of(split.id))
        return ReaderState(given=self.given, open=others if ended else (*others, Split(id=split.id, position=position)))


def key_of(split: Any) -> str:
    """Return the key of a split: equal JSON values have the same key."""
    return json.dumps(split, sort_keys=True, separators=(",", ":"))


class SplitEnumerator:
    """The splits of one custom source for one task, and the subtasks that read them.

    Args:
        parallelism: number of subtasks.
        restored: the operator state that the lineage began with; None: it began without one.
    """

    def __init__(self, parallelism: int, restored: OperatorState | None = None) -> None:
        self._parallelism = parallelism
        self._given: list[list[Split]] = [[] for _ in range(parallelism)]
        #: keys of those that had ended before
        self._ended: list[str] = []
        #: key → split that was known before, and is given to no subtask in this lineage yet
        self._waiting: dict[str, Split] = {}
        #: True once the source was asked for its splits
        self.discovered = False
        #: number of entries of the log
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
        # An operator that has fully finished has no coordinator state and no more splits.
        self.discovered = restored.fully_finished or bool(coordinator.get("discovered"))

    def given_to(self, subtask: int) -> Sequence[Split]:
        """Return the splits given to a subtask, in the order in which it takes them up."""
        return self._given[subtask]

    @property
    def waits(self) -> bool:
        """Return whether known splits are still to be given."""
        return bool(self._waiting)

    def new_among(self, discovered: Iterable[Any]) -> dict[str, Any]:
        """Return key → split of the discovered splits that were not known."""
        return {key: one for one in discovered if (key := key_of(one)) not in self._known}

    def give(self, discovered: Iterable[Any], begin: Mapping[str, Any] | None = None) -> tuple[GivenSplit, ...]:
        """Assign subtasks to the splits that are new among `discovered` or wait. This changes no state: `append` does.

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
        """Return the operator state for a checkpoint.

        Args:
            readers: subtask that has not finished → its state.
            finished: subtasks that have finished for good.
            own: subtask → state that the source itself keeps, under names of its own.
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
