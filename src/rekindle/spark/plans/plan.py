"""Building a task's DataFrame from its inputs, and refusing plans that could only go wrong later."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.channels.marks import UNORDERED_DELAY
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.progress.plain import SourceReader
from rekindle.spark.failures import brief
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import WATERMARKED, quoted
from rekindle.spark.plan_text import depth, nodes, nodes_below, tree

_WORKER_MODULE = "google.protobuf"
"""What the workers of a transformWithState in Python speak with Spark; without it they die silently."""

_WATERMARK = re.compile(r"EventTimeWatermark (?:([0-9a-f-]{36}), )?`?([^#`]+)`?#\d+: \w+, .*")
"""Its identity, which it has since Spark 4.0, and its column."""


_AGGREGATE = re.compile(r" *~Aggregate ")

_STREAMING = re.compile(r" *~(\w+)")
"""A node of a plan that Spark runs on a stream."""

_STATEFUL = re.compile("Aggregate|Distinct|Deduplicate|.*Limit|Offset|Sort|Window|.*WithState.*|TransformWith.*")
"""Nodes that look at more than one row; and joins of two streams."""


_TIMERS = re.compile(r"TransformWithState\w* .*, (?:EventTime|ProcessingTime),")
"""A transformWithState that may set timers: in batch mode Spark runs it, and they never fire."""


def build_task(task: Task, function: Callable[..., DataFrame], inputs: Sequence[Input]) -> DataFrame:
    """Call the user's function; check what it returned.

    Raises:
        DefinitionError: ``TASK_FUNCTION_FAILED``, ``TASK_BATCH_FRAME``, ``WATERMARK_IN_TASK``,
            ``EVENT_TIME_UNDECLARED``, ``TOTALS_NEVER_END``, ``DEDUPLICATION_UNSUPPORTED``, ``PARALLELISM_UNSUPPORTED``,
            ``WORKER_MODULE_MISSING``, ``INPUT_IGNORED``.
    """
    frame = _called(task, function, [item.frame for item in inputs])
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = "a batch DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        raise DefinitionError("TASK_BATCH_FRAME", task=task.uid, returned=returned)
    plan = tree(frame)
    ours = {node for item in inputs for node in _watermarks(tree(item.frame))}
    _refuse_second_watermark(task, plan, ours)
    _refuse_unending_state(task, plan, inputs)
    _refuse_totals_over_all_times(task, frame)
    _refuse_parallel_state(task, plan)
    _look_for_worker_module_of(frame, plan)
    _number_sources(task, frame, inputs)
    return frame


def refuse_duplicate_columns(task: Task, frame: DataFrame) -> None:
    """A table, or a file, cannot have them; Spark would say so in the middle of the run.

    Raises:
        DefinitionError: ``COLUMNS_DUPLICATE``.
    """
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    seen: dict[str, str] = {}
    for name in frame.columns:
        other = seen.setdefault(name if sensitive else name.lower(), name)
        if other is not name:
            raise DefinitionError("COLUMNS_DUPLICATE", task=task.uid, one=other, other=name)


def _number_sources(task: Task, frame: DataFrame, inputs: Sequence[Input]) -> None:
    """Note which of Spark's sources read which input: what Spark never reads would never end."""
    names = [leaf.sourceName() for leaf in _streaming_leaves(frame)]
    for item in inputs:
        if item.feed is None:
            item.spark_sources = _sources_of(item, frame)
        else:
            item.spark_sources = _ending(names, f"/inbox/{item.uid}]")
        item.mark_sources = _ending(names, f"/marks/{item.uid}]")
        if not item.spark_sources:
            raise DefinitionError("INPUT_IGNORED", task=task.uid, input=item.uid)


def _ending(names: Sequence[str], end: str) -> tuple[int, ...]:
    return tuple(number for number, name in enumerate(names) if name.endswith(end))


def another(frame: DataFrame) -> DataFrame:
    """The same rows with columns of their own, so that a task can join an input with itself."""
    return frame.select(*[F.col(quoted(name)).alias(name) for name in frame.columns])


