"""One subtask on Spark: its query, its inputs and its sinks; carries out the driver's orders.

Fed by inboxes alone, the query is given nothing more, runs dry and is stopped idle; with a source that Spark reads
itself, the next batch is held back. How a query is stopped stands in `query`, what is done with a batch in
`batch_protocol`, how state is flushed in `flush`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.channels.backlog import Backlog
from rekindle.channels.feed import FileFeed
from rekindle.config import Config
from rekindle.errors import JobError, RekindleError, StorageError
from rekindle.graph.job_graph import Task
from rekindle.ids import SubtaskId
from rekindle.progress.copies import copy_for_savepoint
from rekindle.progress.directory import (
    SourceInputs,
    last_committed,
    last_planned,
    plant_due,
    put_back,
    read_offsets,
    unplant,
)
from rekindle.progress.retention import SourceLogs
from rekindle.protocol import events as e
from rekindle.protocol.life import Call
from rekindle.runtime.driver import system_clock
from rekindle.runtime.steps import Steps
from rekindle.spark.failures import brief, is_same_file, task_failed, translate
from rekindle.spark.inputs.event_times import Seen
from rekindle.spark.inputs.frames import Input
from rekindle.spark.inputs.intake import Intake, Progress
from rekindle.spark.output.outputs import Outputs, Place
from rekindle.spark.query.flush import END_OF_TIME_MS, Flushed, flush
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.query.polling import INBOXES_MS, STREAM_MS
from rekindle.spark.query.query import Query
from rekindle.spark.session.session import refuse_settings
from rekindle.spark.streaming.batch_protocol import BatchProtocol
from rekindle.spark.streaming.siblings import Siblings
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, Drain, End, Windows
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.status import InputStatus, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store

SETTLED_MS = 600_000
"""How long a task has finished for good before what Spark keeps of it is deleted: an upload of its state that was under
way when its query was stopped is over by then. No other is begun."""


class SparkTask:
    """A `TaskRunner` on Spark.

    Args:
        frame: the task's DataFrame, built from `inputs`; None for a subtask that has ended, which is never started.
        post: takes an event to the driver, from any thread.
        backlog: of its own channels; None where no task reads it.
        read_from: producer → the backlog of its channels.
        siblings: the subtasks of its task.
        kept: how many batches Spark has to keep of its query.
        source_logs: what its query's file sources have read.
        windows: of its query.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: JobStorage,
        place: Place,
        task: Task,
        frame: DataFrame | None,
        inputs: Sequence[Input],
        outputs: Outputs,
        backlog: Backlog | None,
        config: Config,
        steps: Steps,
        post: Callable[[e.Event], None],
        read_from: Mapping[SubtaskId, Backlog],
        siblings: Siblings,
        kept: KeptBatches,
        source_logs: SourceLogs,
        windows: Windows | None = None,
    ) -> None:
        self._storage = storage
        self._place = place
        self._task = task
        self._inputs = inputs
        self._outputs = outputs
        self._config = config
        self._post = post
        self._id = SubtaskId(place.task, place.subtask)
        self._progress_dir = layout.spark_progress_dir(place.folder)
        self._protocol = BatchProtocol(spark, storage, place, inputs, outputs, backlog, steps, self._recorded)
        self._protocol.windows = windows
        self._intake = Intake(inputs, self._protocol.last)
        self._read_from = read_from
        self._siblings = siblings
        self._kept = kept
        self._source_inputs = SourceInputs(storage.store, self._progress_dir)
        self._source_logs = source_logs
        #: the batch that this run has found planned, which a driver that was thought dead may be at
        self._found = self._find_planned()
        #: orders of the driver, and starting the query again, one at a time
        self._orders = threading.Lock()
        #: whether the query is to run; not while and after it is suspended or finished
        self._runs = False
        self._query = Query(
            spark,
            frame,
            task.output_mode,
            self._id,
            self._protocol,
            storage.store,
            self._progress_dir,
            steps,
            config.state_partitions,
            kept,
            INBOXES_MS if self._intake.only_inboxes else STREAM_MS,
            lambda reason: post(self._failed(reason)),
        )
        self._last_duration_ms: int | None = None
        self._now_ms = 0
        #: since when nothing starts it again, as this run knows
        self._over_at_ms: int | None = None
        #: what Spark keeps of its query is deleted
        self._forgotten = False

    # -- orders -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `TaskRunner`."""
        with self._orders:
            self._start()

    def abandon(self) -> None:
        """See `TaskRunner`."""
        with self._orders:
            self._runs = False
            self._query.abandon()

    def _start(self) -> None:
        self._siblings.begin(self._place.subtask)
        self._query.abandon()
        self._protocol.begin_attempt()
        end = self._storage.end(self._place.folder)
        if end is not None:
            self._post(e.TaskFinished(task=self._id, batch=end.batch, drained=end.drained, notes=end.notes))
            return
        self._put_plan_back()
        self._refuse_fixed_settings()
        if self._has_flushed():
            # A plan that was not there when this run began is of a driver that it has overtaken.
            unplant(self._storage.store, self._progress_dir, keep=self._found)
        flushed = self._has_flushed()
        if self._intake.sources_ended if flushed else self._intake.open():
            self._post(e.SourcesEnded(task=self._id))
            if not self._intake.has_channels:
                return
        if not flushed:
            self._runs = True
            if self._task.output_mode != "complete":
                plant_due(self._storage.store, self._progress_dir)
            self._query.start()
        self._post(e.TaskStarted(task=self._id))

    def _refuse_fixed_settings(self) -> None:
        """Spark goes by what it wrote down when the query first ran, whatever the session says."""
        store, planned = self._storage.store, last_planned(self._storage.store, self._progress_dir)
        if planned >= 0:
            conf = read_offsets(store, self._progress_dir, planned).metadata.get("conf", {})
            refuse_settings(conf, f"The query of task {self._task.uid!r} first ran with")

    def _start_again(self) -> None:
        """Stop the query between two batches and start it again, for Spark to keep more batches from now on."""
        with self._orders:
            if not self._runs:
                return  # it is being stopped for another reason
            try:
                self._intake.pause()
                self._query.stop_behind(self._protocol.last)
                self._replay()
                if not self._intake.open() or self._intake.has_channels:
                    self._query.start()
            except BaseException as error:
                if not self._query.interrupted:
                    self._post(self._failed(error))

    def stop_sources(self) -> None:
        """See `TaskRunner`."""
        self._intake.stop_sources()

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """See `TaskRunner`."""
        progress = self._intake.allow(producer, upto)
        self._query.wake()
        if progress is not None:
            self._tell(progress)

    def tick(self, now_ms: int) -> None:
        """See `TaskRunner`."""
        self._now_ms = now_ms
        if self._intake.ticked(now_ms, resting=self._protocol.running is None):
            self._query.wake()

    def suspend(self) -> int:
        """See `TaskRunner`."""
        with self._orders, self._explained():
            self._runs = False
            self._siblings.begin(self._place.subtask)
            self._hold()
            self._replay()
            return self._query.committed

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """See `TaskRunner`."""
        with self._orders:
            self._runs = False
            self._siblings.begin(self._place.subtask)
            return self._finish(drain)

    def _finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        folder = self._place.folder
        done = self._storage.end(folder)
        if done is not None:
            # The order is repeated: what it asks for was done, and only the word of it was lost.
            return done.batch, done.notes
        if drain:
            begun = Drain(run=self._place.run, begun_ms=system_clock())
            self._storage.create(layout.drain(folder), begun)
        with self._explained():
            self._hold()
            self._replay()
            self._protocol.begin_attempt()  # an earlier one may have failed in finish() of a sink
            self._run_what_was_found()
            before = self._before_flush()
            flushed = self._flush()
        for uid in sorted(self._protocol.life.open_inputs):
            self._protocol.life.end_input(uid)
        self._protocol.life.call(Call.FINISH)
        last = self._siblings.finish(self._place.subtask)
        if last:
            self._outputs.finish()
        notes = (*(self._unread() if last else ()), *self._unflushed(flushed))
        end = End(
            batch=self._query.committed,
            run=self._place.run,
            drained=drain,
            watermark_before_flush_ms=before.watermark_ms if before else None,
            batch_before_flush=before.batch if before else -1,
            ended_ms=system_clock(),
            notes=notes,
        )
        self._storage.create(layout.end(folder), end)
        return self._query.committed, notes

    def close(self) -> None:
        """See `TaskRunner`."""
        self._protocol.life.call(Call.CLOSE)
        if self._siblings.close(self._place.subtask):
            self._outputs.close()

    def kill(self) -> None:
        """See `TaskRunner`."""
        self._runs = False
        self._intake.close()
        self._query.interrupt()

    def _failed(self, reason: BaseException | None) -> e.TaskFailed:
        return task_failed(self._id, reason, self._source_of)

    def _source_of(self, path: str) -> str | None:
        """The input that a file is of: one that was given it, else those whose files are not known here, if any."""
        if not path:
            return ", ".join(item.uid for item in self._inputs)
        for item in self._inputs:
            if item.feed is not None and any(is_same_file(path, file.path) for file in item.feed.outstanding):
                return item.uid
        return ", ".join(item.uid for item in self._inputs if item.feed is None) or None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Put what a query has died of inside an order into an error with a code, with the reason in its words."""
        try:
            yield
        except Exception as error:
            reason = error.__cause__ if isinstance(error, JobError) and error.__cause__ is not None else error
            if isinstance(reason, RekindleError):
                raise
            known = translate(reason, self._source_of)
            raise known or JobError("QUERY_DIED", task=self._task.uid, reason=brief(reason)) from error

    # -- ending -------------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Bring the query to a stop behind a committed batch; what was admitted is read first, if that ends."""
        self._intake.close()
        if self._protocol.give_up_waiting():
            self._query.expect_end()
        if self._intake.only_inboxes:
            self._query.wait(lambda: not self._intake.outstanding)
        self._query.stop_behind(self._protocol.last)

    def _replay(self) -> None:
        """A batch that is recorded but not committed is run again for its state; one only planned is forgotten."""
        self._put_plan_back()
        if not self._query.is_committed(self._protocol.last):
            self._query.run_to(self._protocol.last)
        unplant(self._storage.store, self._progress_dir, keep=self._found)

    def _find_planned(self) -> int:
        """The last batch that is planned and may have been run, -1 for none: nothing follows a flush but another."""
        store, folder = self._storage.store, self._progress_dir
        planned, committed = last_planned(store, folder), last_committed(store, folder)
        if planned > committed >= 0:
            last, following = (read_offsets(store, folder, batch) for batch in (committed, planned))
            if last.batch_watermark_ms >= END_OF_TIME_MS and last.sources != following.sources:
                return committed
        return planned

    def _run_what_was_found(self) -> None:
        """Run the batch that this run has found planned, if it has not: no other is ever planned in its place.

        A driver that was thought dead may be at it. Whatever its executors still write is then of the same batch.
        """
        if self._found > self._protocol.last and not self._has_flushed():
            self._query.run_to(self._found)

    def _put_plan_back(self) -> None:
        """The last record counts, also where its batch had been forgotten before it came.

        So it is if a driver that was thought dead wakes up: its successor may have held that batch back meanwhile.
        """
        record = self._storage.record(self._place.folder, self._protocol.last)
        if record is not None and record.offsets:
            put_back(self._storage.store, self._progress_dir, record.batch, record.offsets_hash, record.offsets)

    def _flush(self) -> Flushed:
        stateful = bool(self._storage.store.names(f"{self._progress_dir}/state"))
        if not stateful or self._task.output_mode == "complete" or self._query.committed < 0:
            return Flushed(0, complete=True)
        self._protocol.flush_from = self._query.committed + 1

        def run_planted(batch: int) -> tuple[int | None, Mapping[str, Any]]:
            report = self._query.run_to(batch)
            unplant(self._storage.store, self._progress_dir)
            record = self._storage.record(self._place.folder, batch)
            if record is None:
                raise JobError("QUERY_DIED", task=self._task.uid, reason=f"the flush, batch {batch}, left no record")
            return record.rows_out, report

        return flush(self._storage.store, self._progress_dir, run_planted, self._config.drain_max_rounds)

    def _has_flushed(self) -> bool:
        """Whether an earlier run was flushing it: all that it reads has ended, and whatever followed would be late.

        It is as good as started: `finish` follows as soon as the protocol has heard so of its channels.
        """
        store, folder = self._storage.store, self._progress_dir
        # A driver that was overtaken may have planned another batch behind the flush.
        batches = {last_committed(store, folder), last_planned(store, folder)} - {-1}
        return any(read_offsets(store, folder, batch).batch_watermark_ms >= END_OF_TIME_MS for batch in batches)

    def _before_flush(self) -> BatchRecord | None:
        """The last record of a batch that was not planted: a flush may have been begun by an earlier run."""
        for batch in reversed(self._storage.records(self._place.folder)):
            record = self._storage.record(self._place.folder, batch)
            if record is not None and not record.flush:
                return record
        return None

    def _unread(self) -> Sequence[str]:
        return [
            f"{item.uid}: {100 - math.floor(100 * item.feed.splits.share_read)} % was not read"
            for item in self._intake.sources
            if isinstance(item.feed, FileFeed) and not item.ended
        ]

    def _unflushed(self, flushed: Flushed) -> Sequence[str]:
        if flushed.left and self._task.output_mode == "append":
            return [
                f"{self._task.uid}: {flushed.left} rows stay in its state for ever (no event time, or no time bound)"
            ]
        if flushed.complete:
            return []
        return [f"{self._task.uid}: timers were still being set after {flushed.rounds} flushes"]

    # -- inputs -------------------------------------------------------------------------------------------------------

    def _recorded(self, record: BatchRecord, duration_ms: int, met: Mapping[str, Seen]) -> None:
        """A batch record exists: the inputs may go on. Called by the batch itself, before Spark commits it."""
        self._query.note_commit(record.batch - 1)
        self._last_duration_ms = duration_ms
        if self._kept.ran(record.batch) and self._runs:
            self._query.hold_behind(record.batch)
            threading.Thread(target=self._start_again, name=f"again-{self._id}", daemon=True).start()
        progress, ended = self._intake.recorded(record, duration_ms, met)
        self._query.wake()
        self._tell(progress)
        if ended:
            self._post(e.SourcesEnded(task=self._id))

    def _tell(self, progress: Progress) -> None:
        self._post(e.BatchRecorded(task=self._id, batch=progress.batch, read=progress.read))
        for producer, batches in progress.read.items():
            self._read_from[producer].read(self._id, batches)

    # -- what others ask ----------------------------------------------------------------------------------------------

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """See `TaskRunner`."""
        end = self._storage.end(self._place.folder)
        if end is not None and end.batch != batch:
            end = None  # it came after the snapshot was ordered, and belongs to the next one
        # Behind its end all is committed; one that had finished before a restore has no query that would say so.
        if end is None and not self._query.is_committed(batch):
            return None
        record = self._storage.record(self._place.folder, batch) if batch >= 0 else None
        if not self._kept.pin(batch):
            raise StorageError("PROGRESS_BATCH_MISSING", folder=self._progress_dir, batch=batch)
        if record is None:
            return SubtaskSnapshot(batch=-1, end=end)
        return SubtaskSnapshot(
            batch=batch, inputs=record.inputs, watermark_ms=record.watermark_ms, end=end, windows=record.windows
        )

    def copy(self, snapshot: SubtaskSnapshot, store: Store, folder: str) -> int:
        """See `TaskRunner`."""
        if snapshot.batch < 0:
            return 0
        target = layout.spark_progress_dir(folder)
        return copy_for_savepoint(self._storage.store, self._progress_dir, store, target, snapshot.batch)

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """See `TaskRunner`."""
        self._kept.release(oldest_batch)
        if over:
            self._forget_query()
            self._delete_outputs(min(oldest_batch, oldest_output))
            return
        oldest = min(oldest_batch, self._query.committed)
        if oldest >= 1:
            ends = read_offsets(self._storage.store, self._progress_dir, oldest).sources
            self._source_logs.cut(self._source_inputs.of(len(ends)), ends)
            self._delete_outputs(min(oldest, oldest_output))

    def _forget_query(self) -> None:
        """Delete what Spark keeps of it, once no executor can still be at work on its state."""
        if self._over_at_ms is None:
            self._over_at_ms = self._now_ms
        if not self._forgotten and self._now_ms - self._over_at_ms >= SETTLED_MS:
            self._storage.store.delete_tree(self._progress_dir)
            self._forgotten = True

    def _delete_outputs(self, before: int) -> None:
        store, folder = self._storage.store, self._place.folder
        segments = layout.segments(folder)
        store.delete_trees(segments, [name for name in store.names(segments) if int(name.split("-", 1)[0]) < before])
        batches = [batch for batch in self._storage.records(folder) if batch < before]
        store.delete_many([layout.batch(folder, batch) for batch in batches])

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        report = self._query.report()
        return TaskStatusDocument(
            uid=self._task.uid,
            subtask=self._place.subtask,
            status="",
            batch=self._protocol.last,
            watermark=_watermark_ms(report),
            inputs={item.uid: self._input_status(item, report) for item in self._inputs},
            rows_per_second=report.get("processedRowsPerSecond"),
            batch_duration_ms=self._last_duration_ms,
        )

    def _input_status(self, item: Input, report: Mapping[str, Any]) -> InputStatus:
        feed, position = item.feed, item.position
        return InputStatus(
            ended=item.ended,
            position=position.offset if feed is None else {"files": position.files, "bytes": position.bytes},
            share=feed.splits.share_read if isinstance(feed, FileFeed) else None,
            idle=item.silence is not None and item.silence.idle,
            rows_per_second=None if item.ended else self._rate(item, report),
        )

    def _rate(self, item: Input, report: Mapping[str, Any]) -> float | None:
        """Rows a second of an input; Spark's report tells its sources apart by what they read."""
        path = self._storage.store.spark_path
        inbox = path(layout.inbox(self._place.folder, item.uid)).removeprefix("file://")
        ours = path(self._place.folder).removeprefix("file://")
        sources = report.get("sources", ())
        if item.feed is not None:
            found = [source for source in sources if source["description"].endswith(f"{inbox}]")]
        else:
            streams = [other for other in self._inputs if other.feed is None]
            found = [source for source in sources if f"{ours}/" not in source["description"]]
            # A user's stream may be made of several sources: whose is which cannot be told then.
            found = found[streams.index(item) :] if len(found) == len(streams) else []
        return found[0].get("processedRowsPerSecond") if found else None


def _watermark_ms(report: Mapping[str, Any]) -> int | None:
    """The query's watermark, ms; None where there is none yet, which Spark writes as 1970."""
    text = (report.get("eventTime") or {}).get("watermark")
    if not text:
        return None
    if text.startswith("+"):
        # Of the year 10000 or later, which only a flush sets.
        return END_OF_TIME_MS
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000) or None
