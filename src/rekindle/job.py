"""What a user writes: a job, its sources, tasks and sinks."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, get_args

from rekindle.config import Config
from rekindle.errors import DefinitionError, RekindleError
from rekindle.graph import job_graph
from rekindle.handle import JobHandle, advise
from rekindle.results import Checkpoint, JobResult, Savepoint, failure
from rekindle.runtime.definition import Definition, SourceSpec
from rekindle.runtime.signals import stop_on_signals
from rekindle.sinks import TwoPhaseSink
from rekindle.sources import Batch, Files, Source, Stream
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.place import location_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.spark.plain.adoption import Adopted
    from rekindle.start.preview import StartPreview

Mode = Literal["streaming", "batch"]
Late = Literal["fail", "drop"]
OutputMode = Literal["append", "update", "complete"]
Origin = str | int | Checkpoint | Savepoint
"""Where a job can start: the path of a checkpoint or savepoint, a checkpoint's number, or what a handle returned."""

_Inputs = ParamSpec("_Inputs")

_Item = TypeVar("_Item", job_graph.Source, job_graph.Task, job_graph.Sink)


@dataclass(frozen=True, eq=False)
class SourceHandle:
    """A source of a job, to be passed to ``@job.task``."""

    job: Job
    uid: str

    def __repr__(self) -> str:
        return f"<source {self.uid!r} of {self.job!r}>"


@dataclass(frozen=True, eq=False)
class TaskHandle(Generic[_Inputs]):
    """A task of a job: the handle of its output, and still the function it was made from."""

    job: Job
    uid: str
    function: Callable[_Inputs, DataFrame]

    def __repr__(self) -> str:
        return f"<task {self.uid!r} of {self.job!r}>"

    def __call__(self, *inputs: _Inputs.args, **options: _Inputs.kwargs) -> DataFrame:
        """Call the function with DataFrames, batch ones too: so it can be tested without a job."""
        return self.function(*inputs, **options)


def _is_typed_in() -> bool:
    """Whether the code that calls this module is of a notebook's cell or of a prompt; a file is run once."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return hasattr(sys, "ps1") or frame is None or not os.path.isfile(frame.f_code.co_filename)


def _with_repeats(function: Callable[..., DataFrame], read: Sequence[str]) -> Callable[..., DataFrame]:
    """A task's function that is given each of its inputs once, for one that takes some of them several times."""

    def spread(*frames: DataFrame) -> DataFrame:
        from rekindle.spark.plans.plan import another

        given, left = dict(zip(dict.fromkeys(read), frames, strict=True)), set(read)
        arguments = []
        for uid in read:
            arguments.append(given[uid] if uid in left else another(given[uid]))
            left.discard(uid)
        return function(*arguments)

    return spread


