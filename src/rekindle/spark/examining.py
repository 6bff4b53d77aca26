"""Examine a job's queries with Spark before a start, in a folder that is thrown away.

Each task's DataFrame is built as a run builds it, from inputs that have nothing to give. A query that is to continue
gets a copy of what Spark keeps of it, without the rows of its state: offsets, commits, operators, schemas. A batch
without data is planned in that copy and started. Before Spark hands a batch out it compares the plan with operators and
schemas, as in any first batch of a run; then it calls a function, which refuses the batch. So no row is read or
computed, and what is found is what a start would find. Spark 3.5 compares schemas only when it reads state, so there
this part is left to the start.
"""

from __future__ import annotations

import dataclasses
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.splits import Splits
from rekindle.errors import JobError, RekindleError, RestoreError
from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import why_streamed
from rekindle.graph.queries import QueryChange, settle_query, variable_changes
from rekindle.progress.copies import copy_without_state
from rekindle.progress.directory import last_committed, plant, read_offsets
from rekindle.progress.renumbering import Numbers, UnknownNumbersError, lines_of_plan
from rekindle.progress.stored_state import stateful_operators
from rekindle.runtime.definition import SourceSpec
from rekindle.runtime.examining import Examination, Examined, Left
from rekindle.runtime.steps import no_steps
from rekindle.session.failures import brief, translate
from rekindle.session.session import NEEDED
from rekindle.sinks import Parquet
from rekindle.sources import Batch, Files, SplitSource
from rekindle.spark.inputs.custom import columns_of
from rekindle.spark.inputs.frames import build_channel, build_input
from rekindle.spark.inputs.freezing import freeze
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.reading import made_by
from rekindle.spark.output.run import writes_columns
from rekindle.spark.output.segments import output_schema
from rekindle.spark.output.unwritable import refuse_unwritable
from rekindle.spark.plans.description import description_of
from rekindle.spark.plans.plan import are_moved, build_task, readers_of, refuse_moved_sources, shares_a_source
from rekindle.spark.plans.refuse import refuse_duplicate_columns
from rekindle.spark.prelude.facts import facts_of
from rekindle.spark.query.calls import Calls
from rekindle.spark.query.optimizer import same_for_each_batch, started_with
from rekindle.spark.query.own_files import written_by_calls
from rekindle.spark.query.refused import misuse, query_refused, refusal
from rekindle.spark.streaming.orders import Orders
from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.copying import copy_between
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.folder import Folder
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store


def examine(spark: SparkSession, of: Examination) -> dict[str, Examined]:
    """Examine the query of each task, in the order in which they read each other."""
    with tempfile.TemporaryDirectory(prefix="rekindle-check-") as folder:
        bench = _Bench(spark, of, JobStorage(LocalStore(folder), of.graph.name))
        return {uid: bench.examine(of.graph.task(uid)) for uid in of.graph.topology.order}


class _PlannedError(Exception):
    """Raised where Spark has planned the batch without an objection."""


