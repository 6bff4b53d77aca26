"""Putting the subtasks of a run together: inputs, channels and back-pressure, each where its last record stands.

Reads the storage; the frozen lists of sources and the schemas of channels are written where they are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.backlog import Backlog
from rekindle.channels.producer import Producer, Reader
from rekindle.channels.splits import Splits
from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.graph.topology import Edge
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.steps import Steps
from rekindle.sinks import TwoPhaseSink
from rekindle.spark.freezing import located
from rekindle.spark.inputs import Input, SourceSpec, build_channel, build_input
from rekindle.spark.outputs import Outputs, Place
from rekindle.spark.plan import build_task
from rekindle.spark.segments import SegmentWriter, output_schema
from rekindle.spark.siblings import Siblings
from rekindle.spark.task import SparkTask
from rekindle.storage import layout
from rekindle.storage.documents import ChannelPosition, FrozenFiles, InputPosition, Lineage, Run
from rekindle.storage.job_storage import JobStorage

FIRST_ADMISSION_BYTES_PER_CORE = 128 * 1024 * 1024
"""What is admitted while nothing is known of a batch's speed: about what a core reads in a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A job as its user defined it."""

    graph: JobGraph
    sources: Mapping[str, SourceSpec]
    functions: Mapping[str, Callable[..., DataFrame]]
    sinks: Mapping[str, TwoPhaseSink]


