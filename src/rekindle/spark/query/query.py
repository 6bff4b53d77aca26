"""One Structured Streaming query: started, held, and stopped at batch boundaries.

Stopping means: nothing after the last batch record may run, that record's batch is committed by Spark, and then the
query is interrupted, wherever it is. What it may have planned meanwhile is not recorded, so it can be forgotten
(`rekindle.progress.directory.unplant`) and is planned again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.errors import JobError
from rekindle.ids import SubtaskId
from rekindle.runtime.steps import Steps
from rekindle.session.failures import brief
from rekindle.session.session import NEEDED, check_settings
from rekindle.session.settings import BATCHES_KEPT, STATE_COUNTED
from rekindle.spark.query.alive import is_active, stop, stop_beside
from rekindle.spark.query.batches import Batches
from rekindle.spark.query.calls import Calls
from rekindle.spark.query.commits import QueryCommits
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.query.optimizer import same_for_each_batch, started_with
from rekindle.spark.query.own_files import written_by_calls
from rekindle.spark.query.passing import has_found_nothing, raise_watermark
from rekindle.spark.query.polling import INTERVAL_MS, Polling, Polls
from rekindle.spark.query.refused import query_refused, refusal
from rekindle.spark.query.rows_read import last_batch, without_state_rows
from rekindle.spark.query.state_partitions import first_run_in
from rekindle.storage.port import Store

_FIRST_POLL_S, _POLL_S = 0.002, 0.02
"""The time between two looks, at first and later."""
_REPORT_S = 10
"""The longest time that Spark may take to report on a batch that it has committed."""


class Query:
    """The query of one subtask; not thread-safe except `interrupt`, `report` and `wake`.

    Args:
        frame: its plan; None where the subtask has ended, so that it is never started.
        state_partitions: in how many it keeps its state if it has never run; 0: as the session says.
        kept: how many batches Spark has to keep.
        polls: how it looks for something to read.
        died: called when the query ends by itself, with the reason if there is one; from another thread.
    """

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame | None,
        batches: Batches,
        *,
        output_mode: str,
        subtask: SubtaskId,
        store: Store,
        progress_dir: str,
        steps: Steps,
        state_partitions: int,
        kept: KeptBatches,
        polls: Polls,
        died: Callable[[BaseException | None], None],
    ) -> None:
        self._spark = spark
        self._frame = frame
        self._output_mode = output_mode
        self._subtask = subtask
        self._batches = batches
        self._store = store
        self._progress_dir = progress_dir
        self._state_partitions = state_partitions
        self._kept = kept
        self._polls = polls
        #: the last batch that was carried out before it was started
        self._last_before = -1
        self._died = died
        self._query: StreamingQuery | None = None
        #: its name in Spark, asked for once: `interrupt` must not wait for the JVM
        self._run_id = ""
        #: of the query that runs, or ran last
        self._polling: Polling | None = None
        #: runs that are being stopped on purpose: their end is no failure
        self._expected: set[str] = set()
        #: True if the reports of the query that runs, or ran last, say how many rows RocksDB's state holds
        self._counts_state = True
        #: True once it was stopped for good
        self.interrupted = False
        self.commits = QueryCommits(store, progress_dir, steps)

    def start(self, hold_after: int | None = None, *, counts_state: bool = False) -> None:
        """Start the query; batches after `hold_after` are held.

        Args:
            counts_state: its reports have to say how many rows the state holds, whatever the session says of that.

        Raises:
            DefinitionError: ``QUERY_REFUSED``, ``SPARK_SETTING_REFUSED``.
            JobError: ``QUERY_DIED``, it was interrupted before.
        """
        assert self._frame is not None, "a subtask that has ended is never started"
        if self.interrupted:
            raise JobError("QUERY_DIED", task=self._subtask.task, reason="its run is over")
        self._batches.begin(hold_after)
        pool = f"rekindle-{self._subtask.task}-{self._subtask.subtask}"
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        progress_dir = self._store.spark_path(self._progress_dir)
        calls = Calls(self._spark, self._batches)
        writer = (
            self._frame.writeStream.foreachBatch(calls)
            .outputMode(self._output_mode)
            .trigger(processingTime=f"{INTERVAL_MS} milliseconds")
            .option("checkpointLocation", progress_dir)
        )
        # The user's function may have made its frames in another session, and what it has may have been changed.
        session = self._frame.sparkSession
        check_settings(session)
        settings = {
            **NEEDED,
            **same_for_each_batch(self._frame),
            **first_run_in(self._state_partitions),
            **written_by_calls(session, progress_dir, self._frame),
            BATCHES_KEPT: str(self._kept.start(max(self.commits.last, self._batches.last))),
            **({STATE_COUNTED: "true"} if counts_state else {}),
        }
        self._counts_state = counts_state or str(session.conf.get(STATE_COUNTED, "true")).lower() == "true"
        polling = self._polls.begin(self._spark, self._store.pace, self._batches)
        self._polling = polling
        self._last_before = self._batches.last
        try:
            with started_with(session, settings):
                query = writer.start()
        except PySparkException as error:
            raise query_refused(self._subtask.task, error) from error
        self._query, self._run_id = query, str(query.runId)
        if hold_after is not None and hold_after < 0:
            self.expect_end()  # its first batch ends it
        watching = (query, self._run_id, polling, calls)
        threading.Thread(target=self._watch, args=watching, name=f"watch-{self._run_id}", daemon=True).start()
        if hold_after is None:
            self._polls.runs(query, polling.wake)

    def wake(self) -> None:
        """Let the query look now, or after the batch that it is at: there is something to read."""
        if self._polling is not None:
            self._polling.wake()

    def stop_after(self, batch: int, *, whole: bool = False) -> None:
        """Let `batch`, and the one that runs now, be recorded and committed; hold whatever follows; stop.

        Raises what a batch raised: the query has died of it, or is about to. Does nothing where no query was started.

        Args:
            whole: raise also what Spark itself died of: no batch may be left out.
        """
        query = self._query
        if query is None:
            return
        self._batches.hold_after = batch
        self.wait(lambda: self._batches.running is None and self.commits.has(self._batches.last))
        died_of = self._batches.failure
        if whole and died_of is None:
            self._raise_what_spark_died_of()
        self.expect_end()
        with suppress(Exception):
            self._await_last_report()
        stop(query)
        self._query = None
        if died_of is not None:
            raise died_of

    def _await_last_report(self) -> None:
        """Fetch the report on the last batch: Spark makes it a moment after it has committed that."""
        if self._batches.last <= self._last_before:
            self._fetch_report()
        else:
            self._await_report(self._batches.last)

    def _await_report(self, batch: int) -> Mapping[str, Any]:
        """Fetch the report on a batch that is committed; a later one, or one before, where that does not come."""
        deadline = time.monotonic() + _REPORT_S
        self.wait(lambda: last_batch(self._fetch_report()) >= batch or time.monotonic() > deadline)
        return self._fetch_report()

    def abandon(self) -> None:
        """Forget the query of an earlier attempt; one that still runs is stopped first."""
        self._batches.failure = None  # it has been reported
        if self._query is not None and is_active(self._query):
            self.stop_after(self._batches.last)
        self._query = None

    def run_to(self, batch: int) -> Mapping[str, Any]:
        """Run the query to `batch` and stop after it; return Spark's report on that batch, empty if none came.

        Raises what a batch raised; ``QUERY_DIED``, ``QUERY_REFUSED`` where Spark itself failed.
        """
        # Where the session leaves it out, 0 rows are reported, and a flush would take its state for empty.
        self.start(hold_after=batch, counts_state=True)
        self.wait(lambda: self._batches.last >= batch and self.commits.has(batch))
        if self._batches.failure is not None:
            self.expect_end()  # it is reported here, and not by the watch too
            raise self._batches.failure
        self._raise_what_spark_died_of()
        report = self._await_report(batch)
        self.stop_after(batch)
        return report

    def pass_time(self, watermark_ms: int) -> bool:
        """Let time pass in the query that runs: it runs one batch without data, with this watermark; return True if so.

        Where it returns False, the query has to be stopped for that. Raises what the batch raised. The query's end is
        expected from here on.
        """
        self.wait(lambda: self._batches.running is None and self.commits.has(self._batches.last))
        query, batch = self._query, self._batches.last + 1
        if query is None or batch - 1 <= self._last_before or not is_active(query):
            return False  # Spark compares with the last batch that this query has run
        self.expect_end()
        if raise_watermark(query, watermark_ms):
            self.wake()
            self.wait(lambda: self.commits.has(batch) or has_found_nothing(query))
        if self._batches.failure is not None:
            raise self._batches.failure
        passed = self.commits.has(batch)
        if not passed and not is_active(query):
            self._query = None  # Spark has died of it, and has run nothing
        self._counts_state |= passed  # all windows are closed: the 0 that is reported where no one counts is true
        return passed

    def _raise_what_spark_died_of(self) -> None:
        """Raise ``QUERY_DIED``, ``QUERY_REFUSED`` if Spark failed outside its batch; not where it runs, or was held."""
        query = self._query
        has_died = query is not None and not is_active(query) and not self._batches.held
        error: Any = query.exception() if query is not None and has_died else None
        if query is not None and error is not None:
            # PySpark keeps no more than the text of what this method returns.
            error._origin = query._jsq.exception().get()
            self.expect_end()
            task = self._subtask.task
            raise refusal(task, error) or JobError("QUERY_DIED", task=task, reason=brief(error)) from error

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait until something holds, or the query is over."""
        query, poll_s = self._query, _FIRST_POLL_S
        while query is not None and not until() and is_active(query):
            time.sleep(poll_s * self._store.pace)
            poll_s = min(2 * poll_s, _POLL_S)

    def report(self) -> Mapping[str, Any]:
        """Return Spark's last progress report as far as it is known here; calls nothing in Spark."""
        report = self._polling.last_report(self._batches.last) if self._polling is not None else {}
        return report if self._counts_state else without_state_rows(report)

    def _fetch_report(self) -> Mapping[str, Any]:
        return {} if self._query is None or self._polling is None else self._polling.fetch_report(self._query)

    def interrupt(self) -> None:
        """Stop the query now, whatever it does, and wait for nothing; it is never started again."""
        self.interrupted = True
        if (query := self._query) is not None:
            self.expect_end(hold_after=-1)
            stop_beside(query)

    def expect_end(self, hold_after: int | None = None) -> None:
        """Expect the query that runs now to end on purpose: that is no failure.

        Args:
            hold_after: no batch after this one runs; None: as it was.
        """
        if self._query is not None:
            self._expected.add(self._run_id)
        if hold_after is not None:
            self._batches.hold_after = hold_after

    def _watch(self, query: StreamingQuery, run_id: str, polling: Polling, calls: Calls) -> None:
        if self.interrupted:
            self.interrupt()  # that came while Spark was starting it
        reason: BaseException | None = None
        try:
            polling.watch(query)
        except BaseException as error:  # whatever it is: this thread never ends silently
            reason = error
        if run_id not in self._expected and not self._batches.held:
            self._died(self._batches.failure or refusal(self._subtask.task, reason) or reason)
        if not is_active(query):
            calls.close()
