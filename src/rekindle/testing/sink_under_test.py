"""A sink as a driver uses it, and what befalls it: what the tests of `sink_contract` are written with."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.sinks.two_phase import Committable
from rekindle.testing.effects import at_moments, crash_at
from rekindle.testing.sink_rivals import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def permit(checkpoint: int = 1) -> CommitPermit:
    """Make a permit as the protocol hands it out once the manifest exists."""
    return CommitPermit(checkpoint=checkpoint)


def batch_of(
    batch: int, *, subtask: int = 0, run: int = 1, attempt: str = "aa", job: str = "job-1234", sink: str = "out"
) -> SinkBatch:
    """Make the description of an attempt at a batch."""
    return SinkBatch(job=job, sink=sink, task="t-1", subtask=subtask, lineage=1, batch=batch, run=run, attempt=attempt)


class SinkUnderTest(ABC):
    """A sink in a test: its makers, the readers of its target, and what a driver, a crash or a rival does to it."""

    #: dotted names of the functions through which the sink acts on the world, in ``prepare``, ``commit``, ``abort``
    #: and ``clean``
    effects: ClassVar[Sequence[str]] = ()
    #: dotted names of the functions through which it looks at the world, in ``commit`` and ``clean``: what it has seen
    #: may have changed when it acts. The more are named, the more is found by drivers that overlap
    looks: ClassVar[Sequence[str]] = ()
    #: passwords and the like that `make` gives to the sink: they must not be found in what is stored or shown
    secrets: ClassVar[Sequence[str]] = ()
    #: for how many seconds a rival may act in the middle of a commit before that continues; a rival that waits for a
    #: lock which the commit holds waits as long at each of its moments
    rival_waits_s: ClassVar[float] = 5.0

    @abstractmethod
    def make(self, target: Any) -> TwoPhaseSink:
        """Make a new sink on `target`, not open yet."""

    @abstractmethod
    def visible(self, spark: SparkSession, target: Any) -> Iterable[Row]:
        """Return what a reader of the target sees now; nothing where there is no target yet."""

    @abstractmethod
    def staged(self, target: Any) -> int:
        """Return how many attempts at batches have left something in the target that is not visible."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Any:
        """Return the path, not there yet, that the sinks of one test write to. Override it for what is no path."""
        return tmp_path / "target ä%20"

    # -- how a driver uses it -----------------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _world(self, spark: SparkSession, target: Any) -> Iterator[None]:
        self.spark, self.target = spark, target
        self._opened: list[TwoPhaseSink] = []
        self._reached = False
        yield
        for sink in self._opened:
            sink.close()

    def opened(self, job: str = "job-1234", sink: str = "out") -> TwoPhaseSink:
        """Open a new sink, as a driver of `job` that has just started does."""
        made = self.make(self.target)
        made.open(job, sink)
        self._opened.append(made)
        return made

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        """Return the rows as a DataFrame, on a session with two cores in two partitions: ``n int, text string``."""
        # A relation that Spark's planner holds itself is the quickest to write, and there are hundreds of writes.
        # Its parameters have names: Spark 4.1 takes those without in another order.
        args: dict[str, int | str | None] = {"n": None, "text": None}
        for number, (n, text) in enumerate(rows):
            args |= {f"n{number}": n, f"text{number}": text}
        values = ", ".join(f"(int(:n{number}), string(:text{number}))" for number in ("", *range(len(rows))))
        query = f"SELECT n, text FROM VALUES {values} AS rows (n, text) WHERE n IS NOT NULL"  # noqa: S608
        return self.spark.sql(query, args=args)

    def prepared(self, sink: TwoPhaseSink, rows: Sequence[Row], batch: SinkBatch) -> list[Committable]:
        """Prepare rows; return the committables as they come back from where they are kept."""
        kept: list[Committable] = json.loads(json.dumps(list(sink.prepare(self.frame(rows), batch))))
        return kept

    def rows(self) -> Counter[Row]:
        """Return what a reader sees, as a multiset: twice is twice."""
        return Counter(self.visible(self.spark, self.target))

    def _recover(self, made: Sequence[Committable], checkpoint: int) -> None:
        """Do what a driver does that starts after a crash: clean up, and commit what the newest manifest names."""
        sink = self.opened()
        sink.clean(made, lambda batch: True)
        sink.commit(made, permit(checkpoint))

    # -- what befalls it ----------------------------------------------------------------------------------------------

    def _two_batches(self, number: int) -> list[Committable]:
        """Prepare two batches for checkpoint `number`; return their committables."""
        sink, rows = self.opened(), rows_of(number)
        first = self.prepared(sink, rows[:2], batch_of(2 * number))
        return [*first, *self.prepared(sink, rows[2:], batch_of(2 * number + 1))]

    def _crash(self, number: int, act: Callable[[TwoPhaseSink], object]) -> None:
        """Let a driver die at moment `number` of what it does; note where."""
        sink = self.opened()
        with crash_at(number, self.effects) as crash:
            act(sink)
        self._reached = self._reached or crash.at is not None

    def _meanwhile(self, number: int, act: Callable[[], None], rival: Callable[[], None]) -> None:
        """Let a rival act at moment `number` of what is done; note whether there is such a moment."""
        moments = itertools.count(1)
        with ThreadPoolExecutor(1) as pool:
            running: list[Future[None]] = []

            def hear(moment: str) -> None:
                if next(moments) == number:
                    running.append(pool.submit(rival))
                    wait(running, self.rival_waits_s)

            with at_moments(hear, self.effects):
                act()
            self._reached = bool(running)
            (running or [pool.submit(rival)])[0].result()

    def _at_every_moment(self, act: Callable[[int], None], expected: Callable[[list[Row]], Counter[Row]]) -> None:
        """Act with numbers from 1 on until there is no such moment; nothing is lost, twice or left at any of them.

        Args:
            expected: of the rows of all checkpoints up to now, what must be seen.
        """
        done: list[Row] = []
        for number in itertools.count(1):
            self._reached = False
            act(number)
            done += rows_of(number)
            assert self.rows() == expected(done), f"moment {number}"
            assert self.staged(self.target) == 0, f"moment {number}"
            if not self._reached:
                assert number > 2, "effects names nothing that is done here"
                return


def rows_of(number: int) -> list[Row]:
    """Return the rows of checkpoint `number`."""
    return [(10 * number, "a"), (10 * number + 1, "b"), (10 * number + 2, None)]
