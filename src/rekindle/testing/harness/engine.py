"""Spark as the engine of a tested run, which also tells when its tasks have nothing left to do.

Every task is made to look until it finds nothing, then the driver is made to turn its loop, so that what the tasks have
reported has had its effects; and so on until nothing changes any more. A task with timers of processing time never
rests: Spark runs batch after batch for it. It has nothing left to do once these leave its inputs where they were.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.handle import JobHandle
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.states import TaskStatus
from rekindle.results import JobResult, failure
from rekindle.runtime.definition import RunContext
from rekindle.runtime.ports import Subtasks, TaskRunner
from rekindle.session.session import prepare_session
from rekindle.spark.engine import SparkEngine
from rekindle.spark.plans.leftovers import waits_for_the_clock
from rekindle.spark.query.alive import is_active
from rekindle.spark.streaming.task import SparkTask
from rekindle.start.launch import Launch
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.lineage import Lineage
from rekindle.testing.harness.points import CrashedError, ManualTime, Points

_LOOK_S = 0.02
_ENDED = (TaskStatus.WAITING.value, TaskStatus.CLOSED.value)
_AT_REST = (TaskStatus.RUNNING.value, TaskStatus.RESTARTING.value, *_ENDED)
"""The states in which a task may stay for as long as no time passes."""


class TestedEngine(SparkEngine):
    """An `Engine` that remembers the run it was asked for."""

    __test__ = False
    assembled: _Assembled
    #: those whose queries never rest
    _restless: Mapping[SubtaskId, SparkTask]

    def assemble(self, run: RunContext, lineage: Lineage) -> Subtasks:
        """See `Engine`."""
        self.assembled = assembled = _Assembled(super().assemble(run, lineage), run)
        streams = {subtask: runner for subtask, runner in assembled.runners().items() if isinstance(runner, SparkTask)}
        self._restless = {subtask: runner for subtask, runner in streams.items() if _never_rests(runner)}
        return assembled


class _Assembled:
    """Subtasks of a run whose runners are made once."""

    def __init__(self, within: Subtasks, run: RunContext) -> None:
        self._within = within
        self._runners = within.runners()
        self.run = run
        self.splits, self.custom = within.splits, within.custom

    def runners(self) -> Mapping[SubtaskId, TaskRunner]:
        """See `Subtasks`."""
        return self._runners

    def read(self, subtask: SubtaskId, record: BatchRecord | None) -> dict[SubtaskId, int]:
        """See `Subtasks`."""
        return self._within.read(subtask, record)


class TestedEngines:
    """`Engines` of one: the session of the tests, which is not replaced."""

    __test__ = False

    def __init__(self, spark: SparkSession) -> None:
        self.engine = TestedEngine(prepare_session(spark))

    def make(self) -> TestedEngine:
        """See `Engines`."""
        return self.engine

    def forget_failed(self) -> None:
        """See `Engines`."""


def no_successor(since: int, failures: int) -> Launch:
    """Refuse another engine: the session is the test's own."""
    raise AssertionError("a session that was given is not replaced")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLife:
    """One driver of a tested job, from its start to its end."""

    handle: JobHandle
    engine: TestedEngine
    points: Points
    time: ManualTime

    def is_over(self) -> bool:
        """Return True if the driver has ended, or is dead."""
        return self.points.dead or not self.handle.is_running()

    def settle(self, deadline_s: float) -> None:
        """Wait until everything is processed, or the driver is over.

        Raises:
            TimeoutError: it was not by then.
        """
        before: object = None
        while not self.is_over():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the job does not come to rest:\n{self.handle.status()!r}")
            for runner in self._streams():
                self._exhaust(runner, deadline_s)
            self.turn()
            now = self._standing()
            if now is not None and now == before:
                return
            if now is None:
                time.sleep(_LOOK_S)
            before = now

    def turn(self) -> None:
        """Wait until the driver has heard all that was reported to it, and has acted on it."""
        for _ in range(2):
            before = self.time.looks
            self.engine.assembled.run.post(e.Ticked(now_ms=self.time.shown_ms()))
            while self.time.looks == before and not self.is_over():
                self.time.wait_for_look(before, _LOOK_S)

    def bury(self) -> None:
        """Wait until nothing of a dead driver runs any more."""
        self.points.die()
        with suppress(Exception):  # what it died of
            self.handle.wait()
        for runner in self._streams():
            query = runner._query._query
            while query is not None and query.isActive:
                time.sleep(_LOOK_S)

    def raise_what_ended_it(self) -> None:
        """Raise that the driver has died, or why the job has failed."""
        if self.points.dead:
            self.bury()
            raise CrashedError("the driver has died, as the test wanted")
        if not self.handle.is_running():
            error = failure(self.ended())
            if error is not None:
                raise error

    def ended(self) -> JobResult:
        """Wait until the driver has left; return how the job has ended."""
        result = self.handle.wait()
        assert result is not None, "a wait without a limit ends with the job"
        return result

    def _streams(self) -> list[SparkTask]:
        return [runner for runner in self.engine.assembled.runners().values() if isinstance(runner, SparkTask)]

    def _exhaust(self, runner: SparkTask, deadline_s: float) -> None:
        """Let the query of a task look until it finds nothing, or look once if it never rests."""
        query = runner._query._query
        if query is None:
            return
        done = threading.Event()
        restless = self._is_restless(runner)
        # Before its first data such a query rests, too.
        waits = [_look_once] * restless + [_process] * (not restless or runner._protocol.last < 0)
        for wait in waits:
            threading.Thread(target=wait, args=(runner, query, done), name="process-all", daemon=True).start()
        while not done.is_set() and not self.is_over() and time.monotonic() < deadline_s and query.isActive:
            runner._query.wake()
            done.wait(_LOOK_S)

    def _standing(self) -> tuple[object, ...] | None:
        """Return how far each task is; None while something is under way."""
        status, streams = self.handle.status(), self._streams()
        states = [task.status for task in status.tasks]
        if (
            not streams  # a batch run has nowhere to rest
            or any(map(self._is_busy, streams))
            or any(one.status == "in_progress" for one in status.history)
            or not all(state in _AT_REST for state in states)
            or all(state in _ENDED for state in states)  # the final checkpoint follows, and the end
        ):
            return None
        restless = self.engine._restless
        batches = {
            one: task.batch for task in status.tasks if (one := SubtaskId(task.uid, task.subtask)) not in restless
        }
        return (status.latest_checkpoint, states, batches, *map(_position, restless.values()))

    def _is_busy(self, runner: SparkTask) -> bool:
        query = runner._query._query
        if query is None:
            return False
        running = runner._protocol.running is not None and not self._is_restless(runner)
        # What a query has died of is on its way to the driver.
        return runner._intake.outstanding or running or not query.isActive

    def _is_restless(self, runner: SparkTask) -> bool:
        return runner in self.engine._restless.values()


def _never_rests(runner: SparkTask) -> bool:
    frame = runner._parts.frame
    return frame is not None and waits_for_the_clock(frame)


def _position(runner: SparkTask) -> object:
    positions = (item.position for item in runner._inputs)
    return [(one.admission, one.mark, one.reads, one.offset) for one in positions]


def _process(_: SparkTask, query: StreamingQuery, done: threading.Event) -> None:
    with suppress(Exception):  # what a query has died of is reported by its task
        query.processAllAvailable()
    done.set()


def _look_once(runner: SparkTask, query: StreamingQuery, done: threading.Event) -> None:
    """Wait until a batch is recorded that was planned since: the next one may have been planned before."""
    upto = runner._protocol.last + 2
    while runner._protocol.last < upto and is_active(query):
        time.sleep(_LOOK_S)
    done.set()
