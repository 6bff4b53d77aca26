"""Drivers of one job that overlap, over a sink: one is paused, is taken for dead, is overtaken, and wakes up.

What a driver does with a sink is played as the protocol has it, over a storage that is a few dicts and never wrong:

- a run is claimed, and fences the earlier ones; the next number of a checkpoint is void from then on;
- it cleans up, and commits what the newest manifest names, unless that is marked as committed;
- of a batch the first record counts, no matter which driver made it; an attempt that lost is aborted;
- a manifest is created under the next number, if no other run has used it; then it is committed and marked.

A driver looks at the fence between these acts, never in the middle of one, and each may come as late as chance has it.
Every attempt at a batch has rows of its own, so it shows which one was committed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.sinks.two_phase import Committable

Row = tuple[int, str | None]

BATCHES_AT_MOST = 4
"""The number of batches that a driver prepares at most."""


class FencedError(Exception):
    """A newer run has taken over."""


@dataclass(frozen=True, slots=True)
class RivalRecord:
    """The record of a batch."""

    batch: SinkBatch
    rows: Sequence[Row]
    made: Sequence[Committable]


@dataclass(slots=True)
class Storage:
    """The storage that the drivers of a job share; each change is one act."""

    newest_run: int = 0
    #: batch → its record
    records: dict[int, RivalRecord] = field(default_factory=dict)
    #: number of a checkpoint → the batches that it commits; None where the number is void
    numbers: dict[int, range | None] = field(default_factory=lambda: {0: range(0)})
    #: checkpoints that are marked as committed
    marked: set[int] = field(default_factory=lambda: {0})
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> int:
        """Begin a run."""
        with self._lock:
            self.newest_run += 1
            return self.newest_run

    def void(self) -> int:
        """Use up the next number; return it."""
        with self._lock:
            number = max(self.numbers) + 1
            self.numbers[number] = None
            return number

    def create(self, number: int, batches: range) -> bool:
        """Create a manifest; return False where the number is used."""
        with self._lock:
            return self.numbers.setdefault(number, batches) is batches

    def adopt(self, record: RivalRecord) -> RivalRecord:
        """Create a record; return the one that counts."""
        with self._lock:
            return self.records.setdefault(record.batch.batch, record)

    @property
    def newest_manifest(self) -> tuple[int, range]:
        """The number of the newest manifest, and the batches that it commits."""
        return max((number, batches) for number, batches in self.numbers.items() if batches is not None)

    def made(self, batches: range) -> list[Committable]:
        """Return the committables that the records of some batches name."""
        return [one for batch in batches for one in self.records[batch].made]

    def rows(self) -> Counter[Row]:
        """Count the rows of the batches that manifests name."""
        named = (batch for batches in self.numbers.values() for batch in batches or ())
        return Counter(row for batch in named for row in self.records[batch].rows)


class RivalDriver:
    """One driver.

    Args:
        open_sink: a sink as a driver has it that has just started.
        prepare: prepares rows for a batch.
        hear: called between any two acts.
    """

    def __init__(
        self,
        storage: Storage,
        chance: random.Random,
        open_sink: Callable[[], TwoPhaseSink],
        prepare: Callable[[TwoPhaseSink, Sequence[Row], SinkBatch], list[Committable]],
        hear: Callable[[str], None],
    ) -> None:
        self._storage, self._chance = storage, chance
        self._open_sink, self._prepare, self._hear = open_sink, prepare, hear
        self._run = self._used = 0
        #: the last batch that it has run, and the last one that a manifest names
        self._last = self._covered = -1
        #: failures while this run was in force, and after it
        self.failures: list[Exception] = []
        self.late_failures: list[Exception] = []

    def drive(self) -> None:
        """Begin a run, continue for some batches; end where it sees that it is fenced, or where a call fails."""
        try:
            sink = self.begin()
            for _ in range(self._chance.randint(1, BATCHES_AT_MOST)):
                self._refuse_if_fenced()
                self.process(sink)
                if self._chance.random() < 0.6:
                    self.checkpoint(sink)
        except FencedError:
            return
        except Exception as error:
            (self.late_failures if self._is_fenced() else self.failures).append(error)

    def begin(self) -> TwoPhaseSink:
        """Claim a run, clean up, finish the commit of the run before."""
        storage = self._storage
        self._run = storage.claim()
        self._hear("run.create/after")
        self._refuse_if_fenced()
        self._used = storage.void()
        last = max(storage.records, default=-1)
        number, batches = storage.newest_manifest
        self._last = self._covered = batches.stop - 1
        cut_short = number not in storage.marked
        named = storage.made(range(batches.start if cut_short else batches.stop, last + 1))
        sink = self._open_sink()

        def may_remove(batch: SinkBatch) -> bool:
            may = batch.batch <= last and not self._is_fenced()
            self._hear(f"may remove {batch.name}: {may}")
            return may

        sink.clean(named, may_remove)
        if cut_short:
            self._commit(sink, number)
        return sink

    def process(self, sink: TwoPhaseSink) -> None:
        """Run the next batch that has no record."""
        storage = self._storage
        while self._last + 1 in storage.records:
            self._last += 1
        number = self._last + 1
        if self._chance.random() < 0.15:
            self._attempt(sink, number)  # one that failed after it
        record = self._attempt(sink, number)
        if storage.adopt(record) is not record:
            self._hear("sink.abort/before")
            sink.abort(record.made)
        self._last = number

    def _attempt(self, sink: TwoPhaseSink, number: int) -> RivalRecord:
        attempt = f"{self._chance.getrandbits(32):08x}"
        batch = SinkBatch(
            job="job-1234",
            sink="out",
            task="t-1",
            subtask=0,
            lineage=1,
            batch=number,
            run=self._run,
            attempt=attempt,
        )
        rows = [(10 * number + place, attempt) for place in range(2)]
        record = RivalRecord(batch, rows, self._prepare(sink, rows, batch))
        self._hear("record.create/before")
        return record

    def checkpoint(self, sink: TwoPhaseSink) -> None:
        """Complete a checkpoint and commit it."""
        self._refuse_if_fenced()
        self._hear("manifest.create/before")
        if not self._storage.create(self._used + 1, range(self._covered + 1, self._last + 1)):
            raise FencedError
        self._used, self._covered = self._used + 1, self._last
        self._hear("manifest.create/after")
        self._refuse_if_fenced()
        self._commit(sink, self._used)

    def _commit(self, sink: TwoPhaseSink, number: int) -> None:
        batches = self._storage.numbers[number]
        assert batches is not None
        self._hear(f"sink.commit {number}/before")
        made = self._storage.made(batches)
        if made:
            sink.commit(made, CommitPermit(checkpoint=number))
        self._hear(f"sink.commit {number}/after")
        self._storage.marked.add(number)

    def _is_fenced(self) -> bool:
        return self._storage.newest_run > self._run

    def _refuse_if_fenced(self) -> None:
        if self._is_fenced():
            raise FencedError


def settle(last: RivalDriver, after: RivalDriver) -> None:
    """Bring the job to an end that is known to the last row; nothing is left to clean after it."""
    sink = last.begin()
    last.process(sink)
    last.checkpoint(sink)
    after.begin()
