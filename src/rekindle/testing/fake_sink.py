"""A two-phase sink that is nothing but memory, and breaks where a test says.

It outlives the drivers that use it, as a database does: a test gives the same sink to one run after the other. Its rows
are whatever the runner hands it; `FakeRunner` hands it lists of numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import TwoPhaseSink
from rekindle.sinks.two_phase import Committable, SinkBatch


class FakeSink(TwoPhaseSink):
    """Rows staged, and rows committed.

    Attributes:
        staged: attempt → its rows, prepared and invisible.
        committed: attempt → its rows, visible.
        permits: the checkpoint of each call of ``commit``, repeated ones included.
        before: name of a method → called first; may raise, or hang.
        places: its addresses.
    """

    kind: ClassVar[str] = "Fake"
    output_modes: tuple[str, ...] = ("append", "update", "complete")

    def __init__(self) -> None:
        self.staged: dict[str, list[Any]] = {}
        self.committed: dict[str, list[Any]] = {}
        self.permits: list[int] = []
        #: job → its newest checkpoint
        self._newest: dict[str, int] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.places: tuple[str, ...] = ()
        self._job = self._sink = ""
        self._lock = threading.Lock()

    @property
    def rows(self) -> list[Any]:
        """Every committed row; one that was committed twice is there twice."""
        with self._lock:
            return [row for rows in self.committed.values() for row in rows]

    @property
    def addresses(self) -> tuple[str, ...]:
        """See `TwoPhaseSink`."""
        return self.places

    def examine(self, claim: Any, columns: Any) -> int | None:
        """See `TwoPhaseSink`."""
        self._job, self._sink = claim.owner, claim.sink
        self._called("examine")
        return self.newest_committed()

    def open(self, job: str, sink: str) -> None:
        """See `TwoPhaseSink`."""
        self._job, self._sink = job, sink
        self._called("open")

    def prepare(self, df: Any, batch: SinkBatch) -> Sequence[Committable]:
        """See `TwoPhaseSink`; `df` is a list. A batch without rows has nothing to commit."""
        self._called("prepare")
        attempt = batch.name
        if not df:
            return []
        with self._lock:
            self.staged[attempt] = list(df)
        return [{"attempt": attempt, "rows": len(df)}]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """See `TwoPhaseSink`."""
        self.permits.append(permit.checkpoint)
        self._called("commit")
        for committable in committables:
            attempt = committable["attempt"]
            with self._lock:
                if attempt in self.committed:
                    continue
                if attempt not in self.staged:
                    raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=attempt)
                self.committed[attempt] = self.staged.pop(attempt)
        self._newest[self._job] = max(permit.checkpoint, self._newest.get(self._job, 0))

    def newest_committed(self) -> int | None:
        """See `TwoPhaseSink`."""
        return self._newest.get(self._job)

    def rewind(self, to: int, commits: Mapping[int, Sequence[Committable]]) -> None:
        """See `TwoPhaseSink`."""
        self._called("rewind")
        for committable in (one for each in commits.values() for one in each):
            with self._lock:
                self.staged.pop(committable["attempt"], None)
                self.committed.pop(committable["attempt"], None)

    def abort(self, committables: Sequence[Committable]) -> None:
        """See `TwoPhaseSink`."""
        self._called("abort")
        with self._lock:
            for committable in committables:
                self.staged.pop(committable["attempt"], None)

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """See `TwoPhaseSink`."""
        self._called("clean")
        kept = {committable["attempt"] for committable in named}
        for attempt in sorted(self.staged):
            batch = SinkBatch.named(attempt, job=self._job, sink=self._sink)
            if attempt not in kept and batch is not None and may_remove(batch):
                self.staged.pop(attempt, None)

    def finish(self) -> None:
        """See `TwoPhaseSink`."""
        self._called("finish")

    def close(self) -> None:
        """See `TwoPhaseSink`."""
        self._called("close")

    def _called(self, method: str) -> None:
        self.before.get(method, _nothing)()


def _nothing() -> None:
    """Break nothing."""
