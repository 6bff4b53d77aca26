"""The graph of a job, with the figures of now on its vertices and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rekindle.monitoring import figures
from rekindle.monitoring.figures import of_rates, of_status
from rekindle.monitoring.views import EdgeView, GraphView, SubtaskView, VertexView
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import JobDescription, SinkDescription, SourceDescription, TaskDescription
from rekindle.storage.documents.status import InputStatus

_WORST = ("restarting", "starting", "suspending", "running", "finishing", "waiting_for_final_checkpoint", "closing")
"""The status of a task that is shown: the first of these that one of its subtasks has."""


def graph(description: JobDescription, subtasks: Sequence[SubtaskView], at_work: bool) -> GraphView:
    """Return the graph.

    Args:
        at_work: rates are those of now; they are left out otherwise.
    """
    tasks = {task.uid: [one for one in subtasks if one.status.uid == task.uid] for task in description.tasks}
    vertices = [
        *(_source(source, description.tasks, tasks, at_work) for source in description.sources),
        *(_task(task, tasks[task.uid], at_work) for task in description.tasks),
        *(_sink(sink, tasks.get(sink.task, []), at_work) for sink in description.sinks),
    ]
    edges = []
    for task in description.tasks:
        for uid in task.inputs:
            kind, source = ("channel", f"task:{uid}") if uid in tasks else ("input", f"source:{uid}")
            rate = figures.total(item.rows_per_second for item in _inputs(tasks[task.uid], uid)) if at_work else None
            unread = _unread(tasks[uid], task.uid) if uid in tasks and at_work else None
            edges.append(
                EdgeView(source=source, target=f"task:{task.uid}", kind=kind, rows_per_second=rate, unread_bytes=unread)
            )
    for sink in description.sinks:
        rate = figures.total(of_rates(tasks.get(sink.task, []), lambda one: one.rows_out)) if at_work else None
        edges.append(
            EdgeView(source=f"task:{sink.task}", target=f"sink:{sink.uid}", kind="output", rows_per_second=rate)
        )
    return GraphView(vertices=tuple(vertices), edges=tuple(edges))


def described(lineage: Lineage | None) -> JobDescription:
    """Return what the document of a lineage says of the graph, for runs of older versions, which described nothing."""
    if lineage is None:
        return JobDescription()
    sources: dict[str, SourceDescription] = {}
    tasks, sinks = [], []
    for uid, inputs in lineage.graph.items():
        tasks.append(TaskDescription(uid=uid, inputs=tuple(inputs), parallelism=lineage.parallelism.get(uid, 1)))
        for name in inputs:
            if name not in lineage.graph:
                sources[name] = SourceDescription(uid=name, kind="", bounded=name in lineage.unread.get(uid, {}))
        ends = (name for name in lineage.chains.get(uid, ()) if name != uid and name not in inputs)
        sinks += [SinkDescription(uid=name, task=uid, kind="") for name in ends]
    return JobDescription(sources=tuple(sources.values()), tasks=tuple(tasks), sinks=tuple(sinks))


def _source(
    source: SourceDescription,
    tasks: Sequence[TaskDescription],
    subtasks: Mapping[str, Sequence[SubtaskView]],
    at_work: bool,
) -> VertexView:
    readers = [task.uid for task in tasks if source.uid in task.inputs]
    inputs = [item for uid in readers for item in _inputs(subtasks[uid], source.uid)]
    status = None
    if inputs:
        ended, idle = all(item.ended for item in inputs), all(item.idle or item.ended for item in inputs)
        status = "ended" if ended else "idle" if idle else "running"
    return VertexView(
        id=f"source:{source.uid}",
        kind="source",
        uid=source.uid,
        type=source.kind,
        task=readers[0] if readers else "",
        bounded=source.bounded,
        event_time=source.event_time,
        watermark=source.watermark,
        status=status,
        share=figures.least(item.share for item in inputs),
        rows_out_per_second=figures.total(item.rows_per_second for item in inputs) if at_work else None,
    )


def _task(task: TaskDescription, subtasks: Sequence[SubtaskView], at_work: bool) -> VertexView:
    found = {one.status.status for one in subtasks}
    batches = of_status(subtasks, lambda one: one.batch)
    now = subtasks if at_work else ()
    return VertexView(
        id=f"task:{task.uid}",
        kind="task",
        uid=task.uid,
        type=task.output_mode,
        task=task.uid,
        parallelism=task.parallelism,
        event_time=task.event_time,
        watermark=task.watermark,
        status=next((word for word in (*_WORST, "closed") if word in found), None),
        rows_in=figures.total(of_status(subtasks, lambda one: one.rows_in)),
        rows_out=figures.total(of_status(subtasks, lambda one: one.rows_out)),
        rows_in_per_second=figures.total(of_status(now, lambda one: one.rows_per_second)),
        rows_out_per_second=figures.total(of_rates(now, lambda one: one.rows_out)),
        busy=figures.greatest(of_status(now, lambda one: one.busy)),
        idle=figures.least(of_status(now, lambda one: one.idle)),
        back_pressured=figures.greatest(of_status(now, lambda one: one.back_pressured)),
        batch=figures.greatest(batches),
        batch_duration_ms=figures.greatest(of_status(subtasks, lambda one: one.batch_duration_ms)),
        watermark_ms=figures.least(of_status(subtasks, lambda one: one.watermark)),
        lag_ms=figures.greatest(of_status(now, lambda one: one.lag_ms)),
        state_rows=figures.total(of_status(subtasks, lambda one: one.state_rows)),
        state_bytes=figures.total(of_status(subtasks, lambda one: one.state_bytes)),
    )


def _sink(sink: SinkDescription, subtasks: Sequence[SubtaskView], at_work: bool) -> VertexView:
    rate = figures.total(of_rates(subtasks, lambda one: one.rows_out)) if at_work else None
    return VertexView(
        id=f"sink:{sink.uid}",
        kind="sink",
        uid=sink.uid,
        type=sink.kind,
        task=sink.task,
        rows_in=figures.total(of_status(subtasks, lambda one: one.rows_out)),
        rows_in_per_second=rate,
    )


def _unread(producers: Sequence[SubtaskView], reader: str) -> int | None:
    """Return the bytes that lie unread in a channel; None where no producer says."""
    return figures.total(one.status.unread_bytes.get(reader) for one in producers)


def _inputs(subtasks: Sequence[SubtaskView], uid: str) -> list[InputStatus]:
    return [one.status.inputs[uid] for one in subtasks if uid in one.status.inputs]
