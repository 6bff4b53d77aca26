"""Operator state: the state of connectors and the coordinator in a checkpoint, and how it is dealt out again.

Theory of operation
-------------------

Operator state is small and belongs to no key (keyed state is Spark's). A subtask gives, with its snapshot, entries
under names of its own choice, each name of one kind:

===========  ==========================================  ===================================================
kind         means                                       after a restore
===========  ==========================================  ===================================================
list         the entries are shared out among subtasks   dealt out again, round robin, each entry to one
union        every subtask needs all of them             all entries of all, to each
broadcast    all subtasks hold the same                  those of any one that has some, to each
===========  ==========================================  ===================================================

A finished subtask leaves a marker and no state, a task whose subtasks have all finished leaves nothing but that fact
(FLIP-147, option 3). Three things follow.

- **List state may move although nothing was rescaled.** The state is dealt out as if only the subtasks that still ran
  had existed. So, with a finished one among them, an entry of subtask 2 may come back in subtask 1, while the tasks
  around it keep their places, and its rows overtake each other. A user may rely on each entry coming back once, and on
  no more. Only where there are as many new subtasks as there were running ones does each take over one state as it is.
- **Union state ends all at once.** Without the entries of those that have finished the view would not be whole. So a
  checkpoint is declined while some subtasks of such a task have finished, or have called ``finish()``, and others have
  not (`check_union`); it counts as no failure. When all have called ``finish()``, one checkpoint serves them all; when
  all have been notified and closed, no state is left to be incomplete. Those that call ``finish()`` first must wait for
  the others: if they went with an earlier checkpoint, every later one would be declined, and the others never end.
- **Broadcast state** survives as long as one subtask runs that has it.

A custom source needs no more than this: its readers keep the splits that they are reading as *list* state under one
name, its enumerator keeps the splits not yet assigned as the `coordinator` state. The splits of a finished reader are
done; those of a running one may come back in any reader, which is what a split is for. When the whole source has
finished, the enumerator's state is dropped with the rest: nothing of it will be started again. One document for each
uid in the manifest (`OperatorState.to_json`) holds all of it.

All data here is plain JSON. This module does not know what entries mean, when a snapshot is taken, or where documents
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, ClassVar

from rekindle.errors import ProtocolError
from rekindle.protocol.reasons import Reason


class StateKind(Enum):
    """A kind of operator state: it decides how the entries of one name are dealt out after a restore."""

    LIST = "list"
    UNION = "union"
    BROADCAST = "broadcast"


def reassign(kind: StateKind, old: Mapping[int, Sequence[Any] | None], new_parallelism: int) -> list[list[Any]]:
    """Return the entries of each new subtask.

    Args:
        kind: kind of the state.
        old: old subtask → its entries; None: it has finished, an empty list: it has no entries.
        new_parallelism: number of subtasks now, at least 1; it need not differ from before.
    """
    held = [list(entries) for _, entries in sorted(old.items()) if entries is not None]
    return _DEALERS[kind](held, new_parallelism)


def _deal(held: list[list[Any]], parts: int) -> list[list[Any]]:
    if len(held) == parts:
        return held
    entries = list(chain.from_iterable(held))
    return [entries[part::parts] for part in range(parts)]


def _all_to_each(held: list[list[Any]], parts: int) -> list[list[Any]]:
    return [deepcopy([*chain.from_iterable(held)]) for _ in range(parts)]


def _any_to_each(held: list[list[Any]], parts: int) -> list[list[Any]]:
    return [deepcopy(next(filter(None, held), [])) for _ in range(parts)]


_DEALERS: dict[StateKind, Callable[[list[list[Any]], int], list[list[Any]]]] = {
    StateKind.LIST: _deal,
    StateKind.UNION: _all_to_each,
    StateKind.BROADCAST: _any_to_each,
}


@dataclass(frozen=True, slots=True)
class NamedState:
    """The entries of one subtask under one name."""

    kind: StateKind
    #: JSON values
    entries: list[Any]


SubtaskState = Mapping[str, NamedState]
"""The operator state of one subtask: name → entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """The operator state of one operator in a checkpoint.

    Raises:
        ProtocolError: ``INVARIANT_BROKEN`` if a subtask is out of range, a name has several kinds, or an operator
            that has fully finished would hold state.
    """

    parallelism: int
    #: subtask → its state; None: it has finished; a missing subtask has given no state
    subtasks: Mapping[int, SubtaskState | None]
    #: state of the coordinator, a JSON value; None: there is none
    coordinator: Any = None

    def __post_init__(self) -> None:
        outside = [subtask for subtask in self.subtasks if not 0 <= subtask < self.parallelism]
        if outside:
            raise _broken("a subtask has a number below the parallelism", f"{outside} of {self.parallelism}")
        if any(len(kinds) > 1 for kinds in self._kinds().values()):
            raise _broken("all state of one name is of one kind", str(self._kinds()))
        if self.fully_finished and self.coordinator is not None:
            raise _broken("a fully finished operator holds no state", "of its coordinator")

    @classmethod
    def gathered(
        cls,
        parallelism: int,
        states: Mapping[int, SubtaskState],
        *,
        finished: Collection[int] = (),
        coordinator: Any = None,
    ) -> OperatorState:
        """Return the state for a completed checkpoint: `states` of those that acknowledged it, and `finished` markers.

        The coordinator's state is dropped if all have finished (FLIP-147, Checkpoint Format with Finished Tasks).

        Raises:
            ProtocolError: ``INVARIANT_BROKEN`` if a finished subtask gave state.
        """
        markers: Mapping[int, SubtaskState | None] = dict.fromkeys(finished)
        both = sorted(states.keys() & markers.keys())
        if both:
            raise _broken("a finished subtask holds no state", f"subtasks {both}")
        over = len(markers) == parallelism
        return cls(parallelism=parallelism, subtasks={**states, **markers}, coordinator=None if over else coordinator)

    @classmethod
    def finished(cls, parallelism: int) -> OperatorState:
        """Return the state of an operator all of whose subtasks have finished."""
        return cls.gathered(parallelism, {}, finished=range(parallelism))

    @property
    def fully_finished(self) -> bool:
        """Return whether all subtasks have finished: the operator is not started again."""
        return len(self.subtasks) == self.parallelism and all(state is None for state in self.subtasks.values())

    @property
    def uses_union(self) -> bool:
        """Return whether any subtask holds union state, even an empty one."""
        return any(StateKind.UNION in kinds for kinds in self._kinds().values())

    def reassigned(self, new_parallelism: int) -> list[dict[str, NamedState] | None]:
        """Return the state of each new subtask; None: it is not started, since all subtasks had finished."""
        if self.fully_finished:
            return [None] * new_parallelism
        dealt: list[dict[str, NamedState]] = [{} for _ in range(new_parallelism)]
        for name, (kind,) in self._kinds().items():
            for part, entries in zip(dealt, reassign(kind, self._entries(name), new_parallelism), strict=True):
                part[name] = NamedState(kind, entries)
        return [*dealt]

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON document, which `from_json` reads."""
        if self.fully_finished:
            return {"parallelism": self.parallelism, "fully_finished": True}
        subtasks = {
            str(subtask): None
            if state is None
            else {name: {"kind": one.kind.value, "entries": one.entries} for name, one in state.items()}
            for subtask, state in sorted(self.subtasks.items())
        }
        return {"parallelism": self.parallelism, "subtasks": subtasks, "coordinator": self.coordinator}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> OperatorState:
        """Return the state that `to_json` wrote.

        Raises:
            KeyError, ValueError: it is no such document.
        """
        if document.get("fully_finished"):
            return cls.finished(document["parallelism"])
        subtasks = {
            int(subtask): None
            if state is None
            else {name: NamedState(StateKind(one["kind"]), one["entries"]) for name, one in state.items()}
            for subtask, state in document["subtasks"].items()
        }
        return cls(parallelism=document["parallelism"], subtasks=subtasks, coordinator=document["coordinator"])

    def _kinds(self) -> dict[str, set[StateKind]]:
        kinds: dict[str, set[StateKind]] = {}
        for state in self.subtasks.values():
            for name, one in (state or {}).items():
                kinds.setdefault(name, set()).add(one.kind)
        return kinds

    def _entries(self, name: str) -> dict[int, list[Any] | None]:
        states = {subtask: self.subtasks.get(subtask, {}) for subtask in range(self.parallelism)}
        return {
            subtask: None if state is None else state[name].entries if name in state else []
            for subtask, state in states.items()
        }


def _broken(invariant: str, detail: str) -> ProtocolError:
    return ProtocolError("INVARIANT_BROKEN", invariant=invariant, detail=detail, story="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The numbers of subtasks of a task that have ended, when all have acknowledged a checkpoint."""

    task: str
    parallelism: int
    #: number of its subtasks that had finished before the checkpoint
    closed: int = 0
    #: number of the others whose ``finish()`` had been called when their snapshot was ordered
    finished: int = 0
    #: True if any of its state is union state
    uses_union: bool = False


@dataclass(frozen=True, slots=True)
class UnionViolation:
    """The reason to decline a checkpoint for its union state."""

    task: str
    detail: str
    reason: ClassVar[Reason] = Reason.CHECKPOINT_DECLINED_TASK_CLOSING


def check_union(tasks: Iterable[Closing]) -> UnionViolation | None:
    """Return the violation if a checkpoint would keep a part of a union state; tasks partly closed come first.

    FLIP-147, Operator state: "if an operator checkpoints UnionListState, it can only finish all at once".
    """
    using = [task for task in tasks if task.uses_union]
    for task in using:
        if 0 < task.closed < task.parallelism:
            return UnionViolation(
                task.task, f"task {task.task!r} has union state and part of its subtasks have finished"
            )
    for task in using:
        if 0 < task.finished < task.parallelism:
            detail = f"task {task.task!r} has union state and part of its subtasks have called finish()"
            return UnionViolation(task.task, detail)
    return None
