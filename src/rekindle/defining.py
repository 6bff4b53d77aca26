"""The definition of a job by its user: sources, tasks and sinks, and the handles that connect them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Generic, Literal, ParamSpec, TypeVar, get_args

from rekindle.arguments import with_parts, with_repeats
from rekindle.errors import DefinitionError
from rekindle.errors.needing import needing_pyspark
from rekindle.graph import job_graph
from rekindle.graph.validation import validated
from rekindle.runtime.definition import Definition, SourceSpec
from rekindle.sinks import TwoPhaseSink
from rekindle.sources import Batch, Files, Hybrid, Source, SplitSource, Stream
from rekindle.sources.split_source import check_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self

Late = Literal["fail", "drop"]
OutputMode = Literal["append", "update", "complete"]

_Inputs = ParamSpec("_Inputs")

_Item = TypeVar("_Item", job_graph.Source, job_graph.Task, job_graph.Sink)


@dataclass(frozen=True, eq=False)
class SourceHandle:
    """A source of a job, to be passed to ``@job.task``."""

    job: DefinedJob
    uid: str
    #: uid of the source that continues it; None: it has no second part
    then: str | None = None

    def __repr__(self) -> str:
        return f"<source {self.uid!r} of {self.job!r}>"


@dataclass(frozen=True, eq=False)
class TaskHandle(Generic[_Inputs]):
    """A task of a job: the handle of its output, which can still be called as the function it was made from."""

    job: DefinedJob
    uid: str
    function: Callable[_Inputs, DataFrame]

    def __repr__(self) -> str:
        return f"<task {self.uid!r} of {self.job!r}>"

    def __call__(self, *inputs: _Inputs.args, **options: _Inputs.kwargs) -> DataFrame:
        """Call the function with DataFrames, also batch ones, so that it can be tested without a job."""
        return self.function(*inputs, **options)


def _is_typed_in() -> bool:
    """Return whether the calling code is a notebook's cell or typed at a prompt, and so may run again."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return hasattr(sys, "ps1") or frame is None or not os.path.isfile(frame.f_code.co_filename)


