"""Putting the tasks of a batch run together. What is wrong with any of their plans is found here, before one runs.

A task that reads others is first built over what these have not written yet: their columns are known, and so is whether
Spark can run it. It is built again once they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.inbox import Inbox
from rekindle.channels.producer import Producer, Reader
from rekindle.channels.splits import Splits
from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.leftovers import clean
from rekindle.runtime.steps import Steps
from rekindle.spark.assembly import Definition
from rekindle.spark.batch_task import BATCH, BatchInput, BatchTask
from rekindle.spark.freezing import located
from rekindle.spark.inputs import (
    SourceSpec,
    check_event_time,
    made_by,
    read_inbox,
    without_times_before_epoch,
)
from rekindle.spark.outputs import Outputs, Place
from rekindle.spark.segments import SegmentWriter, output_schema
from rekindle.storage import layout
from rekindle.storage.documents import BatchRecord, FrozenFiles, Run
from rekindle.storage.job_storage import JobStorage


class BatchAssembly:
    """The tasks of one batch run.

    Args:
        graph: every task of it has one subtask.
        frozen: source uid → its list.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: JobStorage,
        run: Run,
        graph: JobGraph,
        definition: Definition,
        frozen: Mapping[str, FrozenFiles],
        config: Config,
        steps: Steps,
        post: Callable[[e.Event], None],
    ) -> None:
        self._spark = spark
        identity = storage.identity()
        assert identity is not None, "it is written before a run is claimed"
        self._owner = identity.owner
        self._storage = storage
        self._run = run
        self._graph = graph
        self._definition = definition
        self._frozen = frozen
        self._config = config
        self._steps = steps
        self._post = post
        #: task → columns of what others read of it
        self._columns: dict[str, T.StructType] = {}
        #: task → bounded source → its files, all of which are the task's
        self.splits: dict[str, dict[str, Splits]] = {
            task.uid: {uid: self._split(task.uid, uid) for uid in task.inputs if uid in frozen} for task in graph.tasks
        }

    def runners(self) -> dict[SubtaskId, BatchTask]:
        """Every task of the job; raises what is wrong with their plans."""
        return {SubtaskId(uid, 0): self._task(self._graph.task(uid)) for uid in self._graph.topology.order}

    def read(self, subtask: SubtaskId) -> dict[SubtaskId, int]:
        """How many batches of each task that it reads a task has read."""
        done = BATCH in self._storage.records(self._folder(subtask.task))
        edges = self._graph.topology.inputs_of(subtask.task)
        return {SubtaskId(edge.source, 0): BATCH + 1 if done else 0 for edge in edges}

    def _folder(self, task: str) -> str:
        return layout.subtask(self._storage.job, task, 0, self._run.lineage)

    def _split(self, task: str, source: str) -> Splits:
        folder = layout.splits(self._storage.job, task, self._run.lineage, source)
        return Splits(self._storage, folder, self._run.run, located(self._storage, self._frozen[source]), 1, None)

    def _task(self, task: Task) -> BatchTask:
        storage, folder, steps = self._storage, self._folder(task.uid), self._steps
        place = Place(
            owner=self._owner,
            task=task.uid,
            subtask=0,
            lineage=self._run.lineage,
            run=self._run.run,
            folder=folder,
        )
        is_read = bool(self._graph.consumers_of(task))
        cores = self._spark.sparkContext.defaultParallelism
        writer = SegmentWriter(storage, folder, self._config.channel_segment_bytes, cores) if is_read else None
        sinks = {sink.uid: self._definition.sinks[sink.uid] for sink in self._graph.sinks_of(task)}

        def cleaned(record: BatchRecord) -> None:
            clean(storage, [SubtaskId(task.uid, 0)], self._run, sinks, record.committables, steps)

        made = BatchTask(
            self._spark,
            storage,
            place,
            task,
            self._definition.functions[task.uid],
            [self._input(task, uid) for uid in task.inputs],
            Outputs(place, sinks, writer, steps),
            cleaned,
            self._post,
        )
        frame = made.build() if storage.end(folder) is None else None
        if is_read:
            self._columns[task.uid] = output_schema(storage, folder, task.uid, frame)
        return made

    def _input(self, task: Task, uid: str) -> BatchInput:
        storage, path = self._storage, layout.inbox(self._folder(task.uid), uid)
        inbox = Inbox(storage.store, path, task.inputs.index(uid))
        inbox.open()
        if uid in self._frozen:
            frozen = self._frozen[uid]
            read = partial(self._read_source, self._definition.sources[uid], path, frozen)
            return BatchInput(uid=uid, inbox=inbox, read=read, files=partial(located, storage, frozen))
        producer = Producer(
            storage=storage,
            folder=self._folder(uid),
            task=self._graph.task(uid),
            reader=Reader(task=task.uid),
        )
        read = partial(self._read_channel, uid, path)
        return BatchInput(uid=uid, inbox=inbox, read=read, files=partial(producer.segments, BATCH), is_channel=True)

    def _read_source(self, spec: SourceSpec, path: str, frozen: FrozenFiles) -> DataFrame:
        source, store = spec.source, self._storage.store
        data = made_by(source.uid, lambda: read_inbox(self._spark.read, store, path, spec.spec, frozen))
        if source.event_time is None:
            return data
        check_event_time(data, source.uid, source.event_time)
        return without_times_before_epoch(data, source.event_time) if spec.late == "drop" else data

    def _read_channel(self, uid: str, path: str) -> DataFrame:
        reader = self._spark.read.schema(self._columns[uid]).option("recursiveFileLookup", "true")
        return reader.parquet(self._storage.store.spark_path(path))
