"""Building a task's DataFrame from its inputs, and refusing plans that could only go wrong later."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.errors import DefinitionError, RestoreError
from rekindle.graph.job_graph import Task
from rekindle.progress.plain import SourceReader
from rekindle.session.classes import java_class
from rekindle.session.failures import brief
from rekindle.sources.connectors import connector_missing
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import quoted
from rekindle.spark.plan_text import file_source, nodes, tree
from rekindle.spark.plans.refuse import refuse_plan, refuse_without_worker_module
from rekindle.spark.plans.session_filters import refuse_session_filters
from rekindle.spark.user_functions import said_of

_TIMERS = re.compile(r"TransformWithState\w* .*, (?:EventTime|ProcessingTime),")
"""A transformWithState that may set timers: in batch mode Spark runs it, and they never fire."""


def build_task(task: Task, function: Callable[..., DataFrame], inputs: Sequence[Input]) -> DataFrame:
    """Call the user's function; check what it returned.

    Raises:
        DefinitionError: ``TASK_FUNCTION_FAILED``, ``TASK_BATCH_FRAME``, ``WATERMARK_IN_TASK``,
            ``EVENT_TIME_UNDECLARED``, ``TOTALS_NEVER_END``, ``GROUPS_CUT_BY_BATCHES``,
            ``DEDUPLICATION_UNSUPPORTED``, ``PARALLELISM_UNSUPPORTED``,
            ``SESSION_FILTER_MOVED``, ``WORKER_MODULE_MISSING``, ``INPUT_IGNORED``, ``CONNECTOR_MISSING``.
    """
    frame = _called(task, function, [item.frame for item in inputs])
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = "a batch DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        raise DefinitionError("TASK_BATCH_FRAME", task=task.uid, returned=returned)
    refuse_plan(task, frame, inputs)
    refuse_session_filters(task, frame)
    _number_sources(task, frame, inputs)
    return frame


def _number_sources(task: Task, frame: DataFrame, inputs: Sequence[Input]) -> None:
    """Note which of Spark's sources read which input: what Spark never reads would never end."""
    names = [leaf.sourceName() for leaf in _streaming_leaves(frame)]
    for item in inputs:
        if item.feed is None:
            item.spark_sources = _sources_of(item, frame)
        else:
            item.spark_sources = _reading(names, item.place)
        item.mark_sources = () if item.marks is None else _reading(names, item.marks.inbox.place)
        if not item.spark_sources:
            raise DefinitionError("INPUT_IGNORED", task=task.uid, input=item.uid)


def refuse_moved_sources(task: str, inputs: Sequence[Input]) -> None:
    """Refuse a query whose sources stand in another order than when its positions were noted.

    Spark keeps a position by the number of its source and nothing else: of a union that was turned round it would
    resume in each source where the other one stood.

    Raises:
        RestoreError: ``SOURCES_MOVED``.
    """
    for item in filter(_is_moved, inputs):
        before = item.position.sources, item.position.mark_sources
        now = item.spark_sources, item.mark_sources
        numbers = [", ".join(str(number + 1) for each in found for number in each) for found in (before, now)]
        raise RestoreError("SOURCES_MOVED", task=task, input=item.uid, before=numbers[0], now=numbers[1])


def are_moved(inputs: Sequence[Input]) -> bool:
    """Return True where `refuse_moved_sources` would refuse."""
    return any(map(_is_moved, inputs))


def _is_moved(item: Input) -> bool:
    before = item.position.sources, item.position.mark_sources
    return bool(item.position.sources) and before != (item.spark_sources, item.mark_sources)


def _reading(names: Sequence[str], place: str) -> tuple[int, ...]:
    """Return the numbers of the sources that read a folder: its whole path, for a user's may end like one of ours."""
    return tuple(number for number, name in enumerate(names) if name == file_source(place))


def another(frame: DataFrame) -> DataFrame:
    """Return the same rows with columns of their own, so that a task can join an input with itself."""
    return frame.select(*[F.col(quoted(name)).alias(name) for name in frame.columns])


def build_batch_task(task: Task, function: Callable[..., DataFrame], frames: Sequence[DataFrame]) -> DataFrame:
    """Call the user's function with batch DataFrames; look whether Spark can run what it returned.

    Raises:
        DefinitionError: ``TASK_FUNCTION_FAILED``, ``BATCH_UNSUPPORTED``, ``SESSION_FILTER_MOVED``,
            ``WORKER_MODULE_MISSING``, ``CONNECTOR_MISSING``.
    """
    frame = _called(task, function, frames)
    if not isinstance(frame, DataFrame) or frame.isStreaming:
        returned = "a streaming DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        raise DefinitionError("BATCH_UNSUPPORTED", task=task.uid, reason=f"it returned {returned}.")
    plan_lines = tree(frame)
    if any(_TIMERS.search(line) for line in plan_lines):
        reason = "it is a transformWithState with a time mode, whose timers never fire there."
        raise DefinitionError("BATCH_UNSUPPORTED", task=task.uid, reason=reason)
    refuse_session_filters(task, frame)
    refuse_without_worker_module(frame, plan_lines)
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
        missing = connector_missing(error, pyspark.__version__)
        said = said_of(error, function)
        raise missing or DefinitionError("TASK_FUNCTION_FAILED", task=task.uid, reason=said) from error


