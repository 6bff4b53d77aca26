"""Put the tasks of a batch run together. What is wrong with any of their plans is found here, before one runs.

A task that reads others is first built over what these have not written yet: their columns are known, and so is whether
Spark can run it. It is built again once they have.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.inbox import Inbox
from rekindle.channels.producer import Producer, Reader
from rekindle.channels.splits import Splits
from rekindle.graph.job_graph import Task
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import RunContext, SourceSpec
from rekindle.runtime.orphans import Orphans
from rekindle.spark.batch.task import BATCH, BatchInput, BatchTask
from rekindle.spark.inputs.freezing import located
from rekindle.spark.inputs.reading import made_by, read_inbox
from rekindle.spark.inputs.watermark_rows import check_event_time, without_unusable_times
from rekindle.spark.output.run import outputs_of, place_of, writes_columns
from rekindle.spark.output.segments import output_schema
from rekindle.spark.plans.refuse import refuse_duplicate_columns
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.sources import FrozenFiles


class BatchAssembly:
    """The tasks of one batch run: every task has one subtask, every source a list."""

    def __init__(self, run: RunContext, spark: SparkSession) -> None:
        self._of = run
        self._spark = spark
        self._frozen = {uid: frozen for uid, frozen in run.frozen.items() if frozen is not None}
        #: task → columns of what others read of it
        self._columns: dict[str, T.StructType] = {}
        #: task → bounded source → its files, all of which are the task's
        self.splits: dict[str, dict[str, Splits]] = {
            task.uid: {uid: self._split(task.uid, uid) for uid in task.inputs if uid in self._frozen}
            for task in run.graph.tasks
        }
        self.custom: dict[str, dict[str, CustomSplits]] = {}

    def runners(self) -> dict[SubtaskId, BatchTask]:
        """Build the runner of every task of the job; raise what is wrong with their plans."""
        return {SubtaskId(uid, 0): self._task(self._of.graph.task(uid)) for uid in self._of.graph.topology.order}

    def read(self, subtask: SubtaskId, record: BatchRecord | None) -> dict[SubtaskId, int]:
        """Return, for each task that a task reads, how many batches it has read: 1 once it has a record, else 0."""
        edges = self._of.graph.topology.inputs_of(subtask.task)
        return {SubtaskId(edge.source, 0): BATCH + 1 if record else 0 for edge in edges}

    def _split(self, task: str, source: str) -> Splits:
        folder = read_layout.splits(self._of.storage.job, task, self._of.run.lineage, source)
        return Splits(
            self._of.storage, folder, self._of.run.run, located(self._of.storage, self._frozen[source]), 1, None
        )

    def _task(self, task: Task) -> BatchTask:
        storage, place = self._of.storage, place_of(self._of, SubtaskId(task.uid, 0))

        def cleaned(record: BatchRecord) -> None:
            orphans = Orphans(storage, self._of.run, self._of.sinks(task), self._of.steps)
            orphans.clean([SubtaskId(task.uid, 0)], lambda: record.committables)

        made = BatchTask(
            self._of,
            self._spark,
            task,
            inputs=[self._input(task, uid) for uid in task.inputs],
            outputs=outputs_of(self._of, self._spark, task, place),
            cleaned=cleaned,
        )
        frame = made.build() if storage.end(place.folder) is None else None
        if frame is not None and writes_columns(self._of.graph, task):
            refuse_duplicate_columns(task, frame)
        if self._of.graph.consumers_of(task):
            self._columns[task.uid] = output_schema(storage, place.folder, task.uid, frame)
        return made

    def _input(self, task: Task, uid: str) -> BatchInput:
        storage, path = self._of.storage, layout.inbox(self._of.folder(SubtaskId(task.uid, 0)), uid)
        inbox = Inbox(storage.store, path, task.inputs.index(uid))
        inbox.open()
        if uid in self._frozen:
            frozen = self._frozen[uid]
            read = partial(self._read_source, self._of.definition.sources[uid], path, frozen)
            files, allowed = partial(located, storage, frozen), self._of.changed_files
            return BatchInput(uid=uid, inbox=inbox, read=read, files=files, changed_files=allowed)
        producer = Producer(
            storage=storage,
            folder=self._of.folder(SubtaskId(uid, 0)),
            task=self._of.graph.task(uid),
            reader=Reader(task=task.uid),
            ends=self._of.ends,
        )
        read = partial(self._read_channel, uid, path)
        return BatchInput(uid=uid, inbox=inbox, read=read, files=partial(producer.segments, BATCH), is_channel=True)

    def _read_source(self, spec: SourceSpec, path: str, frozen: FrozenFiles) -> DataFrame:
        source, store = spec.source, self._of.storage.store
        data = made_by(source.uid, lambda: read_inbox(self._spark.read, store, path, spec.spec, frozen))
        if source.event_time is None:
            return data
        check_event_time(data, source.uid, source.event_time)
        return without_unusable_times(data, source.event_time) if spec.late == "drop" else data

    def _read_channel(self, uid: str, path: str) -> DataFrame:
        reader = self._spark.read.schema(self._columns[uid]).option("recursiveFileLookup", "true")
        return reader.parquet(self._of.storage.store.spark_path(path))
