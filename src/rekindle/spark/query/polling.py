"""The polling of a query's inputs: at once when there is something for it, and rarely while there is not.

Spark polls. At every trigger it asks each source how far it could read, which costs its file source 10 to 30 ms however
little there is: ten idle tasks would keep a core busy. Most of ours read inboxes alone, and what comes into an inbox is
our own doing, so they need not look for it: they are woken (`Polling.wake`). A task with a `Stream` polls every
`STREAM_MS`; the others look by themselves every `INBOXES_MS`, so that Spark's reports on them stay fresh.

A look lists the inboxes. Where that is paid for, as in a bucket, a query that has found nothing for long looks less
often: a tenth of the time that it has found nothing passes between two looks, up to `longest_ms`.

Spark has no call that wakes a query. But its trigger waits for a clock, and Spark has one that is set by hand: it is
put in the place of the trigger's own. Neither is part of Spark's public interface. Where this cannot be done, the query
is triggered every `INTERVAL_MS`, as it was started, and waking it does nothing.

`wake` and `last_report` call nothing in the JVM, where a call may hang: the driver's loop uses them. A thread of the
query's does it for them.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.session.classes import java_class
from rekindle.spark.inputs.catching_up import Looks
from rekindle.spark.query.batches import Batches
from rekindle.spark.query.passing import finds_nothing
from rekindle.spark.query.rows_read import Report, RowsRead, last_batch

INTERVAL_MS = 500
"""Interval of the trigger that a query is started with."""
STREAM_MS = 500
"""The pause between two looks of a query with a `Stream` that finds nothing; after a batch it looks at once."""
INBOXES_MS = 10_000
"""The pause between two looks of a query that reads inboxes alone and is not woken."""

QUIET_MS = 1_000
"""The longest pause of a query with a `Stream`, as `INBOXES_MS` is of the others, times the store's pace."""
_PART_OF_SILENCE = 0.1

_TAKE_OVER_MS = 20
"""The pause between two looks for the trigger of a query that has just been started."""

_REPORT_S = 0.9
"""The least time between two looks for the report on a new batch: a little less than the driver's heartbeat takes."""
_IDLE_REPORT_S = 30.0
"""The same while there is no new batch: nothing that is shown changes then, and to fetch a report costs as much."""

_LONG_LOOK_S = 5.0
"""The pause between two questions whether a look is under way, while none was."""

_LOG = logging.getLogger(__name__)


def longest_ms(every_ms: int, pace: int) -> int:
    """Return the longest pause between two looks of a query whose inboxes are in a store of this pace."""
    return every_ms if pace == 1 else max(every_ms, QUIET_MS) * pace


@dataclass(frozen=True, slots=True)
class Polls:
    """The polling of all queries of one subtask."""

    #: True if they read inboxes alone
    only_inboxes: bool
    #: counts what they read
    rows_read: RowsRead
    #: called with what lets a query look, each time that one has begun to run
    begun: Callable[[Looks], None] = lambda _: None

    def begin(self, spark: SparkSession, pace: int, batches: Batches) -> Polling:
        """Return the polling of the next query, which runs `batches`; its inboxes are in a store of this pace."""
        every_ms = INBOXES_MS if self.only_inboxes else STREAM_MS
        at_most_ms = longest_ms(every_ms, pace)
        return Polling(
            spark,
            every_ms=every_ms,
            at_most_ms=at_most_ms,
            rows_read=self.rows_read,
            busy=lambda: batches.running is not None,
            looks=batches.occupation.looks,
        )

    def runs(self, query: StreamingQuery, wake: Callable[[], None]) -> None:
        """Let it be known that a query runs, and what wakes it."""

        def look(found_nothing: Callable[[int], None]) -> None:
            def listen() -> None:
                if (watermark_ms := finds_nothing(query, wake)) is not None:
                    found_nothing(watermark_ms)

            threading.Thread(target=listen, name=f"finds-nothing-{query.runId}", daemon=True).start()

        self.begun(look)