class _Bench:
    """A place to build queries in: a storage that is thrown away."""

    def __init__(self, spark: SparkSession, of: Examination, scratch: BatchDocuments) -> None:
        self._spark = spark
        self._of = of
        self._scratch = scratch
        #: task → columns of what it puts out; one that could not be built is not there
        self._outputs: dict[str, T.StructType] = {}
        self._frozen: dict[str, FrozenFiles | None] = {}

    def examine(self, task: Task) -> Examined:
        """Examine one task; those that it reads have been examined before."""
        left, folder = self._of.left.get(task.uid), layout.subtask(self._scratch.job, task.uid, 0, 1)
        if left is not None:
            _copy_schema(left, self._scratch, folder)
            if left.ended:
                self._outputs[task.uid] = output_schema(self._scratch, folder, task.uid, None)
                return Examined(unseen="it has finished")
        missing = [uid for uid in task.inputs if uid not in self._of.definition.sources and uid not in self._outputs]
        if missing:
            return Examined(unseen=f"{missing[0]}, which it reads, could not be built")
        try:
            return self._examine(task, left, folder)
        except RekindleError as error:
            return Examined(error=error)

    def _examine(self, task: Task, left: Left | None, folder: str) -> Examined:
        inputs = [self._input(task, uid, 2 * number, folder) for number, uid in enumerate(task.inputs)]
        frame = build_task(task, self._of.definition.functions[task.uid], inputs)
        if writes_columns(self._of.graph, task):
            refuse_duplicate_columns(task, frame)
        for sink in self._of.graph.sinks_of(task):
            if sink.kind == Parquet.kind:  # the sinks of other formats compare the types themselves
                refuse_unwritable(f"sink {sink.uid!r}", frame)
        orders = Orders(self._of.graph, self._of.definition.sources, {})
        orders.look(task, frame, inputs)
        orders.settle()
        changes, lines, moved = [], None, False
        numbers = Numbers(
            count=len(readers_of(frame)),
            inputs={item.uid: (item.spark_sources, item.mark_sources) for item in inputs},
            shared=shares_a_source(frame),
        )
        if left is not None:
            changes = settle_query(task.uid, left.described, description_of(frame, task.output_mode))
            for item in inputs:
                item.position = left.positions.get(item.uid, item.position)
            moved = left.may_move and not left.other_inputs and are_moved(inputs)
            if left.other_inputs or moved:
                lines = _lines(task, numbers, left)
            else:
                refuse_moved_sources(task.uid, inputs)
        self._outputs[task.uid] = output_schema(self._scratch, folder, task.uid, frame)
        if self._of.numbers_only and lines is None:
            return Examined(numbers=numbers)
        self._try(task, frame, left, layout.spark_progress_dir(folder), lines)
        if left is not None:
            changes += self._changed_variables(task.uid, left, layout.spark_progress_dir(folder))
        facts, _ = facts_of(task, frame, inputs, changed_files=False)
        begins = left is None and facts.has_history
        return Examined(
            changes=tuple(changes),
            numbers=numbers,
            moved=moved,
            has_history=begins,
            streams_history=why_streamed(facts) if begins else None,
            columns=frame.schema,
        )

    def _changed_variables(self, task: str, left: Left, progress_dir: str) -> list[QueryChange]:
        """Compare the variables that the task has left with those that Spark has just noted for the planned batch."""
        there = layout.spark_progress_dir(left.folder)
        batch = last_committed(left.store, there)
        now = _variables(self._scratch.store, progress_dir, batch + 1)
        return variable_changes(task, _variables(left.store, there, batch), now)

    def _input(self, task: Task, uid: str, index: int, folder: str) -> Input:
        sizer, position = AdmissionSizer(1, 1), InputPosition()
        spec = self._of.definition.sources.get(uid)
        if spec is None:
            producer = self._of.graph.task(uid)
            return build_channel(
                self._spark, self._scratch, folder, producer, self._outputs[uid], {},
                logs=self._scratch.store, index=index, position=position, sizer=sizer, finite=False,
            )  # fmt: skip
        if uid not in self._frozen:
            self._frozen[uid] = self._of.frozen(uid) or self._list(spec)
        frozen, splits = self._frozen[uid], read_layout.splits(self._scratch.job, task.uid, 1, uid)
        given = None if frozen is None else (frozen, Splits(self._scratch, splits, 1, (), 1, None), 0)
        beside_idle = any(source.idle_after for source in self._of.graph.sources_of(task))
        return build_input(
            self._spark, self._scratch, folder, spec, given,
            logs=self._scratch.store, index=index, position=position, sizer=sizer, beside_idle=beside_idle,
        )  # fmt: skip

    def _list(self, spec: SourceSpec) -> FrozenFiles | None:
        """List the files of a source as a first start would; of rows that it would write, the columns."""
        source, uid = spec.spec, spec.source.uid
        if isinstance(source, Batch):
            return FrozenFiles(source=uid, files=(), schema=made_by(uid, source.read, self._spark).schema.jsonValue())
        if isinstance(source, SplitSource):
            return FrozenFiles(source=uid, files=(), schema=columns_of(self._spark, uid, source).jsonValue())
        if isinstance(source, Files) and source.ordered is None:
            # Statistics only order the files, and there may be many.
            spec = dataclasses.replace(spec, spec=dataclasses.replace(source, ordered=False))
        return freeze(self._spark, self._scratch, spec, "check", no_steps)

    def _try(
        self,
        task: Task,
        frame: DataFrame,
        left: Left | None,
        progress_dir: str,
        lines: Sequence[int | None] | None,
    ) -> None:
        """Let Spark plan a batch.

        Raises:
            RekindleError: ``STATE_SCHEMA_INCOMPATIBLE``, ``QUERY_REFUSED``, ``QUERY_DIED``.
        """
        store, continues = self._scratch.store, False
        if left is not None:
            there = layout.spark_progress_dir(left.folder)
            batch = last_committed(left.store, there)
            if batch >= 0:
                copy_without_state(Folder(left.store, there), Folder(store, progress_dir), batch, lines)
                plant(store, progress_dir, read_offsets(store, progress_dir, batch).batch_watermark_ms)
                continues = True
        session = frame.sparkSession
        uri = store.spark_path(progress_dir)
        planned = threading.Event()

        def refuse(_: DataFrame, __: int) -> None:
            planned.set()
            raise _PlannedError  # a batch that returned without its rows would be no batch for Spark

        calls = Calls(self._spark, refuse)
        writer = frame.writeStream.foreachBatch(calls).outputMode(task.output_mode).option("checkpointLocation", uri)
        settings: Mapping[str, str] = {**NEEDED, **same_for_each_batch(frame), **written_by_calls(session, uri, frame)}
        try:
            with started_with(session, settings):
                query = writer.trigger(once=True).start()
        except PySparkException as error:
            raise query_refused(task.uid, error) from error
        try:
            if continues:
                query.awaitTermination()
        except PySparkException as error:
            if planned.is_set():
                return
            known = refusal(task.uid, error) or misuse(task.uid, error) or translate(error, lambda _: None)
            raise known or JobError("QUERY_DIED", task=task.uid, reason=brief(error)) from error
        finally:
            # One that begins was only to be accepted: what its sources have is not looked at.
            query.stop()
            calls.close()


def _lines(task: Task, numbers: Numbers, left: Left) -> Sequence[int | None]:
    try:
        return lines_of_plan(numbers, left.positions)
    except UnknownNumbersError as error:
        raise RestoreError("INPUTS_CHANGED", task=task.uid, path=left.store.location, reason=error) from error


def _variables(store: Store, progress_dir: str, batch: int) -> dict[int, Collection[str]]:
    """Return number of a stateful operator → names of its variables."""
    found = stateful_operators(store, progress_dir, batch)
    return {operator.number: operator.variables.keys() for operator in found}


def _copy_schema(left: Left, scratch: JobDocuments, folder: str) -> None:
    path = layout.output_schema(left.folder)
    if left.store.exists(path):
        copy_between(left.store, path, scratch.store, layout.output_schema(folder))
