"""The splits of one custom source, given to the subtasks of one task: the log of that, and what a checkpoint holds.

Which subtask reads which split is decided by `rekindle.protocol.custom_splits`; here its log is made durable, an entry
before anyone acts on it. Each entry is created if absent, and the second driver adopts what is there: so two drivers
give no split to two subtasks. The subtasks read on threads of their own, and each of them may be the one that asks the
source for its splits: a lock keeps them apart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rekindle.protocol.custom_splits import ReaderState, Split, SplitEnumerator
from rekindle.protocol.operator_state import NamedState, OperatorState, StateKind
from rekindle.storage import read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import SplitsGiven
from rekindle.storage.job_documents import JobDocuments


class CustomSplits:
    """The splits of a custom source that the subtasks of a task share.

    Args:
        folder: `read_layout.splits`.
        run: that of the driver.
        bounded: the source is asked for its splits once.
        restored: the operator state that the lineage began with; None: it began with nothing.
        kinds: what the source keeps itself: name → its kind.
    """

    def __init__(
        self,
        storage: JobDocuments,
        folder: str,
        run: int,
        parallelism: int,
        *,
        bounded: bool,
        restored: OperatorState | None,
        kinds: Mapping[str, StateKind],
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._run = run
        self._bounded = bounded
        self._kinds = kinds
        self._lock = threading.Lock()
        #: held while the source is asked, which may take long; the driver never waits for it
        self._asking = threading.Lock()
        self._asked_s = float("-inf")
        self._enumerator = SplitEnumerator(parallelism, restored)
        #: of each subtask, what the source kept itself when the lineage began
        self._own: list[dict[str, list[Any]]] = [{} for _ in range(parallelism)]
        if restored is not None:
            for own, state in zip(self._own, restored.reassigned(parallelism), strict=True):
                own |= {name: (state or {})[name].entries for name in kinds if name in (state or {})}
        while (entry := storage.read(self._next, SplitsGiven)) is not None:
            self._enumerator.append(entry.given)

    @property
    def _next(self) -> str:
        return read_layout.splits_given(self._folder, self._enumerator.entries)

    def given_to(self, subtask: int) -> Sequence[Split]:
        """Return what a subtask was given so far, in the order it takes it up."""
        with self._lock:
            return tuple(self._enumerator.given_to(subtask))

    def own_of(self, subtask: int) -> Mapping[str, list[Any]]:
        """Return what the source kept itself for a subtask when the lineage began, by name."""
        return self._own[subtask]

    @property
    def uses_union(self) -> bool:
        """True if the source keeps union-list state."""
        return StateKind.UNION in self._kinds.values()

    @property
    def complete(self) -> bool:
        """True if no split comes any more."""
        with self._lock:
            return self._bounded and self._enumerator.discovered and not self._enumerator.waits

    @property
    def discovered(self) -> bool:
        """True if the source was asked for its splits."""
        with self._lock:
            return self._enumerator.discovered

    def discover(
        self,
        splits: Callable[[], Iterable[Any]],
        begin: Callable[[Any], Any],
        now_s: float,
        every_s: float,
    ) -> None:
        """Ask the source for its splits and give out what is new; a bounded source is asked once.

        Args:
            splits: of the source; raises what the source raises, and nothing is given then.
            begin: returns the position at which a new split begins; raises what the source raises.
            now_s: the time, by any clock that runs while the driver lives.
            every_s: how long the source is not asked again.
        """
        with self._asking:
            with self._lock:
                is_due = not self._enumerator.discovered or not (self._bounded or now_s < self._asked_s + every_s)
                if not is_due and not self._enumerator.waits:
                    return
            found = tuple(splits()) if is_due else ()
            with self._lock:
                new = self._enumerator.new_among(found)
            places = {key: begin(one) for key, one in new.items()}
            self._asked_s = now_s
            with self._lock:
                given = self._enumerator.give(found, places)
                while given or not self._enumerator.discovered:
                    made = SplitsGiven(given=given, run=self._run)
                    self._enumerator.append(self._storage.adopt(self._next, made).given)
                    given = self._enumerator.give(found, places)

    def state(self, positions: Mapping[int, InputPosition], finished: Collection[int]) -> OperatorState:
        """Return what a checkpoint holds.

        Args:
            positions: where each subtask that has not finished for good stood in the source.
        """
        readers = {subtask: position.reader or ReaderState() for subtask, position in positions.items()}
        own = {
            subtask: {
                name: NamedState(kind, list(self._own_at(subtask, position).get(name, ())))
                for name, kind in self._kinds.items()
            }
            for subtask, position in positions.items()
        }
        with self._lock:
            return self._enumerator.state(readers, finished, own)

    def _own_at(self, subtask: int, position: InputPosition) -> Mapping[str, list[Any]]:
        return position.own if position.reads else self._own[subtask]
