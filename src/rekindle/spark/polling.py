"""When a query polls its inputs: at once when there is something for it, and seldom while there is not.

Spark polls. At every trigger it asks each source how far it could read, which costs its file source 10 to 30 ms however
little there is: ten idle tasks would keep a core busy. Most of ours read inboxes alone, and what comes into an inbox is
our own doing, so they need not look for it: they are woken (`Polling.wake`). A task with a `Stream` polls every
`STREAM_MS`; the others look by themselves every `INBOXES_MS`, so that Spark's reports on them stay fresh.

Spark has no call that wakes a query. But its trigger waits for a clock, and Spark has one that is set by hand: it is
put in the place of the trigger's own. Neither is part of Spark's public interface. Where this cannot be done, the query
is triggered every `INTERVAL_MS`, as it was told when it was started, and waking it does nothing.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_MS = 500
"""Interval of the trigger that a query is started with."""
STREAM_MS = 500
"""How often a query with a `Stream` looks for more while it finds nothing; behind a batch it looks at once."""
INBOXES_MS = 10_000
"""How often a query that reads inboxes alone looks by itself."""

_TAKE_OVER_MS = 20
"""Between two looks whether a query that has just been started has its trigger."""

_LOG = logging.getLogger("rekindle")


class Polling:
    """The trigger of one run of one query; `wake` may be called from any thread."""

    def __init__(self, spark: SparkSession, *, every_ms: int) -> None:
        self._jvm: Any = spark._jvm
        self._every_ms = every_ms
        #: what the trigger waits for; None until it does, and where it cannot be had
        self._clock: Any = None

    def wake(self) -> None:
        """Let the query look for something to do now, or once more behind the batch that it is at."""
        if self._clock is not None:
            self._clock.advance(INTERVAL_MS)

    def watch(self, query: StreamingQuery) -> None:
        """Poll until `query` ends; raises what it has failed of, as `StreamingQuery.awaitTermination` does."""
        try:
            while not self._take_over(query):
                if query._jsq.awaitTermination(_TAKE_OVER_MS):
                    return
        except (Py4JError, TypeError, AttributeError) as error:
            _LOG.debug("Spark's trigger cannot be woken, and polls every %d ms: %s", INTERVAL_MS, error)
            query.awaitTermination()
            return
        while not query._jsq.awaitTermination(self._every_ms):
            self.wake()

    def _take_over(self, query: StreamingQuery) -> bool:
        """Put a clock of ours into the query's trigger; False as long as it has none."""
        trigger = query._jsq.streamingQuery().triggerExecutor()
        if trigger is None:
            return False
        clock = self._jvm.org.apache.spark.util.ManualClock(self._jvm.java.lang.System.currentTimeMillis())
        field = trigger.getClass().getDeclaredField("clock")
        field.setAccessible(True)
        field.set(trigger, clock)
        self._clock = clock
        self.wake()  # whoever would have done so until now could not
        return True
