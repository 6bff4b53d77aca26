"""Rules for a graph that can be run: unique names, inputs that exist, settings that fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.lateness import check_lateness
from rekindle.ids import check_uid

OUTPUT_MODES = ("append", "update", "complete")


def validated(graph: JobGraph) -> JobGraph:
    """Return the graph; raise `DefinitionError` for the first fault."""
    check_uid(graph.name)
    _check_uids({"source": graph.sources, "task": graph.tasks})
    _check_uids({"sink": graph.sinks})
    if not graph.tasks:
        raise DefinitionError("TASK_MISSING", job=graph.name)
    for source in graph.sources:
        _check_source(source)
    readable: dict[str, Source | Task] = {source.uid: source for source in graph.sources}
    readable |= {task.uid: task for task in graph.tasks}
    for task in graph.tasks:
        _check_task(graph, task, readable)
    _check_renames(graph.tasks)
    for sink in graph.sinks:
        _check_sink(sink, readable)
    _ = graph.topology
    for task in graph.tasks:
        _check_parallelism(graph, task)
    return graph


def _check_parallelism(graph: JobGraph, task: Task) -> None:
    """Refuse parallelism where one query has to read a whole `Stream`, or has to see all rows of a key."""
    if task.parallelism == 1:
        return
    reasons = [
        f"it reads {source.uid}, which has no files to share out"
        for source in graph.sources_of(task)
        if not source.bounded and not source.divisible
    ]
    reasons += [
        f"it reads {source.uid}, which continues a history" for source in graph.sources_of(task) if source.follows
    ]
    if task.output_mode != "append":
        reasons.append(f"in output mode {task.output_mode} it keeps state")
    for reason in reasons:
        raise DefinitionError("PARALLELISM_UNSUPPORTED", task=task.uid, parallelism=task.parallelism, reason=reason)


def _check_task(graph: JobGraph, task: Task, readable: Mapping[str, Source | Task]) -> None:
    if not task.inputs:
        raise DefinitionError("INPUT_MISSING", task=task.uid)
    for uid in task.inputs:
        found = readable.get(uid)
        if found is None:
            raise DefinitionError("INPUT_UNKNOWN", task=task.uid, input=uid)
        if isinstance(found, Task) and found.output_mode != "append":
            raise DefinitionError("CHANNEL_OUTPUT_MODE", task=task.uid, input=uid, output_mode=found.output_mode)
    if task.watermark is not None and task.event_time is None:
        raise DefinitionError("EVENT_TIME_REQUIRED", source=task.uid)
    _ = task.lateness_ms
    if task.output_mode not in OUTPUT_MODES:
        raise DefinitionError("OUTPUT_MODE_UNKNOWN", task=task.uid, output_mode=task.output_mode)
    if not graph.sinks_of(task) and not any(task.uid in reader.inputs for reader in graph.tasks):
        raise DefinitionError("SINK_MISSING", task=task.uid)


def _check_renames(tasks: Sequence[Task]) -> None:
    """Refuse a `was` that another task names too, or that is the uid of a task in the graph."""
    taken = {task.uid: f"there is a task {task.uid}" for task in tasks}
    for task in tasks:
        if task.was is None:
            continue
        check_uid(task.was)
        if task.was in taken:
            raise DefinitionError("WAS_TAKEN", task=task.uid, was=task.was, reason=taken[task.was])
        taken[task.was] = f"task {task.uid} was {task.was} too"


def _check_sink(sink: Sink, readable: Mapping[str, Source | Task]) -> None:
    task = readable.get(sink.task)
    if not isinstance(task, Task):
        raise DefinitionError("INPUT_UNKNOWN", task=sink.uid, input=sink.task)
    if task.output_mode not in sink.output_modes:
        raise DefinitionError(
            "OUTPUT_MODE_UNSUPPORTED",
            sink=sink.uid,
            kind=sink.kind,
            output_mode=task.output_mode,
            task=task.uid,
            supported=", ".join(sink.output_modes),
        )


def _check_uids(kinds: Mapping[str, Sequence[Source | Task | Sink]]) -> None:
    """Refuse a uid that two of these items have: they share one namespace."""
    seen: dict[str, str] = {}
    for kind, items in kinds.items():
        for item in items:
            check_uid(item.uid)
            other = seen.setdefault(item.uid, kind)
            if other != kind:
                raise DefinitionError("UID_DUPLICATE", uid=item.uid, items=f"a {other} and a {kind}")
            if len([each for each in items if each.uid == item.uid]) > 1:
                raise DefinitionError("UID_DUPLICATE", uid=item.uid, items=f"two {kind}s")


def _check_source(source: Source) -> None:
    if source.idle_after_ms is not None and (source.bounded or source.event_time is None):
        reason = "it is bounded, and its end holds nothing back" if source.bounded else "it has no event_time"
        raise DefinitionError("IDLE_AFTER_NEEDLESS", source=source.uid, reason=reason)
    if source.watermark is not None and source.event_time is None:
        raise DefinitionError("EVENT_TIME_REQUIRED", source=source.uid)
    if source.watermark:  # an empty one has always meant none
        check_lateness(f"watermark of source {source.uid}", source.watermark)
    if not source.bounded and source.event_time is not None and source.watermark is None:
        raise DefinitionError("WATERMARK_REQUIRED", source=source.uid, event_time=source.event_time)
