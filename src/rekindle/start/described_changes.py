"""The differences between two descriptions of a job, for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from rekindle.graph.changes import renames
from rekindle.graph.job_graph import JobGraph
from rekindle.start.description import other_addresses, other_value_settings
from rekindle.start.previews import JobChange
from rekindle.storage.documents.runs import JobDescription


def changes(before: JobDescription, now: JobDescription) -> Iterator[JobChange]:
    """Yield the differences between two descriptions of a job: in the order of the newer one, then removed parts."""
    old, new = _facts(before), _facts(now)
    for what in dict.fromkeys((*new, *old)):
        if old.get(what) != new.get(what) and not what.endswith(_ADDRESS):
            yield JobChange(what=what, before=old.get(what), now=new.get(what))
    for name, old_value, new_value in other_value_settings(before, now):
        yield JobChange(what=f"session: {name}", before=old_value, now=new_value)
    for name in other_addresses(before, now):
        yield JobChange(what=f"{name}: address", before="another", now="as the job says")


_ADDRESS = ": address hash"


def in_new_names(before: JobDescription, graph: JobGraph) -> JobDescription:
    """Return a description in the uids that its tasks have now: that a task was renamed is said by the graph."""
    names = {old: now for now, old in renames(graph, [task.uid for task in before.tasks]).items()}
    return replace(
        before,
        tasks=tuple(
            replace(
                task,
                uid=names.get(task.uid, task.uid),
                inputs=tuple(names.get(uid, uid) for uid in task.inputs),
            )
            for task in before.tasks
        ),
        sinks=tuple(replace(sink, task=names.get(sink.task, sink.task)) for sink in before.sinks),
    )


def _facts(job: JobDescription) -> dict[str, str]:
    facts: dict[str, str] = {"version of Rekindle": job.version}
    for kind, described in (("source", job.sources), ("task", job.tasks), ("sink", job.sinks)):
        for one in described:
            facts |= _fields_of(f"{kind} {one.uid}", one)
    return facts | {f"setting {key}": value for key, value in job.settings.items()}


def _fields_of(name: str, described: Any) -> Mapping[str, str]:
    return {
        f"{name}: {item.name.replace('_', ' ')}": _shown(value)
        for item in fields(described)
        if item.name != "uid" and (value := getattr(described, item.name)) is not None
    }


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