def _sources_of(stream: Input, whole: DataFrame) -> tuple[int, ...]:
    """Return the numbers, among the sources of `whole`, of those that read a stream: one for each source it is made of.

    Spark numbers its sources as they stand in the plan. A source that is used twice has two numbers; the first counts.
    """
    readers = [_reader(whole.sparkSession, leaf) for leaf in _streaming_leaves(whole)]
    marks = None if stream.marks is None else file_source(stream.marks.inbox.place)
    its_own = [leaf for leaf in _streaming_leaves(stream.frame) if leaf.sourceName() != marks]
    wanted = dict.fromkeys(_reader(whole.sparkSession, leaf) for leaf in its_own)
    return tuple(readers.index(reader) for reader in wanted if reader in readers)


def readers_of(frame: DataFrame) -> list[SourceReader]:
    """Return the sources of a plan, in Spark's order; one that is used twice is there twice."""
    return [_described(leaf) for leaf in _streaming_leaves(frame)]


def files_too_old_ms(frame: DataFrame, ours: str) -> int | None:
    """Return how much older than the newest a file is that no file stream of the plan reads; None: all are read.

    Args:
        ours: the folder, as Spark takes it, of what is fed by inboxes.
    """
    ages = [_too_old_ms(frame.sparkSession, leaf) for leaf in _file_streams(frame) if not _is_inbox(leaf, ours)]
    return None if None in ages else max((age for age in ages if age is not None), default=None)


def lists_files(frame: DataFrame, ours: str) -> bool:
    """Return True if Spark itself looks for the files of a stream of the plan; `ours` as for `files_too_old_ms`."""
    return not all(_is_inbox(leaf, ours) for leaf in _file_streams(frame))


def _is_inbox(leaf: Any, ours: str) -> bool:
    return f"[{ours}/" in leaf.sourceName()


def removes_files(frame: DataFrame) -> bool:
    """Return True if a file stream of the plan deletes or moves the files that it has read."""
    return any(_options(leaf).get("cleansource", "off").lower() != "off" for leaf in _file_streams(frame))


def _too_old_ms(spark: SparkSession, leaf: Any) -> int | None:
    options = _options(leaf)
    if options.get("latestfirst", "false").lower() == "true":
        return None  # Spark may come to the oldest files last
    utils = java_class(spark._jvm, "org.apache.spark.network.util.JavaUtils")
    return int(utils.timeStringAsMs(options.get("maxfileage", "7d")))


def shares_a_source(frame: DataFrame) -> bool:
    """Return True if a source is used twice in such a way that Spark reads it once, as in a union with itself."""
    leaves = _streaming_leaves(frame)
    return any(leaf.equals(other) for index, leaf in enumerate(leaves) for other in leaves[:index])


def is_mark(reader: SourceReader, inputs: Iterable[Input]) -> bool:
    """Return True if a source of a plan reads the watermark rows of one of its inputs."""
    return any(item.marks is not None and reader.place == item.marks.inbox.place for item in inputs)


def _described(leaf: Any) -> SourceReader:
    kind, name = leaf.sourceName(), _given_name(leaf)
    if kind.startswith("FileSource["):
        return SourceReader("files", name, place=kind.removeprefix("FileSource[").removesuffix("]"))
    topics = (leaf.extraOptions().get("subscribe") or "").split(",") if kind == "kafka" else ()
    return SourceReader(kind, name, topics=frozenset(topic.strip() for topic in topics if topic.strip()))


def _file_streams(frame: DataFrame) -> list[Any]:
    return [leaf for leaf in _streaming_leaves(frame) if leaf.sourceName().startswith("FileSource[")]


def _options(leaf: Any) -> dict[str, str]:
    """Return the options of a file stream, their names in small letters."""
    options: dict[str, str] = {}
    found = leaf.dataSource().options().iterator()
    while found.hasNext():
        option = found.next()
        options[str(option._1()).lower()] = str(option._2())
    return options


def _given_name(leaf: Any) -> str | None:
    """Return the name that the user gave a source; None: no name. Spark knows names since 4.2."""
    try:
        name = leaf.sourceIdentifyingName()
    except Py4JError:
        return None
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None


def _streaming_leaves(frame: DataFrame) -> list[Any]:
    """Return the sources of a query, in the order in which Spark numbers them."""
    return [node.plan for node in nodes(frame) if node.is_leaf and node.is_streaming]


def _reader(spark: SparkSession, leaf: Any) -> int:
    """Return the identity of a source's reader: that of its definition (sources of version 1), or of its table (2)."""
    first_kind = leaf.getClass().getSimpleName() == "StreamingRelation"
    return int(
        java_class(spark._jvm, "java.lang.System").identityHashCode(leaf.dataSource() if first_kind else leaf.table())
    )