def build_batch_task(task: Task, function: Callable[..., DataFrame], frames: Sequence[DataFrame]) -> DataFrame:
    """Call the user's function with batch DataFrames; look whether Spark can run what it returned.

    Raises:
        DefinitionError: ``TASK_FUNCTION_FAILED``, ``BATCH_UNSUPPORTED``, ``WORKER_MODULE_MISSING``.
    """
    frame = _called(task, function, frames)
    if not isinstance(frame, DataFrame) or frame.isStreaming:
        returned = "a streaming DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        raise DefinitionError("BATCH_UNSUPPORTED", task=task.uid, reason=f"it returned {returned}.")
    nodes = tree(frame)
    if any(_TIMERS.search(line) for line in nodes):
        reason = "it is a transformWithState with a time mode, whose timers never fire there."
        raise DefinitionError("BATCH_UNSUPPORTED", task=task.uid, reason=reason)
    _look_for_worker_module_of(frame, nodes)
    plan: Any = frame._jdf.queryExecution()
    try:
        plan.executedPlan()
    except (PySparkException, Py4JError) as error:
        raise DefinitionError("BATCH_UNSUPPORTED", task=task.uid, reason=brief(error)) from error
    return frame


def _called(task: Task, function: Callable[..., DataFrame], frames: Sequence[DataFrame]) -> DataFrame:
    try:
        return function(*frames)
    except Exception as error:
        raise DefinitionError("TASK_FUNCTION_FAILED", task=task.uid, reason=brief(error)) from error


def _sources_of(stream: Input, whole: DataFrame) -> tuple[int, ...]:
    """The numbers, among the sources of `whole`, of those that read a stream: one for each source it is made of.

    Spark numbers its sources as they stand in the plan. A source that is used twice has two numbers; the first counts.
    """
    readers = [_reader(whole.sparkSession, leaf) for leaf in _streaming_leaves(whole)]
    marks = f"/marks/{stream.uid}]"
    its_own = [leaf for leaf in _streaming_leaves(stream.frame) if not leaf.sourceName().endswith(marks)]
    wanted = dict.fromkeys(_reader(whole.sparkSession, leaf) for leaf in its_own)
    return tuple(readers.index(reader) for reader in wanted if reader in readers)


def readers_of(frame: DataFrame) -> list[SourceReader]:
    """The sources of a plan, in Spark's order; one that is used twice is there twice."""
    return [_described(leaf) for leaf in _streaming_leaves(frame)]


def files_too_old_ms(frame: DataFrame, ours: str) -> int | None:
    """By how much older than its newest a file is that no file stream of the plan reads; None: any is read.

    Args:
        ours: the folder, as Spark takes it, of what is fed by inboxes.
    """
    streams = (leaf for leaf in _streaming_leaves(frame) if leaf.sourceName().startswith("FileSource["))
    ages = [_too_old_ms(frame.sparkSession, leaf) for leaf in streams if f"[{ours}/" not in leaf.sourceName()]
    return None if None in ages else max((age for age in ages if age is not None), default=None)


def _too_old_ms(spark: SparkSession, leaf: Any) -> int | None:
    options: dict[str, str] = {}
    found = leaf.dataSource().options().iterator()
    while found.hasNext():
        option = found.next()
        options[str(option._1()).lower()] = str(option._2())
    if options.get("latestfirst", "false").lower() == "true":
        return None  # Spark may come to the oldest files last
    jvm: Any = spark._jvm
    return int(jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(options.get("maxfileage", "7d")))


def shares_a_source(frame: DataFrame) -> bool:
    """Whether a source is used twice in such a way that Spark reads it once, as in a union with itself."""
    leaves = list(_streaming_leaves(frame))
    return any(leaf.equals(other) for index, leaf in enumerate(leaves) for other in leaves[:index])


def is_mark(reader: SourceReader, inputs: Iterable[Input]) -> bool:
    """Whether a source of a plan reads the watermark rows of one of its inputs."""
    return any(reader.place.endswith(f"/marks/{item.uid}") for item in inputs)


def _described(leaf: Any) -> SourceReader:
    kind, name = leaf.sourceName(), _given_name(leaf)
    if kind.startswith("FileSource["):
        return SourceReader("files", name, place=kind.removeprefix("FileSource[").removesuffix("]"))
    topics = (leaf.extraOptions().get("subscribe") or "").split(",") if kind == "kafka" else ()
    return SourceReader(kind, name, topics=frozenset(topic.strip() for topic in topics if topic.strip()))


def _given_name(leaf: Any) -> str | None:
    """What the user has called a source; Spark knows names since 4.2."""
    try:
        name = leaf.sourceIdentifyingName()
    except Py4JError:
        return None
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None


def _streaming_leaves(frame: DataFrame) -> Iterator[Any]:
    query: Any = frame._jdf.queryExecution()
    leaves = query.analyzed().collectLeaves()
    for index in range(leaves.size()):
        if leaves.apply(index).isStreaming():
            yield leaves.apply(index)


