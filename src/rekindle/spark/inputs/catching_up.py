"""The sources of one subtask that have not caught up yet, in a run that reads what is available now.

A source has caught up once all is read that it had when the subtask's query was started. Of a bounded one that is all
there is. A stream of Spark's is bound at the first batch to what is there then (`spark.streaming.available_now`); it
has caught up when a look finds nothing in any stream, or when a later batch has nothing of it. One that cannot be bound
has, once a batch after the first has read it. A custom source has, when none of its splits has anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rekindle.spark.inputs.input import Input
from rekindle.storage.documents.batch import BatchRecord


class CatchingUp:
    """The rest that one subtask has to read in a run of what is available now; in any other run, nothing.

    Args:
        is_wanted: whether the run is such a one.
        bind: binds streams, by their numbers in Spark's order, to what is there; returns those that cannot be bound.
            Called on the thread of a batch.
        caught_up: called once nothing is left, from whichever thread has found that out.
    """

    def __init__(
        self,
        inputs: Sequence[Input] = (),
        *,
        is_wanted: bool = False,
        bind: Callable[[Collection[int]], Collection[int]] = lambda numbers: numbers,
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        sources = [item for item in inputs if not item.is_channel]
        self._sources = sources if is_wanted and any(not item.bounded for item in sources) else []
        self._streams = [item for item in self._sources if item.feed is None]
        self._bind, self._caught_up = bind, caught_up
        self._lock = threading.Lock()
        self.begin()

    @property
    def listener(self) -> Callable[[], None] | None:
        """The one to call when a look of the query finds nothing; None if Spark itself reads none of the sources."""
        return self._found_nothing if self._streams else None

    def begin(self) -> None:
        """Begin again with a query that is about to be started: it asks every stream once more."""
        with self._lock:
            self._left = {item.uid for item in self._sources}
            self._is_bound = False
            self._unbound: Collection[int] = ()
            #: stream → where it stood after the last batch of this query
            self._stood: dict[str, Any] = {}

    def batch(self) -> None:
        """Bind the streams to what is there, in the first batch of a query."""
        if self._streams and not self._is_bound:
            self._unbound = self._bind([number for item in self._streams for number in item.spark_sources])
            self._is_bound = True

    def recorded(self, record: BatchRecord) -> None:
        """Take in a batch record, after the inputs have."""
        with self._lock:
            for item in self._streams:
                offset = record.inputs[item.uid].offset
                is_later = item.uid in self._stood
                if is_later and (
                    self._stood[item.uid] == offset or not set(item.spark_sources).isdisjoint(self._unbound)
                ):
                    self._left.discard(item.uid)
                self._stood[item.uid] = offset
        self._look()

    def _found_nothing(self) -> None:
        with self._lock:
            self._left -= {item.uid for item in self._streams}
        self._look()

    def rested(self, uid: str) -> None:
        """Take in that none of the splits of a custom source has anything."""
        with self._lock:
            self._left.discard(uid)
        self._look()

    def _look(self) -> None:
        with self._lock:
            self._left -= {item.uid for item in self._sources if item.ended}
            over = bool(self._sources) and not self._left
        if over:
            self._caught_up()