class Assembly:
    """The subtasks of one run.

    Args:
        lineage: the one that the run continues or has opened.
        frozen: source uid → its list; None for a `Stream`.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: JobStorage,
        run: Run,
        lineage: Lineage,
        graph: JobGraph,
        definition: Definition,
        frozen: Mapping[str, FrozenFiles | None],
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
        self._topology = graph.topology
        self._definition = definition
        self._frozen = frozen
        self._config = config
        self._steps = steps
        self._post = post
        #: task → columns of what it puts into its channels
        self._outputs: dict[str, T.StructType] = {}
        #: subtask → what lies in its channels
        self._backlogs: dict[SubtaskId, Backlog] = {}
        #: task → bounded source → how its files are shared out
        self.splits: dict[str, dict[str, Splits]] = {
            task.uid: {
                uid: self._split(task, uid, lists, lineage)
                for uid in task.inputs
                if (lists := frozen.get(uid)) is not None
            }
            for task in graph.tasks
        }

    def runners(self) -> dict[SubtaskId, SparkTask]:
        """Every subtask of the job, those that have ended too; raises what building their plans raises."""
        found: dict[SubtaskId, SparkTask] = {}
        for uid in self._topology.order:
            task = self._graph.task(uid)
            subtasks = [SubtaskId(uid, index) for index in range(task.parallelism)]
            ended = [one.subtask for one in subtasks if self._storage.end(self._folder(one)) is not None]
            siblings = Siblings(task.parallelism, ended)
            found |= {subtask: self._subtask(task, subtask, siblings) for subtask in subtasks}
        return found

    def read(self, subtask: SubtaskId) -> dict[SubtaskId, int]:
        """How many batches of each producer a subtask has read: by its last record, or all where it has ended."""
        folder = self._folder(subtask)
        record, has_ended = self._storage.last_record(folder), self._storage.end(folder) is not None
        positions = record.inputs if record else {}
        read = {}
        for edge in self._topology.inputs_of(subtask.task):
            channels = positions.get(edge.source, InputPosition()).channels
            for index in self._topology.producers(edge, subtask.subtask):
                producer = SubtaskId(edge.source, index)
                end = self._storage.end(self._folder(producer)) if has_ended else None
                read[producer] = end.batch + 1 if end else channels.get(index, ChannelPosition()).batches
        return read

    def _folder(self, subtask: SubtaskId) -> str:
        return layout.subtask(self._storage.job, subtask.task, subtask.subtask, self._run.lineage)

    def _split(self, task: Task, source: str, frozen: FrozenFiles, lineage: Lineage) -> Splits:
        folder = layout.splits(self._storage.job, task.uid, self._run.lineage, source)
        unread = lineage.unread.get(task.uid, {}).get(source)
        files = located(self._storage, frozen)
        return Splits(self._storage, folder, self._run.run, files, task.parallelism, unread, frozen.by_time)

    def _subtask(self, task: Task, subtask: SubtaskId, siblings: Siblings) -> SparkTask:
        storage, folder = self._storage, self._folder(subtask)
        place = Place(
            owner=self._owner,
            task=subtask.task,
            subtask=subtask.subtask,
            lineage=self._run.lineage,
            run=self._run.run,
            folder=folder,
        )
        frame, inputs = None, []
        if storage.end(folder) is None:
            record = storage.last_record(folder)
            positions = record.inputs if record else {}
            inputs = [
                self._input(task, subtask, uid, 2 * number, positions.get(uid, InputPosition()))
                for number, uid in enumerate(task.inputs)
            ]
            frame = build_task(task, self._definition.functions[task.uid], inputs)
        writer, backlog = None, None
        if self._graph.consumers_of(task):
            self._outputs[task.uid] = output_schema(storage, folder, task.uid, frame)
            backlog = self._backlogs[subtask] = self._backlog(subtask)
            cores = self._spark.sparkContext.defaultParallelism
            writer = SegmentWriter(storage, folder, self._config.channel_segment_bytes, cores)
        sinks = {sink.uid: self._definition.sinks[sink.uid] for sink in self._graph.sinks_of(task)}
        return SparkTask(
            self._spark,
            storage,
            place,
            task,
            frame,
            inputs,
            Outputs(place, sinks, writer, self._steps),
            backlog,
            self._config,
            self._steps,
            self._post,
            self._backlogs,
            siblings,
        )

    def _edges_from(self, task: str) -> list[Edge]:
        return [edge for edge in self._topology.edges if edge.source == task]

    def _backlog(self, producer: SubtaskId) -> Backlog:
        """What lies in the channels of a subtask when the driver starts."""
        storage, read = self._storage, dict[SubtaskId, int]()
        for edge in self._edges_from(producer.task):
            for index in self._topology.consumers(edge, producer.subtask):
                reader = SubtaskId(edge.target, index)
                if storage.end(self._folder(reader)) is None:
                    read[reader] = self.read(reader)[producer]
        folder = self._folder(producer)
        batches = range(min(read.values(), default=0), max(storage.records(folder), default=-1) + 1)
        records = {batch: storage.record(folder, batch) for batch in (batches if read else ())}
        sizes = {batch: sum(one.size for one in record.segments) for batch, record in records.items() if record}
        return Backlog(self._config.channel_max_in_flight_bytes, read, sizes)

    def _input(self, task: Task, subtask: SubtaskId, uid: str, index: int, position: InputPosition) -> Input:
        storage, folder = self._storage, self._folder(subtask)
        sizer = AdmissionSizer(
            self._config.input_target_batch_duration_ms,
            FIRST_ADMISSION_BYTES_PER_CORE * self._spark.sparkContext.defaultParallelism,
        )
        if uid in self._frozen:
            frozen = self._frozen[uid]
            given = (frozen, self.splits[task.uid][uid], subtask.subtask) if frozen is not None else None
            return build_input(
                self._spark,
                storage,
                folder,
                self._definition.sources[uid],
                given,
                index=index,
                position=position,
                sizer=sizer,
                beside_idle=any(source.idle_after for source in self._graph.sources_of(task)),
            )
        return build_channel(
            self._spark,
            storage,
            folder,
            self._graph.task(uid),
            self._outputs[uid],
            self._producers(subtask, uid),
            index=index,
            position=position,
            sizer=sizer,
        )

    def _producers(self, subtask: SubtaskId, uid: str) -> dict[int, Producer]:
        edge = next(edge for edge in self._topology.inputs_of(subtask.task) if edge.source == uid)
        found = {}
        for index in self._topology.producers(edge, subtask.subtask):
            readers = self._topology.consumers(edge, index)
            found[index] = Producer(
                storage=self._storage,
                folder=self._folder(SubtaskId(uid, index)),
                task=self._graph.task(uid),
                reader=Reader(task=subtask.task, rank=readers.index(subtask.subtask), sharing=len(readers)),
            )
        return found
