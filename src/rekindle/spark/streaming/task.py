"""One subtask on Spark: its query, its inputs and its sinks; carries out the driver's orders.

To hold a query that only inboxes feed, nothing more is put into them, and the query is stopped once it has read all of
it; of one with a source that Spark reads itself, the next batch is held back. `query` stops a query, `planned` says
which plans count, `batch_protocol` does the work on a batch, and `flush` flushes state.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from rekindle.ids import SubtaskId
from rekindle.progress.copies import copy_for_savepoint
from rekindle.protocol import events as e
from rekindle.protocol.life import Call
from rekindle.runtime.definition import RunContext
from rekindle.session.session import refuse_settings
from rekindle.spark.inputs.event_times import EventTimeStats
from rekindle.spark.inputs.input import in_backlog, only_inboxes
from rekindle.spark.inputs.intake import STOP_WAITS_S, Intake
from rekindle.spark.inputs.progress import Progress
from rekindle.spark.query.planned import PlannedBatches
from rekindle.spark.query.polling import Polls
from rekindle.spark.query.query import Query
from rekindle.spark.streaming.batch_protocol import BatchProtocol
from rekindle.spark.streaming.blame import Blame
from rekindle.spark.streaming.flushing import end_of, flush_running, flush_state, last_not_planted, notes_at_end
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.spark.streaming.purging import Purging
from rekindle.spark.streaming.readings import listen_to_readings
from rekindle.spark.streaming.shown import counter, shown
from rekindle.spark.streaming.snapshots import snapshot_at
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.status import TaskStatusDocument
from rekindle.storage.folder import Folder
from rekindle.storage.port import Store


class SparkTask:
    """A `StreamRunner` on Spark."""

    def __init__(self, run: RunContext, spark: SparkSession, parts: SubtaskParts) -> None:
        storage, place = self._storage, self._place = run.storage, parts.place
        self._parts, self._task, self._inputs, self._siblings = parts, parts.task, parts.inputs, parts.siblings
        self._max_rounds = run.config.drain_max_rounds
        self._post, self._clock, self._ends = run.post, run.clock, run.ends
        self._id = SubtaskId(place.task, place.subtask)
        self._progress_dir = layout.spark_progress_dir(place.folder)
        self._protocol = BatchProtocol(run, spark, parts, self._recorded)
        self._intake = Intake(parts.inputs, self._protocol.last)
        self._planned = PlannedBatches(storage.store, self._progress_dir, lambda: parts.reads_no_more(run))
        if parts.frame is not None:  # where it has ended, an overtaken driver may have left anything
            self._planned.look()
        self._purging = Purging(storage, place.folder, parts.kept, parts.source_logs)
        self._blame = Blame(self._id, parts.frame, parts.inputs, self._protocol)
        #: orders of the driver, and starting the query again, one at a time
        self._orders = threading.Lock()
        #: True while the query is to run; not while and after it is suspended or finished
        self._runs = False
        self._backlog, self._logs, self._now_ms = parts.backlog, parts.logs, 0
        self._rows_read = counter(parts.logs, place, parts.inputs, self._protocol.last)
        self._query = Query(
            spark,
            parts.frame,
            self._protocol,
            output_mode=parts.task.output_mode,
            subtask=self._id,
            store=storage.store,
            progress_dir=self._progress_dir,
            steps=run.steps,
            state_partitions=run.config.state_partitions,
            kept=parts.kept,
            polls=Polls(only_inboxes(parts.inputs), self._rows_read, parts.catching_up.begun),
            died=lambda reason: run.post(self._blame.failed(reason)),
        )
        listen_to_readings(parts, self._intake, self._blame, wake=self._query.wake, post=run.post)
        self._last_duration_ms: int | None = None
        self._rows_out: tuple[int, int | None] = (-1, None)  # the last batch, and rows of its output if counted

    # -- orders -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `TaskRunner`."""
        with self._orders:
            self._start()

    def abandon(self) -> None:
        """See `TaskRunner`."""
        with self._orders:
            self._runs = False
            self._intake.close(wait=False)
            self._query.abandon()

    def _start(self) -> None:
        self._siblings.begin(self._place.subtask)
        self._query.abandon()
        self._protocol.begin_attempt()
        end = self._ends.find(self._place.folder)
        if end is not None:
            self._post(e.TaskFinished(task=self._id, batch=end.batch, drained=end.drained, notes=end.notes))
            return
        self._protocol.catch_up()
        self._planned.put_back(self._last_record(), self._last_record(1))
        refuse_settings(self._planned.fixed_settings(), f"The query of task {self._task.uid!r} first ran with")
        if self._planned.is_flushed():
            # A plan that was not there when this run began is of a driver that it has overtaken.
            self._planned.forget()
        flushed, last = self._planned.is_flushed(), self._protocol.last
        ended = self._intake.sources_ended if flushed else self._intake.open(holding=self._parts.prelude.begin(last))
        if not self._has_more(ended):
            return
        if not flushed:  # else it is as good as started: `finish` follows once the protocol has heard of its channels
            self._runs = True
            self._planned.plant_due(self._task.output_mode, lambda: self._parts.timers_at_ms(self._clock))
            self._parts.prelude.plant(self._query)
            self._query.start()
        self._post(e.TaskStarted(task=self._id, backlog=in_backlog(self._inputs)))

    def _has_more(self, sources_ended: bool) -> bool:
        """Say that the sources have ended, if they have; return whether the query has something left to wait for."""
        if sources_ended:
            self._post(e.SourcesEnded(task=self._id))
        return not sources_ended or any(item.is_channel for item in self._inputs)

    def _start_again(self) -> None:
        """Stop the query between two batches and start it again, for Spark to keep more batches from now on."""
        with self._orders:
            if not self._runs:
                return  # it is being stopped for another reason
            try:
                self._intake.pause()
                self._query.stop_after(self._protocol.last)
                self._replay()
                if self._has_more(self._intake.open()):
                    self._planned.plant_due(self._task.output_mode, lambda: self._parts.timers_at_ms(self._clock))
                    self._query.start()
            except BaseException as error:
                if not self._query.interrupted:
                    self._post(self._blame.failed(error))

    def stop_sources(self) -> None:
        """See `StreamRunner`."""
        self._intake.stop_sources()

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """See `TaskRunner`."""
        progress = self._intake.allow(producer, upto)
        self._query.wake()
        if progress is not None:
            self._tell(progress)

    def tick(self, now_ms: int) -> None:
        """See `StreamRunner`."""
        self._now_ms = now_ms
        if self._intake.ticked(now_ms, resting=self._protocol.running is None):
            self._query.wake()

    def suspend(self) -> int:
        """See `StreamRunner`."""
        with self._orders, self._blame.explained():
            self._runs = False
            self._siblings.begin(self._place.subtask)
            self._read_out(STOP_WAITS_S)
            self._query.stop_after(self._protocol.last)
            self._protocol.catch_up()  # a record may be there although its creation failed
            self._replay()
            return self._query.commits.last

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """See `TaskRunner`."""
        with self._orders:
            self._runs = False
            self._siblings.begin(self._place.subtask)
            return self._finish(drain)

    def _finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        folder = self._place.folder
        if (done := self._ends.find(folder)) is not None:
            # The order is repeated: what it asks for was done, and only the word of it was lost.
            return done.batch, done.notes
        with self._blame.explained():
            if drain and self._blame.has_failed_after(self._protocol.last):
                self._query.stop_after(self._protocol.last, whole=True)
                self._planned.look()  # a drain must not leave out what the batch reads
                self._run_planned()
            self._read_out()
            if drain:
                self._ends.begin_drain(folder, self._clock())
            of_query = self._parts, self._query, self._planned, self._protocol
            flushed = flush_running(*of_query, self._intake)
            self._query.stop_after(self._protocol.last, whole=drain)
            self._run_planned()
            before = last_not_planted(self._storage, folder)
            flushed = flushed or flush_state(self._storage, *of_query, self._max_rounds)
        for uid in sorted(self._protocol.life.open_inputs):
            self._protocol.life.end_input(uid)
        self._protocol.life.call(Call.FINISH)
        last = self._siblings.finish(self._place.subtask)
        if last:
            self._parts.outputs.finish()
        left_out = self._blame.left_out(before) if drain else ()
        notes = (*left_out, *notes_at_end(self._task, self._inputs if last else (), flushed))
        end = end_of(self._place.run, self._query.commits.last, before, drained=drain, at_ms=self._clock(), notes=notes)
        self._ends.record(folder, end)
        return end.batch, notes

    def close(self) -> None:
        """See `TaskRunner`."""
        self._protocol.life.call(Call.CLOSE)
        if self._siblings.close(self._place.subtask):
            self._parts.outputs.close()

    def kill(self) -> None:
        """See `TaskRunner`."""
        self._runs = False
        self._intake.close(wait=False)
        self._parts.prelude.interrupt()
        self._query.interrupt()

    # -- ending -------------------------------------------------------------------------------------------------------

    def _read_out(self, at_most_s: float | None = None) -> None:
        """Let the query read what is on its way, if that ends; give up reads that last longer."""
        self._intake.close(at_most_s=at_most_s)
        if self._protocol.give_up_waiting():
            self._query.expect_end()
        self._query.wait(lambda: not self._intake.outstanding)

    def _run_planned(self) -> None:
        """Run what is recorded or was found planned, and not committed."""
        self._protocol.catch_up()  # as in `suspend`
        self._replay()
        self._protocol.begin_attempt()  # an earlier one may have failed in finish() of a sink
        self._planned.run_found(self._query, self._protocol.last)

    def _replay(self) -> None:
        self._planned.replay(self._query, self._protocol.last, self._last_record())

    def _last_record(self, before: int = 0) -> BatchRecord | None:
        return self._storage.record(self._place.folder, self._protocol.last - before)

    def _recorded(self, record: BatchRecord, duration_ms: int, met: Mapping[str, EventTimeStats]) -> None:
        """Let the inputs continue after a batch record. Called by the batch itself, before Spark commits it."""
        self._query.commits.note(record.batch - 1)
        self._rows_out, self._last_duration_ms = (record.batch, record.rows_out), duration_ms
        if self._parts.kept.ran(record.batch) and self._runs:
            self._query.expect_end(hold_after=record.batch)
            threading.Thread(target=self._start_again, name=f"again-{self._id}", daemon=True).start()
        progress, ended = self._intake.recorded(record, duration_ms, met)
        self._tell(progress)
        if self._has_more(ended):
            self._query.wake()  # else it looks again once time has passed for all that it holds, and for nothing before

    def _tell(self, at: Progress) -> None:
        rows_out = self._rows_out[1] if self._rows_out[0] == at.batch else None
        self._post(e.BatchRecorded(task=self._id, batch=at.batch, read=at.read, rows_out=rows_out, backlog=at.backlog))
        for producer, batches in at.read.items():
            self._parts.read_from[producer].read(self._id, batches)
        self._parts.catching_up.moved()

    # -- what others ask ----------------------------------------------------------------------------------------------

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """See `TaskRunner`."""
        has, end = self._query.commits.has, self._ends.of(self._place.folder)
        return snapshot_at(self._storage, self._place.folder, batch, end, is_committed=has, pin=self._parts.kept.pin)

    def copy(self, snapshot: SubtaskSnapshot, store: Store, folder: str) -> int:
        """See `StreamRunner`."""
        if snapshot.batch < 0:
            return 0
        source = Folder(self._storage.store, self._progress_dir)
        return copy_for_savepoint(source, Folder(store, layout.spark_progress_dir(folder)), snapshot.batch)

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """See `TaskRunner`."""
        if over:
            self._purging.purge_all(oldest_batch, oldest_output, now_ms=self._now_ms)
        else:
            self._purging.purge(oldest_batch, oldest_output, committed=self._query.commits.last)

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        return shown(
            self._logs,
            self._place,
            self._inputs,
            self._query.report(),
            begun_at_ms=self._planned.watermark_ms,
            batch=self._protocol.last,
            duration_ms=self._last_duration_ms,
            rows_read=self._rows_read,
            occupation=self._protocol.occupation,
            backlog=self._backlog,
        )