class Job:
    """A pipeline that begins, checkpoints, stops and ends properly.

    Args:
        name: stable identity; the folder of the job in its storage.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sources: list[job_graph.Source] = []
        self._specs: dict[str, tuple[Source, str]] = {}
        self._tasks: list[job_graph.Task] = []
        self._functions: dict[str, Callable[..., DataFrame]] = {}
        self._sinks: list[job_graph.Sink] = []
        self._targets: dict[str, TwoPhaseSink] = {}
        #: of the last start
        self._handle: JobHandle | None = None

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its tasks, and what they read and write."""
        lines = [f"<b>{escape(self.name)}</b>"]
        for task in self._tasks:
            sinks = ", ".join(sink.uid for sink in self._sinks if sink.task == task.uid) or "-"
            lines.append(escape(f"{', '.join(task.inputs)} -> {task.uid} -> {sinks}"))
        return "<br>".join(lines)

    def source(
        self,
        uid: str,
        spec: Source,
        *,
        event_time: str | None = None,
        watermark: str | None = None,
        idle_after: str | None = None,
        late: Late = "fail",
    ) -> SourceHandle:
        """Add a source.

        Args:
            uid: stable identity: renaming it is a change of the job.
            spec: ``rk.Files``, ``rk.Batch`` (bounded) or ``rk.Stream`` (unbounded).
            event_time: the column of type timestamp that windows and watermarks go by.
            watermark: how late rows of an unbounded source may come, e.g. ``"4 seconds"``. A bounded source loses
                nothing to lateness and has none; with ``Files(ordered=True)`` it says how far files may overlap.
            idle_after: how long an unbounded source has no data, e.g. ``"5 minutes"``, before it stops holding back the
                watermark of its tasks, until it has data again. Without it, it holds it back for as long as it takes.
            late: what becomes of rows with a time before 1970, which Spark drops: ``"fail"`` or ``"drop"``.

        Raises:
            DefinitionError: ``SPEC_UNKNOWN``, ``LATE_UNKNOWN``, ``WATERMARK_NEEDLESS``.
        """
        if not isinstance(spec, Files | Batch | Stream):
            raise DefinitionError("SPEC_UNKNOWN", source=uid, found=type(spec).__name__)
        if late not in get_args(Late):
            raise DefinitionError("LATE_UNKNOWN", source=uid, late=late)
        ordered = isinstance(spec, Files) and spec.ordered is True
        if spec.bounded and watermark is not None and not ordered:
            raise DefinitionError("WATERMARK_NEEDLESS", source=uid)
        source = job_graph.Source(
            uid=uid, bounded=spec.bounded, event_time=event_time, watermark=watermark, idle_after=idle_after
        )
        self._define(self._sources, source)
        self._specs[uid] = (spec, late)
        return SourceHandle(self, uid)

    def task(
        self,
        *inputs: SourceHandle | TaskHandle[...],
        uid: str | None = None,
        parallelism: int = 1,
        event_time: str | None = None,
        watermark: str | None = None,
        output_mode: OutputMode = "append",
    ) -> Callable[[Callable[_Inputs, DataFrame]], TaskHandle[_Inputs]]:
        """Decorate the function that makes the task's output from its inputs, in the order given here.

        Args:
            uid: stable identity; the function's name unless given.
            parallelism: queries that share the work, for a task that keeps no state and reads bounded sources or other
                tasks. Spark already runs one query on all cores: more than one pays where its batches leave cores idle.
            event_time: event-time column of the output, of type timestamp, for tasks that read it.
            watermark: how far that column may lag the task's watermark, e.g. ``"1 hour"`` where it is
                the start of windows of an hour.
            output_mode: ``"append"``, ``"update"`` or ``"complete"``, as in Spark.
        """

        def add(function: Callable[_Inputs, DataFrame]) -> TaskHandle[_Inputs]:
            name = uid or str(getattr(function, "__name__", ""))
            if not uid and not name.isidentifier():
                raise DefinitionError("UID_MISSING", function=name or type(function).__name__)
            read = tuple(self._uid(name, item) for item in inputs)
            task = job_graph.Task(
                uid=name,
                inputs=tuple(dict.fromkeys(read)),
                parallelism=parallelism,
                output_mode=output_mode,
                event_time=event_time,
                watermark=watermark,
            )
            self._define(self._tasks, task)
            self._functions[name] = function if len(set(read)) == len(read) else _with_repeats(function, read)
            return TaskHandle(self, name, function)

        return add

    def _uid(self, task: str, item: object) -> str:
        if not isinstance(item, SourceHandle | TaskHandle) or item.job is not self:
            raise DefinitionError("INPUT_UNKNOWN", task=task, input=getattr(item, "uid", item))
        return item.uid

    def sink(self, uid: str, stream: TaskHandle[...], sink: TwoPhaseSink) -> None:
        """Commit a task's output to `sink`, with each completed checkpoint. Several sinks share one evaluation."""
        if not isinstance(sink, TwoPhaseSink):
            raise DefinitionError("SINK_UNKNOWN", sink=uid, found=type(sink).__name__)
        made = job_graph.Sink(
            uid=uid, task=self._uid(uid, stream), kind=sink.kind, output_modes=tuple(sink.output_modes)
        )
        self._define(self._sinks, made)
        self._targets[uid] = sink

    def _define(self, items: list[_Item], item: _Item) -> None:
        """Add an item, or put it in the place of the one with its uid, if its cell was run again.

        Raises:
            DefinitionError: ``JOB_STARTED``.
        """
        places = [place for place, other in enumerate(items) if other.uid == item.uid]
        if not places or not _is_typed_in():
            items.append(item)  # a uid that is there twice is refused with the whole job
            return
        if self._handle is not None and self._handle.is_running():
            raise DefinitionError("JOB_STARTED", job=self.name, uid=item.uid)
        items[places[0]] = item

    def graph(self) -> job_graph.JobGraph:
        """The job as plain data, validated.

        Raises:
            DefinitionError: the first thing that is wrong.
        """
        return job_graph.JobGraph(
            name=self.name, sources=tuple(self._sources), tasks=tuple(self._tasks), sinks=tuple(self._sinks)
        ).validated()

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        config: Mapping[str, Any] | None = None,
        spark_config: Mapping[str, str] | None = None,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
        allow_shared_target: bool = False,
        allow_changed_files: bool = False,
    ) -> JobResult:
        """Run the job to its end; SIGTERM and Ctrl-C stop it, a second Ctrl-C cancels it. A batch run they cancel.

        Takes what `start` takes. A job that was stopped, cancelled, killed or failed resumes after its last
        committed batches.

        Raises:
            RekindleError: what `start` raises; why the job has failed, or ``JOB_CANCELED``, with its result in the
                attribute `result`. ``start(...).wait()`` returns the result of a job that fails or is cancelled.
        """
        try:
            handle = self.start(
                spark,
                storage=storage,
                restore=restore,
                mode=mode,
                config=config,
                spark_config=spark_config,
                allow_non_restored_state=allow_non_restored_state,
                allow_drained=allow_drained,
                allow_sink_ahead=allow_sink_ahead,
                allow_shared_target=allow_shared_target,
                allow_changed_files=allow_changed_files,
            )
            with stop_on_signals(handle):
                result = handle.wait()
            assert result is not None
            error = failure(result)
            if error is not None:
                raise error
        except RekindleError as error:
            advise(error)
            raise
        return result

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        config: Mapping[str, Any] | None = None,
        spark_config: Mapping[str, str] | None = None,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
        allow_shared_target: bool = False,
        allow_changed_files: bool = False,
    ) -> JobHandle:
        """Start the job and return at once.

        Args:
            spark: the session to use; None: one is made, and stopped at the end.
            storage: where the job keeps its state; default ``REKINDLE_STORAGE``, else ``./rekindle-state``.
            restore: where to start: a checkpoint (path or number), a savepoint (path), or what `JobHandle.checkpoint`
                or `JobHandle.savepoint` returned; None: where the job stood.
            mode: ``"streaming"``; or ``"batch"``, where every source is bounded: each task is evaluated once, over all
                of its input, and everything is committed at the end.
            config: settings, e.g. ``{"checkpoint.interval": "10 seconds"}``.
            spark_config: settings of the session that is made.
            allow_non_restored_state: drop state of tasks the job no longer has.
            allow_drained: continue from before the flush of a drained job.
            allow_sink_ahead: start before what a sink has committed.
            allow_shared_target: write to targets that another job, or another copy of this one, has written to.
            allow_changed_files: read files of a history that were replaced since the job first started.

        Raises:
            RekindleError: whatever is wrong with the definition, the settings, the storage, the session, the sources or
                the plan.
        """
        from rekindle.beginning import begin
        from rekindle.spark.engine import SparkEngines
        from rekindle.spark.session.jvm import log_of_jvm
        from rekindle.start.decide import Permissions
        from rekindle.start.running import launches

        permissions = Permissions(
            non_restored_state=allow_non_restored_state,
            drained=allow_drained,
            sink_ahead=allow_sink_ahead,
            shared_target=allow_shared_target,
            changed_files=allow_changed_files,
        )
        settings, definition = Config.of(config), self._definition()
        launched = launches(definition, location_of(storage), settings, permissions, mode=mode)
        launch = launched()
        ended = launch.prepare(None if restore is None else str(restore))
        if ended is not None:
            return JobHandle(launch.storage, mode=mode, ended=JobResult.of(self.name, ended, already_ended=True))
        self._handle = begin(
            definition,
            launch,
            SparkEngines(spark, self.name, spark_config or {}),
            lambda since, failures: launched(since=since, engine_failures=failures),
            settings,
            mode=mode,
            spark_config=spark_config or {},
            spark_log=log_of_jvm,
        )
        return self._handle

    def check(
        self,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        config: Mapping[str, Any] | None = None,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
    ) -> StartPreview:
        """Say what `start` would do now, and do none of it: no session, no run, nothing written.

        A job that runs is compared with what a start would find once it has ended. The query itself is not looked at:
        what Spark says of its plan and of its state's schema comes with the start.

        Takes what `start` takes, as far as it is decided from the storage.

        Raises:
            RekindleError: whatever is wrong with the definition, the settings or the storage, and whatever of the
                storage forbids the start.
        """
        from rekindle.start.decide import Permissions
        from rekindle.start.running import launches

        permissions = Permissions(
            non_restored_state=allow_non_restored_state, drained=allow_drained, sink_ahead=allow_sink_ahead
        )
        launched = launches(self._definition(), location_of(storage), Config.of(config), permissions, mode=mode)
        return launched().preview(None if restore is None else str(restore))

    def adopt(
        self,
        checkpoint: str,
        task: str,
        *,
        spark: SparkSession | None = None,
        storage: str | None = None,
        spark_config: Mapping[str, str] | None = None,
    ) -> Adopted:
        """Let a task begin where a plain Structured Streaming query stands, which is stopped for good.

        State, positions in the sources and watermark are taken over; the checkpoint itself is only read. The job must
        not have run. What `start` does next begins there; tasks that adopt nothing begin from the start.

        Args:
            checkpoint: the ``checkpointLocation`` of the query.
            task: uid of a task that computes what the query computed. Its inputs are the query's streams, in their
                order, as ``rk.Stream``.
            spark: the session to use; None: one is made, and stopped at the end.
            storage: where the job keeps its state; default ``REKINDLE_STORAGE``, else ``./rekindle-state``.
            spark_config: settings of the session that is made.

        Raises:
            RekindleError: whatever is wrong with the job, the storage, the checkpoint or the plan; nothing was changed.
        """
        definition = self._definition()
        from rekindle.runtime.elapsed import system_clock
        from rekindle.spark.plain.adoption import adopt, check_adoptable
        from rekindle.spark.session.session import make_session, prepare_session, quiet

        check_adoptable(definition, task)
        session = prepare_session(spark) if spark is not None else make_session(self.name, spark_config or {})
        try:
            with quiet(session):
                kept = JobStorage(open_store(location_of(storage)), self.name)
                return adopt(session, definition, kept, task, checkpoint, system_clock)
        finally:
            if spark is None:
                session.stop()

    def _definition(self) -> Definition:
        """The job as it is started.

        Raises:
            DefinitionError: what `graph` raises; ``PYSPARK_MISSING``.
        """
        graph = self.graph()
        try:
            import rekindle.spark.engine  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name in ("pyspark", "py4j"):
                raise DefinitionError("PYSPARK_MISSING") from error
            raise
        return Definition(
            graph=graph,
            sources={
                source.uid: SourceSpec(source=source, spec=self._specs[source.uid][0], late=self._specs[source.uid][1])
                for source in graph.sources
            },
            functions=dict(self._functions),
            sinks=dict(self._targets),
        )
