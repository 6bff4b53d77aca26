"""Put the subtasks of a run together: inputs, channels and back-pressure, each where its last batch record stands.

Reads the storage; the frozen lists of sources and the schemas of channels are written where they are missing.
"""

from __future__ import annotations

import logging
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.backlog import Backlog
from rekindle.channels.producer import Producer, Reader
from rekindle.channels.shown_logs import shown_logs
from rekindle.channels.splits import Splits
from rekindle.errors import StorageError
from rekindle.graph.job_graph import Task
from rekindle.graph.queries import settle_query
from rekindle.graph.time_order import is_finite
from rekindle.graph.topology import Edge
from rekindle.ids import SubtaskId
from rekindle.progress.retention import SourceLogs
from rekindle.protocol import events as e
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.definition import RunContext
from rekindle.runtime.operator_states import custom_splits
from rekindle.session import scratch
from rekindle.spark.inputs.catching_up import CatchingUp, CaughtUpAt
from rekindle.spark.inputs.custom import Custom
from rekindle.spark.inputs.frames import build_channel, build_input
from rekindle.spark.inputs.freezing import located
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.run import cores, outputs_of, place_of, writes_columns
from rekindle.spark.output.segments import output_schema
from rekindle.spark.plans.description import description_of
from rekindle.spark.plans.plan import build_task, files_too_old_ms, lists_files, refuse_moved_sources
from rekindle.spark.plans.refuse import refuse_duplicate_columns
from rekindle.spark.prelude.choosing import prelude_of
from rekindle.spark.prelude.history import HistoryPrelude
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.streaming.available_now import bind
from rekindle.spark.streaming.orders import Orders
from rekindle.spark.streaming.parts import Built, SubtaskParts
from rekindle.spark.streaming.siblings import Siblings
from rekindle.spark.streaming.task import SparkTask
from rekindle.storage import layout, read_layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, InputPosition
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.sources import FrozenFiles

FIRST_ADMISSION_BYTES_PER_CORE = 128 * 1024 * 1024
"""The bytes admitted while nothing is known of a batch's speed: about what a core reads in a few seconds."""


_LOG = logging.getLogger(__name__)


