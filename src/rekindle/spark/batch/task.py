"""One task of a batch run: all of its input at once, as one batch, number 0 (docs/architecture.md#a-batch-run).

To the driver it is a task like any other whose sources end with its only batch. So what is durable, and in which
order, is as it is in a stream: its rows are prepared, the batch record is created, `end.json` follows, and the final
checkpoint of the job commits them. A task that has a record is not evaluated again, whatever happens. One that reads
other tasks waits until these have their records; that is the topological order, and tasks that need not wait for each
other run side by side.

Its inputs are inboxes too, of one admission: Spark's batch reader believes the log as the stream's does. So it reads
the very files of the frozen list, and of another task the segments that its record names.

There is no watermark: nothing is late, and a window is complete when all is read. An event-time column is looked at
only to see that it is there, and for ``late="drop"``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from rekindle.channels.inbox import Inbox
from rekindle.graph.job_graph import Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.definition import RunContext
from rekindle.runtime.occupation import BUSY, IDLE, Occupation
from rekindle.session.failures import is_same_file, task_failed
from rekindle.sources.listing import as_they_are, check_unchanged
from rekindle.spark.output.outputs import Outputs
from rekindle.spark.output.run import place_of
from rekindle.spark.plans.plan import build_batch_task
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, End, InputPosition
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.documents.status import InputStatus, TaskStatusDocument

BATCH = 0
"""The number of the only batch."""


_CANCEL_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput:
    """One input of a task: a bounded source, or another task."""

    uid: str
    inbox: Inbox
    #: makes its DataFrame, of what the inbox has admitted so far
    read: Callable[[], DataFrame]
    #: all of its files; of another task, once that has its record
    files: Callable[[], Sequence[FrozenFile]]
    is_channel: bool = False
    #: True if its files may by now be others than those of the list
    changed_files: bool = False

    def position(self) -> InputPosition:
        """Return the position of the input once all of it is read."""
        if self.is_channel:
            return InputPosition(channels={0: ChannelPosition(batches=BATCH + 1)})
        files = self.files()
        return InputPosition(files=len(files), bytes=sum(file.size for file in files))

    def admit(self) -> None:
        """Let the batch see all files of the input.

        Spark relies on the sizes that the inbox states. Where an earlier start has admitted files that were replaced
        since, and `changed_files` allows it, the files of today are admitted instead.
        """
        files = self.files()
        if not files:
            return
        if self.changed_files:
            files = as_they_are(self.uid, files)
        else:
            self.refuse_other_files()
        if not self.inbox.admit(BATCH, files) and self.changed_files and self.inbox.admitted(BATCH) != files:
            self.inbox.admit_instead(BATCH, files)

    def refuse_other_files(self) -> None:
        """Refuse files that are not those of the list: before they are read, and since they may become others, after.

        Raises:
            InputError: ``FILE_VANISHED``, ``FILE_CHANGED``.
        """
        if not self.is_channel and not self.changed_files:
            check_unchanged(self.uid, self.files())


class BatchTask:
    """A `TaskRunner` that evaluates its task once.

    Args:
        cleaned: removes what other attempts at the batch have staged, once its record exists.
    """

    def __init__(
        self,
        run: RunContext,
        spark: SparkSession,
        task: Task,
        *,
        inputs: Sequence[BatchInput],
        outputs: Outputs,
        cleaned: Callable[[BatchRecord], None],
    ) -> None:
        place = place_of(run, SubtaskId(task.uid, 0))
        self._spark = spark
        self._storage = run.storage
        self._place = place
        self._task = task
        self._function = run.definition.functions[task.uid]
        self._inputs = inputs
        self._outputs = outputs
        self._cleaned = cleaned
        self._post = run.post
        self._clock = run.clock
        self._id = SubtaskId(place.task, place.subtask)
        self._group = f"rekindle-{place.owner}-{place.run}-{place.task}"
        self._changed = threading.Condition()
        #: those whose output may be read
        self._allowed: set[str] = set()
        self._killed = False
        #: set while it evaluates nothing
        self._idle = threading.Event()
        self._idle.set()
        self._record = run.storage.record(place.folder, BATCH)
        self._took_ms: int | None = None
        self._occupation = Occupation(time.monotonic)
        #: its sinks are not closed
        self._open = True

    def build(self) -> DataFrame:
        """Build the task's DataFrame over what its inputs have admitted so far.

        Raises:
            DefinitionError: see `build_batch_task`.
        """
        return build_batch_task(self._task, self._function, [item.read() for item in self._inputs])

    # -- orders -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `TaskRunner`; returns when the batch is recorded, has failed, or is not wanted any more."""
        end = self._storage.end(self._place.folder)
        if end is not None:
            self._post(e.TaskFinished(task=self._id, batch=end.batch, drained=False))
            return
        self._open = True
        self._post(e.TaskStarted(task=self._id))
        if not self._begins():
            return
        self._occupation.enter(BUSY)
        try:
            self._record = record = self._storage.record(self._place.folder, BATCH) or self._run()
        except Exception as error:
            if not self._killed:
                self._post(task_failed(self._id, error, self._source_of))
            return
        finally:
            self._idle.set()
            self._occupation.enter(IDLE)
        read = {SubtaskId(item.uid, 0): BATCH + 1 for item in self._inputs if item.is_channel}
        self._post(e.BatchRecorded(task=self._id, batch=record.batch, read=read, rows_out=record.rows_out))
        self._post(e.SourcesEnded(task=self._id))

    def _source_of(self, path: str) -> str | None:
        """Return the uid of the input that a file is of, or None; the uids of all inputs where the path is empty."""
        if not path:
            return ", ".join(item.uid for item in self._inputs)
        of = (item.uid for item in self._inputs if any(is_same_file(path, file.path) for file in item.files()))
        return next(of, None)

    def _begins(self) -> bool:
        """Wait for the tasks that it reads, and begin to evaluate; False where the run ends before.

        A kill comes before that, or finds something to cancel.
        """
        wanted = {item.uid for item in self._inputs if item.is_channel}
        with self._changed:
            self._changed.wait_for(lambda: self._killed or wanted <= self._allowed)
            if not self._killed:
                self._idle.clear()
            return not self._killed

    def _run(self) -> BatchRecord:
        started = time.monotonic()
        self._spark.sparkContext.setJobGroup(self._group, f"task {self._task.uid}")
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"rekindle-{self._task.uid}")
        for item in self._inputs:
            item.admit()
        prepared = self._outputs.prepare(self.build(), BATCH)
        try:
            for item in self._inputs:
                item.refuse_other_files()
        except Exception:
            self._outputs.give_up(prepared)
            raise
        self._took_ms = round((time.monotonic() - started) * 1000)
        made = BatchRecord(
            batch=BATCH,
            offsets_hash="",
            run=self._place.run,
            inputs={item.uid: item.position() for item in self._inputs},
            committables=prepared.committables,
            segments=prepared.segments,
            rows_out=prepared.rows,
            timings_ms={"prepare": self._took_ms},
        )
        record = self._storage.adopt(layout.batch(self._place.folder, BATCH), made)
        if record != made:
            self._outputs.abort(prepared)
        return record

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """See `TaskRunner`: a producer has one batch, so its channel is whole."""
        with self._changed:
            self._allowed.add(producer.task)
            self._changed.notify_all()

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """See `TaskRunner`; there is no state to flush."""
        self._open = True
        if self._storage.end(self._place.folder) is None:
            record = self._storage.record(self._place.folder, BATCH)
            assert record is not None, "its sources end with its record"
            self._cleaned(record)
            self._outputs.finish()
            end = End(batch=BATCH, run=self._place.run, drained=False, batch_before_flush=BATCH, ended_ms=self._clock())
            self._storage.create(layout.end(self._place.folder), end)
        return BATCH, ()

    def abandon(self) -> None:
        """See `TaskRunner`: an attempt evaluates nothing once `start` has returned."""

    def close(self) -> None:
        """See `TaskRunner`."""
        was_open, self._open = self._open, False
        if was_open:
            self._outputs.close()

    def kill(self) -> None:
        """See `TaskRunner`."""
        with self._changed:
            self._killed = True
            self._changed.notify_all()
        threading.Thread(target=self._cancel, daemon=True).start()

    def _cancel(self) -> None:
        """Cancel Spark's jobs until nothing runs: a batch has several, and the next may just be about to start."""
        try:
            while not self._idle.is_set():
                self._spark.sparkContext.cancelJobGroup(self._group)
                self._idle.wait(_CANCEL_AGAIN_S)
        except Exception:
            return  # Spark is gone already

    # -- what others ask ----------------------------------------------------------------------------------------------

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """See `TaskRunner`."""
        folder = self._place.folder
        record = self._storage.record(folder, batch)
        return SubtaskSnapshot(batch=batch, inputs=record.inputs if record else {}, end=self._storage.end(folder))

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """See `TaskRunner`: after the only checkpoint, which commits everything, no one reads its channels again."""
        self._storage.store.delete_tree(layout.segments(self._place.folder))

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        record = self._record
        done = record is not None
        inputs = record.inputs if record else dict.fromkeys((item.uid for item in self._inputs), InputPosition())
        return TaskStatusDocument(
            uid=self._task.uid,
            subtask=self._place.subtask,
            status="",
            batch=BATCH if done else -1,
            inputs={
                uid: InputStatus(
                    ended=done, position={"files": one.files, "bytes": one.bytes}, share=1.0 if done else 0.0
                )
                for uid, one in inputs.items()
            },
            batch_duration_ms=self._took_ms,
            busy_ms=self._occupation.busy_ms,
            batch_so_far_ms=self._occupation.batch_so_far_ms,
        )