class Polling:
    """The trigger of one run of one query; `wake` and `last_report` may be called from any thread.

    Args:
        every_ms: the pause between two looks.
        at_most_ms: the same after a long silence; None: `every_ms`.
        busy: tells whether a batch is at work: unless it is asked to, the query does not look right after that then.
        looks: called with whether the query is at a look, and if it was at one before, at the same.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        every_ms: int,
        at_most_ms: int | None = None,
        rows_read: RowsRead | None = None,
        busy: Callable[[], bool] = lambda: False,
        looks: Callable[[bool], None] = lambda still: None,
    ) -> None:
        self._busy = busy
        self._looks = looks
        #: time from which on it is asked whether a look is under way
        self._ask_s = time.monotonic() + _LONG_LOOK_S
        self._jvm: Any = spark._jvm
        #: counts what the reports say
        self._rows_read = rows_read
        self._every_s = every_ms / 1000
        self._at_most_s = max(at_most_ms or 0, every_ms) / 1000
        #: time at which something was last found for it, as far as that is known here
        self._found_s = time.monotonic()
        #: the clock that the trigger waits for; None until it does, and where it cannot be had
        self._clock: Any = None
        #: something is to be done for the query: see `_tend`
        self._called = threading.Event()
        self._wanted = False
        self._asked = False
        #: the last batch that the driver knows of
        self._batch = -1
        self._ended = False
        self._report: Report = {}
        self._fetched_s = float("-inf")
        #: a stop and the query's own thread may fetch it at the same time, and its rows are counted once
        self._fetching = threading.Lock()

    def wake(self) -> None:
        """Let the query look for something to do now, or once more after the batch that it is at."""
        self._wanted = True
        self._called.set()

    def pause_s(self, now_s: float) -> float:
        """Return how long after `now_s` it looks again unless it is woken."""
        return min(max(self._every_s, _PART_OF_SILENCE * (now_s - self._found_s)), self._at_most_s)

    def last_report(self, batch: int) -> Report:
        """Return Spark's last report as far as it is known here, and have it fetched for the next time.

        Args:
            batch: the last that has been recorded. Where the report is on that, a newer one is not urgent.
        """
        self._batch, self._asked = batch, True
        if self._is_due():  # to wake the thread that fetches it costs more than all else that a heartbeat does here
            self._called.set()
        return self._report

    def _is_due(self) -> bool:
        return time.monotonic() >= self._fetched_s + self.report_lasts_s()

    def report_lasts_s(self) -> float:
        """Return after how many seconds a report is fetched again."""
        return _REPORT_S if last_batch(self._report) < self._batch else _IDLE_REPORT_S

    def watch(self, query: StreamingQuery) -> None:
        """Poll until `query` ends; raise what it has failed of, as `StreamingQuery.awaitTermination` does."""
        tended = threading.Thread(target=self._tend, args=(query,), name="tend-query", daemon=True)
        try:
            if self._has_taken_over(query):
                tended.start()
                query.awaitTermination()
        finally:
            self._ended = True
            self._called.set()

    def fetch_report(self, query: StreamingQuery) -> Report:
        """Ask Spark for its last report; an empty one where there is none."""
        with self._fetching:
            report = query.lastProgress
            if report is not None:
                self._report = dict(report)
                if self._rows_read is not None:
                    self._tried(partial(self._count, query, self._rows_read))
            return self._report

    def _count(self, query: StreamingQuery, rows_read: RowsRead) -> None:
        """Count the rows of the last report, and of those before it that were not fetched."""
        missed: list[Report] = []
        if self._report["batchId"] > rows_read.batch:
            reports = query._jsq.recentProgress()
            for index in range(len(reports) - 1, -1, -1):
                report = reports[index]
                if report.batchId() < rows_read.batch:
                    break
                missed.append(json.loads(report.json()))
        for one in (*reversed(missed), self._report):
            rows_read.reported(one)

    def _has_taken_over(self, query: StreamingQuery) -> bool:
        """Put a clock of ours into the query's trigger, where that can be done; False if the query ends before."""
        try:
            while not self._take_over(query):
                if query._jsq.awaitTermination(_TAKE_OVER_MS):
                    return False
        except Exception as error:
            _LOG.debug("Spark's trigger cannot be woken, and polls every %d ms: %s", INTERVAL_MS, error)
        return True

    def _take_over(self, query: StreamingQuery) -> bool:
        trigger = query._jsq.streamingQuery().triggerExecutor()
        if trigger is None:
            return False
        system = java_class(self._jvm, "java.lang.System")
        clock = java_class(self._jvm, "org.apache.spark.util.ManualClock")(system.currentTimeMillis())
        field = trigger.getClass().getDeclaredField("clock")
        field.setAccessible(True)
        field.set(trigger, clock)
        # A wake that could do nothing until now is still wanted.
        self._clock = clock
        # Meanwhile the trigger may have taken the time of its own clock for the next look: to wake it once would be too
        # little if ours were before that.
        clock.setTime(system.currentTimeMillis())
        return True

    def _tend(self, query: StreamingQuery) -> None:
        """Wake the query, and fetch its reports, until it ends."""
        wake_s = time.monotonic() + self._every_s
        while True:
            self._called.wait(max(wake_s - time.monotonic(), 0))
            self._called.clear()
            if self._ended:
                self._looks(False)
                return
            now_s = time.monotonic()
            # It is read once: a wake that comes from here on is for the next round.
            wanted = self._wanted
            if wanted:
                self._wanted, self._found_s = False, now_s
            if wanted or now_s >= wake_s:
                wake_s = now_s + self.pause_s(now_s)
                if wanted or not (self._busy() or self._is_looking(query, now_s)):
                    self._looks(False)
                    self._tried(lambda: self._clock and self._clock.advance(INTERVAL_MS))
            if self._asked and self._is_due():
                self._asked, self._fetched_s = False, now_s
                self._tried(lambda: self.fetch_report(query))

    def _is_looking(self, query: StreamingQuery, now_s: float) -> bool:
        """Return True if a look is under way. It is not woken then: at one the next time, it is at the same."""
        active = False

        def ask() -> None:
            nonlocal active
            active = query._jsq.status().isTriggerActive()

        if self._clock is not None and now_s >= self._ask_s:
            self._tried(ask)
            if active:
                self._looks(True)
            else:
                self._ask_s = now_s + _LONG_LOOK_S
        return active

    def _tried(self, act: Callable[[], object]) -> None:
        """Run `act`; ignore its failure, which means that Spark is gone: others report that."""
        try:
            act()
        except Exception as error:
            _LOG.debug("A query could not be reached: %s", error)
