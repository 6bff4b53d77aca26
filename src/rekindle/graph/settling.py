"""The consequences of the changes that a start has found: refusals, and the work that the others need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from rekindle.errors import RestoreError
from rekindle.graph.changes import Change, ChangeKind, Outcome
from rekindle.graph.job_graph import JobGraph, Source, Task, reached


def with_other_inputs(found: Iterable[Change]) -> set[str]:
    """Return the tasks whose inputs have changed."""
    return {one.uid for one in found if one.kind in _OF_INPUTS}


_OF_INPUTS = (ChangeKind.INPUT_ADDED, ChangeKind.INPUT_REMOVED, ChangeKind.INPUTS_TURNED)


def late_histories(graph: JobGraph, found: Iterable[Change], late_for: AbstractSet[str]) -> list[Change]:
    """Find the new inputs of tasks that bring rows of a bounded source too late.

    A new input is read from the beginning of its source, directly or through tasks that are new as well. In a task that
    keeps state, or in one that reads it, such rows are older than the watermark.

    Args:
        found: the changes of the job.
        late_for: tasks that keep state and have a watermark.
    """
    found = [*found]
    new = {one.uid for one in found if one.kind in (ChangeKind.TASK_ADDED, ChangeKind.READER_ADDED)}
    late = []
    for one in found:
        readers = reached(graph.task(one.uid), graph.consumers_of) if one.kind is ChangeKind.INPUT_ADDED else ()
        if not late_for.isdisjoint(reader.uid for reader in readers):
            for source in _from_the_beginning(graph, one.parameters["input"], new):
                parameters = {"task": one.uid, "source": source.uid}
                late.append(replace(one, kind=ChangeKind.HISTORY_LATE, parameters=parameters))
    return late


def _from_the_beginning(graph: JobGraph, uid: str, new: Collection[str]) -> list[Source]:
    """Return the bounded sources with event times that an input reads from their beginning.

    Args:
        new: tasks that are new.
    """

    def new_ones(reader: Task) -> list[Task]:
        return [producer for producer in graph.producers_of(reader) if producer.uid in new]

    tasks = reached(graph.task(uid), new_ones) if uid in new else ()
    read = {uid}.union(*(task.inputs for task in tasks))
    return [one for one in graph.sources if one.uid in read and one.bounded and one.event_time is not None]


def unsettled(graph: JobGraph, kinds: Mapping[str, str], prepared: Collection[str]) -> list[Change]:
    """Find the sinks with prepared rows that are gone, or of another kind.

    Args:
        kinds: sink → its kind when the rows were prepared, as far as that is known.
    """
    now = {sink.uid: sink.kind for sink in graph.sinks}
    found = []
    for uid in prepared:
        if uid not in now or kinds.get(uid, now[uid]) != now[uid]:
            what = "is gone" if uid not in now else f"is now {now[uid]}, and was {kinds[uid]}"
            parameters = {"sink": uid, "difference": what}
            found.append(Change(kind=ChangeKind.SINK_UNSETTLED, uid=uid, what=what, parameters=parameters))
    return found


def refuse_unnamed_rename(found: Collection[Change], place: str, *, allowed: Collection[str]) -> None:
    """Refuse a job that lacks a task and has a new one: that may be one task, renamed without `was=`.

    It comes before all other refusals, which would speak of the new task as if it had nothing to do with the old one.

    Args:
        place: path of what the job is compared with, for the message.
        allowed: options that the user has set, see `ChangeRule.allow`.

    Raises:
        RestoreError: ``STATE_NOT_RESTORED``.
    """
    kinds = {change.kind for change in found}
    if not kinds & _NEW_TASKS or (ChangeKind.JOB_RENAMED in kinds and "allow_other_name" not in allowed):
        return
    settle([one for one in found if one.kind is ChangeKind.TASK_DROPPED], place, in_place=False, allowed=allowed)


_NEW_TASKS = {ChangeKind.TASK_ADDED, ChangeKind.READER_ADDED, ChangeKind.READER_OF_FINISHED}


def settle(found: Iterable[Change], place: str, *, in_place: bool, allowed: Collection[str] = ()) -> bool:
    """Refuse changes that their rules refuse; return True if a start in place has to resume from the last checkpoint.

    Args:
        place: path of what the job is compared with, for the message.
        allowed: options that the user has set, see `ChangeRule.allow`.

    Raises:
        RestoreError: with the code of the first change that is refused, or is not allowed.
    """
    outcomes = []
    for change in found:
        rule = change.rule
        outcome = rule.in_place if in_place else rule.restored
        # A start that falls back to a checkpoint asks for permission there.
        asks = outcome is Outcome.RESUMES and rule.allow is not None and rule.allow not in allowed
        if rule.code is not None and (outcome is Outcome.REFUSED or asks):
            raise RestoreError(rule.code, path=place, **change.parameters)
        outcomes.append(outcome)
    return Outcome.FROM_CHECKPOINT in outcomes