def _reader(spark: SparkSession, leaf: Any) -> int:
    """What tells readers apart: a source of the first kind holds its definition, one of the second kind a table."""
    jvm: Any = spark._jvm
    first_kind = leaf.getClass().getSimpleName() == "StreamingRelation"
    return int(jvm.System.identityHashCode(leaf.dataSource() if first_kind else leaf.table()))


def _look_for_worker_module_of(frame: DataFrame, tree: Sequence[str]) -> None:
    if any("TransformWithStateInPy" in line or "TransformWithStateInPandas" in line for line in tree):
        _look_for_worker_module(frame.sparkSession, _WORKER_MODULE)


def _look_for_worker_module(spark: SparkSession, module: str) -> None:
    """Ask a worker, with nothing in the question that workers might not have."""
    try:
        spark.sparkContext.parallelize([module], 1).map(importlib.import_module).count()
    except Exception as error:
        raise DefinitionError("WORKER_MODULE_MISSING", module=module, reason=brief(error)) from error


def _watermarks(tree: Sequence[str]) -> Mapping[str, str]:
    """Identity of each watermark node, before Spark 4.0 its text → its column."""
    return {_identity(match): match[2] for line in tree if (match := _WATERMARK.search(line))}


def _identity(watermark: re.Match[str]) -> str:
    return watermark[1] or watermark[0]


def _refuse_second_watermark(task: Task, tree: Sequence[str], ours: set[str]) -> None:
    """Spark would refuse it too, at the start and silently on what to do. Ours are never above each other."""
    for index, line in enumerate(tree):
        for below in nodes_below(tree, index) if _WATERMARK.search(line) else ():
            inner = _WATERMARK.search(below)
            if inner and _identity(inner) in ours:
                raise DefinitionError("WATERMARK_IN_TASK", task=task.uid, column=inner[2])


def _refuse_unending_state(task: Task, tree: Sequence[str], inputs: Sequence[Input]) -> None:
    timeless = [item.uid for item in inputs if item.bounded and item.event_time is None]
    for index, line in enumerate(tree):
        if task.output_mode != "append" or not _AGGREGATE.match(line):
            continue
        for below in nodes_below(tree, index):
            for uid in timeless:
                if f"/inbox/{uid}]" in below:
                    raise DefinitionError("EVENT_TIME_UNDECLARED", task=task.uid, source=uid)
    if any("~DeduplicateWithinWatermark" in line for line in tree) and any(UNORDERED_DELAY in line for line in tree):
        bounded = next(item.uid for item in inputs if item.bounded)
        raise DefinitionError("DEDUPLICATION_UNSUPPORTED", task=task.uid, source=bounded)


def _refuse_totals_over_all_times(task: Task, frame: DataFrame) -> None:
    """Refuse groups that have no time beside groups that have one: no watermark ends them, and a batch query has them.

    Cubes, rollups and grouping sets make them: Spark gives each row once to each kind of group, with null for the
    columns that this kind does without.
    """
    for node, _ in nodes(frame) if task.output_mode == "append" else ():
        if node.getClass().getSimpleName() != "Expand" or not node.isStreaming():
            continue
        output, kinds = node.output(), node.projections()
        timed = [index for index in range(output.size()) if output.apply(index).metadata().contains(WATERMARKED)]
        for index in timed:
            given = [kinds.apply(kind).apply(index) for kind in range(kinds.size())]
            if any(each.getClass().getSimpleName() == "Literal" for each in given):
                raise DefinitionError("TOTALS_NEVER_END", task=task.uid, column=output.apply(index).name())


def _refuse_parallel_state(task: Task, tree: Sequence[str]) -> None:
    """Rows of one key have to meet in one query, and which subtask reads a row is left open."""
    if task.parallelism == 1:
        return
    for index, line in enumerate(tree):
        match = _STREAMING.match(line)
        name = match[1] if match else ""
        below = list(nodes_below(tree, index))
        children = [one for one in below if depth(one) == depth(below[0])]
        joins = name == "Join" and len(children) > 1 and all(_STREAMING.match(child) for child in children)
        if joins or _STATEFUL.fullmatch(name):
            reason = f"it keeps state over its rows ({name})"
            raise DefinitionError("PARALLELISM_UNSUPPORTED", task=task.uid, parallelism=task.parallelism, reason=reason)