class Assembly:
    """The subtasks of one run.

    Args:
        lineage: the one that the run continues or has opened.
    """

    def __init__(self, run: RunContext, spark: SparkSession, lineage: Lineage) -> None:
        self._of = run
        self._spark = spark
        #: subtask → the oldest batch of it that a checkpoint needs
        self._needed = oldest_needed(run.storage, lineage)
        self._topology = run.graph.topology
        #: the store in which queries read the logs of their inboxes
        self._logs = shown_logs(run.storage.store, scratch.held())
        self._caught_up_at = CaughtUpAt()
        #: task → columns of what it puts into its channels
        self._outputs: dict[str, T.StructType] = {}
        #: subtask → what lies in its channels
        self._backlogs: dict[SubtaskId, Backlog] = {}
        #: producer → its oldest batch record, looked up once: others may delete more meanwhile
        self._oldest: dict[SubtaskId, int] = {}
        #: task → bounded source → how its files are shared out
        self.splits: dict[str, dict[str, Splits]] = {
            task.uid: {
                uid: self._split(task, uid, lists, lineage)
                for uid in task.inputs
                if (lists := run.frozen.get(uid)) is not None
            }
            for task in run.graph.tasks
        }
        self.custom = custom_splits(run, lineage)
        self._orders = Orders(run.graph, run.definition.sources, self.splits)

    def runners(self) -> dict[SubtaskId, SparkTask]:
        """Build every subtask of the job, those that have ended too; raise what building their plans raises."""
        found: dict[SubtaskId, SparkTask] = {}
        for uid in self._topology.order:
            task = self._of.graph.task(uid)
            subtasks = [SubtaskId(uid, index) for index in range(task.parallelism)]
            ended = [one.subtask for one in subtasks if self._of.ends.of(self._of.folder(one)) is not None]
            siblings = Siblings(task.parallelism, ended)
            found |= {subtask: self._subtask(task, subtask, siblings) for subtask in subtasks}
        self._orders.settle()
        return found

    def read(self, subtask: SubtaskId, record: BatchRecord | None) -> dict[SubtaskId, int]:
        """Return how many batches of each producer a subtask has read: all if it has ended, else by its batch record.

        Batches that the batch record does not count, and that were deleted, had nothing for it (see `ChannelFeed`).
        """
        has_ended = self._of.ends.of(self._of.folder(subtask)) is not None
        positions = record.inputs if record else {}
        read = {}
        for edge in self._topology.inputs_of(subtask.task):
            channels = positions.get(edge.source, InputPosition()).channels
            for index in self._topology.producers(edge, subtask.subtask):
                producer = SubtaskId(edge.source, index)
                end = self._of.ends.of(self._of.folder(producer)) if has_ended else None
                recorded = channels.get(index, ChannelPosition()).batches
                read[producer] = end.batch + 1 if end else max(recorded, self._oldest_of(producer))
        return read

    def _oldest_of(self, producer: SubtaskId) -> int:
        if producer not in self._oldest:
            self._oldest[producer] = min(self._of.storage.records(self._of.folder(producer)), default=0)
        return self._oldest[producer]

    def _split(self, task: Task, source: str, frozen: FrozenFiles, lineage: Lineage) -> Splits:
        folder = read_layout.splits(self._of.storage.job, task.uid, self._of.run.lineage, source)
        unread = lineage.unread.get(task.uid, {}).get(source)
        files = located(self._of.storage, frozen)
        return Splits(self._of.storage, folder, self._of.run.run, files, task.parallelism, unread, frozen.by_time)

    def _subtask(self, task: Task, subtask: SubtaskId, siblings: Siblings) -> SparkTask:
        storage, folder = self._of.storage, self._of.folder(subtask)
        place = place_of(self._of, subtask)
        # Read once: a driver that was taken for dead may record another batch at any time.
        record = storage.last_record(folder)
        built = self._built(task, subtask, record) if self._of.ends.of(folder) is None else Built()
        backlog = None
        if self._of.graph.consumers_of(task):
            self._outputs[task.uid] = output_schema(storage, folder, task.uid, built.frame)
            backlog = self._backlogs[subtask] = self._backlog(subtask)
        # A user's function may have made its frame in another session, which then runs the query and knows it.
        spark = self._spark if built.frame is None else built.frame.sparkSession
        parts = SubtaskParts(
            task=task,
            place=place,
            last=record.batch if record else -1,
            frame=built.frame,
            inputs=built.inputs,
            logs=self._logs,
            outputs=outputs_of(self._of, self._spark, task, place),
            backlog=backlog,
            read_from=self._backlogs,
            siblings=siblings,
            catching_up=CatchingUp(
                built.inputs,
                is_wanted=self._of.run.available_now,
                watermark_ms=record.watermark_ms if record else None,
                bind=partial(bind, spark),
                caught_up=lambda at: self._of.post(e.CaughtUp(task=subtask, batch=at.batch, read=at.read)),
                subtask=subtask,
                caught_up_at=self._caught_up_at,
            ),
            kept=KeptBatches(self._needed.get(subtask)),
            source_logs=SourceLogs(storage.store, layout.spark_progress_dir(folder), built.files_too_old_ms),
            prelude=built.prelude,
            lists_files=built.lists_files,
            described=built.described,
        )
        return SparkTask(self._of, spark, parts)

    def _built(self, task: Task, subtask: SubtaskId, record: BatchRecord | None) -> Built:
        """Build the plan of a subtask that continues after `record`; raise what building it raises."""
        positions = record.inputs if record else {}
        inputs = [
            self._input(task, subtask, uid, 2 * number, positions.get(uid, InputPosition()))
            for number, uid in enumerate(task.inputs)
        ]
        frame = build_task(task, self._of.definition.functions[task.uid], inputs)
        described = description_of(frame, task.output_mode)
        changes = settle_query(task.uid, record.windows if record else None, described)
        refuse_moved_sources(task.uid, inputs)
        if writes_columns(self._of.graph, task):
            refuse_duplicate_columns(task, frame)
        for change in changes:
            _LOG.warning("%s", change)
        prelude = prelude_of(
            self._of, self._spark, task, place_of(self._of, subtask), frame, inputs,
            described=described, last=record.batch if record else -1,
        )  # fmt: skip
        # After a prelude the stream drops rows of the history that were computed.
        self._orders.look(task, frame, () if isinstance(prelude, HistoryPrelude) else inputs)
        ours = self._logs.spark_path(self._of.folder(subtask))
        return Built(
            frame=frame,
            inputs=inputs,
            described=described,
            prelude=prelude,
            lists_files=lists_files(frame, ours),
            files_too_old_ms=files_too_old_ms(frame, ours),
        )

    def _edges_from(self, task: str) -> list[Edge]:
        return [edge for edge in self._topology.edges if edge.source == task]

    def _backlog(self, producer: SubtaskId) -> Backlog:
        """Return the backlog: what lies in the channels of a subtask when the driver starts."""
        storage, read = self._of.storage, dict[SubtaskId, int]()
        for edge in self._edges_from(producer.task):
            for index in self._topology.consumers(edge, producer.subtask):
                reader = SubtaskId(edge.target, index)
                place = self._of.folder(reader)
                if self._of.ends.of(place) is None:
                    record = storage.last_record(place)
                    read[reader] = self.read(reader, record)[producer]
        folder = self._of.folder(producer)
        batches = range(min(read.values(), default=0), max(storage.records(folder), default=-1) + 1)
        records = {batch: storage.record(folder, batch) for batch in (batches if read else ())}
        sizes = {batch: sum(one.size for one in record.segments) for batch, record in records.items() if record}
        return Backlog(self._of.config.channel_max_in_flight_bytes, read, sizes)

    def _input(self, task: Task, subtask: SubtaskId, uid: str, index: int, position: InputPosition) -> Input:
        storage, folder = self._of.storage, self._of.folder(subtask)
        sizer = AdmissionSizer(
            self._of.config.input_target_batch_duration_ms,
            position.next_bytes or FIRST_ADMISSION_BYTES_PER_CORE * cores(self._spark),
        )
        if uid in self._of.frozen:
            frozen, custom = self._of.frozen[uid], self.custom[task.uid].get(uid)
            given: tuple[FrozenFiles, Splits, int] | Custom | None = None
            if frozen is not None:
                given = (frozen, self.splits[task.uid][uid], subtask.subtask)
            elif custom is not None:
                given = Custom(run=self._of, spark=self._spark, uid=uid, splits=custom, subtask=subtask)
            return build_input(
                self._spark,
                storage,
                folder,
                self._of.definition.sources[uid],
                given,
                logs=self._logs,
                index=index,
                position=position,
                sizer=sizer,
                beside_idle=any(source.idle_after for source in self._of.graph.sources_of(task)),
                changed_files=self._of.changed_files,
            )
        return build_channel(
            self._spark,
            storage,
            folder,
            self._of.graph.task(uid),
            self._outputs[uid],
            self._producers(subtask, uid),
            logs=self._logs,
            index=index,
            position=position,
            sizer=sizer,
            finite=is_finite(self._of.graph, self._of.graph.task(uid)),
        )

    def _producers(self, subtask: SubtaskId, uid: str) -> dict[int, Producer]:
        edge = next(edge for edge in self._topology.inputs_of(subtask.task) if edge.source == uid)
        found = {}
        for index in self._topology.producers(edge, subtask.subtask):
            readers = self._topology.consumers(edge, index)
            found[index] = Producer(
                storage=self._of.storage,
                folder=self._of.folder(SubtaskId(uid, index)),
                task=self._of.graph.task(uid),
                reader=Reader(task=subtask.task, rank=readers.index(subtask.subtask), sharing=len(readers)),
                ends=self._of.ends,
                oldest=self._oldest_of(SubtaskId(uid, index)),
            )
        return found


def oldest_needed(storage: CheckpointDocuments, lineage: Lineage) -> dict[SubtaskId, int]:
    """Find the oldest batch of each subtask that a retained checkpoint of `lineage` needs."""
    for number in storage.numbers_used():
        try:
            manifest = storage.manifest(number)
        except StorageError:
            # What it needs is not known: all is kept until it is gone.
            return dict.fromkeys(lineage.subtasks(), 0)
        if manifest is not None and manifest.lineage == lineage.lineage:
            return {subtask: max(snapshot.batch, 0) for subtask, snapshot in snapshots_of(manifest).items()}
    return {}