class DefinedJob:
    """The sources, tasks and sinks of a job, as its user adds them one by one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sources: list[job_graph.Source] = []
        self._specs: dict[str, tuple[Source, str]] = {}
        self._tasks: list[job_graph.Task] = []
        self._functions: dict[str, Callable[..., DataFrame]] = {}
        self._sinks: list[job_graph.Sink] = []
        self._targets: dict[str, TwoPhaseSink] = {}

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: the tasks, with their inputs and sinks."""
        lines = [f"<b>{escape(self.name)}</b>"]
        for task in self._tasks:
            sinks = ", ".join(sink.uid for sink in self._sinks if sink.task == task.uid) or "-"
            lines.append(escape(f"{', '.join(task.inputs)} -> {task.uid} -> {sinks}"))
        return "<br>".join(lines)

    def source(
        self,
        uid: str,
        spec: Source | Hybrid,
        *,
        event_time: str | None = None,
        watermark: str | None = None,
        idle_after: str | None = None,
        late: Late = "fail",
    ) -> SourceHandle:
        """Add a source.

        Args:
            uid: stable identity; another uid is another source.
            spec: ``rk.Files``, ``rk.Batch`` (bounded), ``rk.Stream`` (unbounded), or an ``rk.SplitSource`` (either); an
                ``rk.sources.Hybrid`` is two of them.
            event_time: the column of type timestamp that windows and watermarks use.
            watermark: the lateness that rows of an unbounded source may have, e.g. ``"4 seconds"``. A bounded source
                loses nothing to lateness and has none; with ``Files(ordered=True)`` it is the time by which files may
                overlap.
            idle_after: the time without data, e.g. ``"5 minutes"``, after which an unbounded source no longer holds
                back the watermark of its tasks, until it has data again. None: it always holds it back.
            late: ``"fail"`` or ``"drop"``, for rows with a time before 1970, which Spark drops.

        Raises:
            DefinitionError: ``SPEC_UNKNOWN``, ``LATE_UNKNOWN``, ``WATERMARK_NEEDLESS``.
        """
        if not isinstance(spec, Hybrid):
            return self._source(uid, spec, event_time, watermark, idle_after, late=late)
        if idle_after is not None:
            raise DefinitionError("IDLE_AFTER_NEEDLESS", source=uid, reason="it reads a history first")
        then = f"{uid}.then"
        self._source(uid, spec.first, event_time, None, None, late=late)
        self._source(then, spec.continuation, event_time, watermark, None, late=late, follows=uid)
        return SourceHandle(self, uid, then)

    def _source(
        self,
        uid: str,
        spec: Source,
        event_time: str | None,
        watermark: str | None,
        idle_after: str | None,
        *,
        late: Late,
        follows: str | None = None,
    ) -> SourceHandle:
        if not isinstance(spec, Files | Batch | Stream | SplitSource):
            raise DefinitionError("SPEC_UNKNOWN", source=uid, found=type(spec).__name__)
        if late not in get_args(Late):
            raise DefinitionError("LATE_UNKNOWN", source=uid, late=late)
        ordered = isinstance(spec, Files) and spec.ordered is True
        if spec.bounded and watermark is not None and not ordered:
            raise DefinitionError("WATERMARK_NEEDLESS", source=uid)
        divisible = isinstance(spec, SplitSource)
        if isinstance(spec, SplitSource):
            check_source(uid, spec)
        source = job_graph.Source(
            uid=uid,
            bounded=spec.bounded,
            divisible=divisible,
            kind=spec.kind,
            event_time=event_time,
            watermark=watermark,
            idle_after=idle_after,
            follows=follows,
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
        was: str | None = None,
    ) -> Callable[[Callable[_Inputs, DataFrame]], TaskHandle[_Inputs]]:
        """Decorate the function that makes the task's output from its inputs, in the order given here.

        Args:
            uid: stable identity; None: the name of the function.
            parallelism: queries that share the work, for a task that keeps no state and reads bounded or custom sources
                or other tasks. Spark already runs one query on all cores: more than one pays only if its batches leave
                cores idle.
            event_time: event-time column of the output, of type timestamp, for tasks that read it.
            watermark: the time by which that column may lag the task's watermark, e.g. ``"1 hour"`` if it is the start
                of windows of one hour.
            output_mode: ``"append"``, ``"update"`` or ``"complete"``, as in Spark.
            was: the uid that the task had before: the task takes over the state that a checkpoint has under that uid.
        """

        def add(function: Callable[_Inputs, DataFrame]) -> TaskHandle[_Inputs]:
            name = uid or str(getattr(function, "__name__", ""))
            if not uid and not name.isidentifier():
                raise DefinitionError("UID_MISSING", function=name or type(function).__name__)
            parts = [self._uids(name, item) for item in inputs]
            read = tuple(uid for part in parts for uid in part)
            whole = function if len(read) == len(parts) else with_parts(function, [*map(len, parts)])
            task = job_graph.Task(
                uid=name,
                inputs=tuple(dict.fromkeys(read)),
                parallelism=parallelism,
                output_mode=output_mode,
                event_time=event_time,
                watermark=watermark,
                was=was,
            )
            self._define(self._tasks, task)
            self._functions[name] = whole if len(set(read)) == len(read) else with_repeats(whole, read)
            return TaskHandle(self, name, function)

        return add

    def _uid(self, task: str, item: object) -> str:
        if not isinstance(item, SourceHandle | TaskHandle) or item.job is not self:
            raise DefinitionError("INPUT_UNKNOWN", task=task, input=getattr(item, "uid", item))
        return item.uid

    def _uids(self, task: str, item: object) -> tuple[str, ...]:
        """Return the uids of an input, which may be read in two parts."""
        uid = self._uid(task, item)
        return (uid, item.then) if isinstance(item, SourceHandle) and item.then is not None else (uid,)

    def sink(self, uid: str, stream: TaskHandle[...], sink: TwoPhaseSink) -> None:
        """Commit a task's output to `sink`, with each completed checkpoint. Several sinks share one evaluation."""
        if not isinstance(sink, TwoPhaseSink):
            raise DefinitionError("SINK_UNKNOWN", sink=uid, found=type(sink).__name__)
        made = job_graph.Sink(
            uid=uid,
            task=self._uid(uid, stream),
            kind=sink.kind,
            output_modes=tuple(sink.output_modes),
            cannot_rewind=sink.cannot_rewind,
        )
        self._define(self._sinks, made)
        self._targets[uid] = sink

    def with_sinks(self, replaced: Callable[[str, TwoPhaseSink], TwoPhaseSink]) -> Self:
        """Return the same job with other sinks.

        Args:
            replaced: called with the uid of each sink, and the sink; returns the sink to use instead.
        """
        made = copy(self)
        vars(made).update(_sinks=[], _targets={})
        for one in self._sinks:
            task = TaskHandle(made, one.task, self._functions[one.task])
            made.sink(one.uid, task, replaced(one.uid, self._targets[one.uid]))
        return made

    def _define(self, items: list[_Item], item: _Item) -> None:
        """Add an item; if its notebook cell was run again, replace the item with the same uid.

        Raises:
            DefinitionError: ``JOB_STARTED``.
        """
        places = [place for place, other in enumerate(items) if other.uid == item.uid]
        if not places or not _is_typed_in():
            items.append(item)  # a uid that is there twice is refused with the whole job
            return
        if self._is_running():
            raise DefinitionError("JOB_STARTED", job=self.name, uid=item.uid)
        items[places[0]] = item

    def graph(self) -> job_graph.JobGraph:
        """Return the job as plain data, validated.

        Raises:
            DefinitionError: the first fault of the definition.
        """
        return validated(
            job_graph.JobGraph(
                name=self.name, sources=tuple(self._sources), tasks=tuple(self._tasks), sinks=tuple(self._sinks)
            )
        )

    def definition(self) -> Definition:
        """Return the whole definition: the graph, and the functions and objects that the job file gives. Starts no JVM.

        Raises:
            DefinitionError: raised by `graph`; ``PYSPARK_MISSING``.
        """
        graph = self.graph()
        with needing_pyspark():
            import rekindle.spark.engine  # noqa: F401
        return Definition(
            graph=graph,
            sources={
                source.uid: SourceSpec(source=source, spec=self._specs[source.uid][0], late=self._specs[source.uid][1])
                for source in graph.sources
            },
            functions=dict(self._functions),
            sinks=dict(self._targets),
        )

    def _is_running(self) -> bool:
        """Return whether the job was started in this process, and has not ended."""
        return False
