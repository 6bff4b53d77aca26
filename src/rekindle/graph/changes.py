"""The changes of a job, how they are found, and the table of what a start does about each.

A job is compared with what was saved of it: with its lineage where it resumes in place, or with the manifest that it
starts from. Each difference is a `Change` of one `ChangeKind`, and `RULES` says what a start does about it: resume
in place, resume from the last checkpoint in a lineage of its own, or refuse. The page docs/change.md is made from the
table.

This module does not know where a checkpoint lies, how a restore is carried out, or how Spark plans a query. The
operators that have finished are the business of `rekindle.graph.compatibility`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rekindle.graph.job_graph import JobGraph, Task


class ChangeKind(Enum):
    """A kind of change. The value is the sentence that a person reads."""

    TASK_ADDED = "a task is new and reads sources"
    READER_ADDED = "a task is new and reads a task that has run"
    READER_OF_FINISHED = "a task is new and reads a task that has finished"
    TASK_RENAMED = 'a task is renamed: `@job.task(..., was="old_uid")`'
    TASK_DROPPED = "a task is gone"
    INPUT_ADDED = "a task reads one more source, or one more task"
    INPUT_OF_FINISHED = "a task reads one more task, which has finished"
    HISTORY_LATE = "one more source that ends, with event times, reaches a task with state and a watermark"
    INPUT_REMOVED = "a task no longer reads a source or a task"
    SOURCE_REPLACED = "a source is of another kind, or no longer ends, and a task that has not finished reads it"
    INPUTS_TURNED = "a task reads its inputs in another order"
    PARALLELISM = "a task has another `parallelism`"
    SINK_ADDED = "a sink is new, or has another task"
    SINK_DROPPED = "a sink is gone, and nothing is prepared for it"
    SINK_REPLACED = "a sink is of another kind, and nothing is prepared for it"
    SINK_UNSETTLED = "a sink is gone, or of another kind, and rows are prepared for it"
    JOB_RENAMED = "the job has another name"
    COLUMN_ADDED = "a task that others read puts out another column"
    COLUMN_DROPPED = "a task that others read no longer puts out a column"
    TYPE_WIDENED = "a column that others read has a wider type: `int` to `long`, `float` to `double`, …"
    TYPE_CHANGED = "a column that others read has another type"


class Outcome(Enum):
    """The decision of a start about a change. The value is the wording in the table."""

    RESUMES = "resumes"
    #: in a lineage of its own, as with ``--from``
    FROM_CHECKPOINT = "resumes from the last checkpoint"
    REFUSED = "refused"
    #: the change cannot occur there
    NEVER = "cannot occur"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRule:
    """A row of the table."""

    in_place: Outcome
    #: from a checkpoint or savepoint that the user names, or that a start in place falls back to
    restored: Outcome
    #: consequence for state, positions and rows
    then: str
    #: code of the error if it is refused, or has to be allowed first; None: it is accepted
    code: str | None = None
    #: the option that allows it, as Python has it
    allow: str | None = None


_ON, _CHECKPOINT, _NO = Outcome.RESUMES, Outcome.FROM_CHECKPOINT, Outcome.REFUSED

RULES: dict[ChangeKind, ChangeRule] = {
    ChangeKind.TASK_ADDED: ChangeRule(
        in_place=_CHECKPOINT, restored=_ON, then="it reads its sources from their beginning"
    ),
    ChangeKind.READER_ADDED: ChangeRule(
        in_place=_CHECKPOINT,
        restored=_ON,
        then="it reads that task's output from the next batch on; earlier output is not kept",
    ),
    ChangeKind.READER_OF_FINISHED: ChangeRule(
        in_place=_NO, restored=_NO, then="nothing of that task's output is kept", code="FINISHED_TASK_READ"
    ),
    ChangeKind.TASK_RENAMED: ChangeRule(
        in_place=_CHECKPOINT,
        restored=_ON,
        then="state, positions and rows in flight are kept; `was=` may stay or be removed afterwards",
    ),
    ChangeKind.TASK_DROPPED: ChangeRule(
        in_place=_CHECKPOINT,
        restored=_ON,
        then="its state is dropped; a task that comes back later is a new one",
        code="STATE_NOT_RESTORED",
        allow="allow_non_restored_state",
    ),
    ChangeKind.INPUT_ADDED: ChangeRule(
        in_place=_CHECKPOINT,
        restored=_ON,
        then="a source is read from its beginning, a task from its next batch on; state and other positions stay",
    ),
    ChangeKind.INPUT_OF_FINISHED: ChangeRule(
        in_place=_NO, restored=_NO, then="nothing of that task's output is kept", code="FINISHED_TASK_READ"
    ),
    ChangeKind.HISTORY_LATE: ChangeRule(
        in_place=_NO, restored=_NO, then="its rows before the watermark would be dropped as late", code="INPUT_TOO_LATE"
    ),
    ChangeKind.INPUT_REMOVED: ChangeRule(
        in_place=_CHECKPOINT,
        restored=_ON,
        then="its position is dropped, and rows of it that were not read yet; rows that were read stay in the state",
        code="INPUT_NOT_RESTORED",
        allow="allow_non_restored_state",
    ),
    ChangeKind.SOURCE_REPLACED: ChangeRule(
        in_place=_NO, restored=_NO, then="a position in the one means nothing to the other", code="SOURCE_REPLACED"
    ),
    ChangeKind.INPUTS_TURNED: ChangeRule(
        in_place=_CHECKPOINT, restored=_ON, then="each input continues at its position"
    ),
    ChangeKind.PARALLELISM: ChangeRule(
        in_place=_CHECKPOINT, restored=_ON, then="input that was not read yet is divided again among its subtasks"
    ),
    ChangeKind.SINK_ADDED: ChangeRule(in_place=_ON, restored=_ON, then="it gets the rows from the next batch on"),
    ChangeKind.SINK_DROPPED: ChangeRule(in_place=_ON, restored=_ON, then="it keeps what is committed"),
    ChangeKind.SINK_REPLACED: ChangeRule(
        in_place=_ON, restored=_ON, then="the old target keeps what is committed, the new one gets what follows"
    ),
    ChangeKind.SINK_UNSETTLED: ChangeRule(
        in_place=_NO, restored=_NO, then="only the sink as it was can commit these rows", code="SINK_UNSETTLED"
    ),
    ChangeKind.JOB_RENAMED: ChangeRule(
        in_place=Outcome.NEVER,
        restored=_ON,
        then="it is a new job; the old one stays unchanged",
        code="JOB_DIFFERENT",
        allow="allow_other_name",
    ),
    ChangeKind.COLUMN_ADDED: ChangeRule(in_place=_ON, restored=_ON, then="it is null in rows that are in flight"),
    ChangeKind.COLUMN_DROPPED: ChangeRule(in_place=_ON, restored=_ON, then="rows in flight are read without it"),
    ChangeKind.TYPE_WIDENED: ChangeRule(
        in_place=_ON, restored=_ON, then="rows in flight are read with the new type; needs Spark 4.0 or later"
    ),
    ChangeKind.TYPE_CHANGED: ChangeRule(
        in_place=_NO, restored=_NO, then="rows in flight could not be read", code="OUTPUT_CHANGED"
    ),
}
"""The rule for each kind of change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between a job and what was saved of it."""

    kind: ChangeKind
    #: uid of the task or sink, or name of the job
    uid: str
    #: the difference in words
    what: str
    #: parameters of the error, if it is refused
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def rule(self) -> ChangeRule:
        """The rule for its kind."""
        return RULES[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The parts of a job as they were saved, under the uids that its tasks have now."""

    job: str
    #: task → its inputs, in order
    graph: Mapping[str, Sequence[str]]
    parallelism: Mapping[str, int]
    #: tasks whose subtasks have all finished for good
    finished: Collection[str] = ()
    #: task → its operators; empty: nothing is known of its sinks
    chains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: sink → its kind, as far as that is known
    kinds: Mapping[str, str] = field(default_factory=dict)
    #: source → its kind, as far as that is known
    source_kinds: Mapping[str, str] = field(default_factory=dict)
    #: sources that were known to end
    bounded: Collection[str] = ()


def renames(graph: JobGraph, saved: Collection[str]) -> dict[str, str]:
    """Return new uid → old uid of the tasks that were saved under another uid."""
    return {
        task.uid: task.was
        for task in graph.tasks
        if task.was is not None and task.was in saved and task.uid not in saved
    }


def changes(graph: JobGraph, saved: Saved, renamed: Mapping[str, str]) -> list[Change]:
    """Find the differences between a job and what was saved of it, in the order of the table."""
    found = [*_of_tasks(graph, saved), *_of_sinks(graph, saved)]
    found += [Change(kind=ChangeKind.TASK_RENAMED, uid=now, what=f"was {old}") for now, old in renamed.items()]
    if saved.job != graph.name:
        parameters = {"found": saved.job, "job": graph.name}
        found.append(
            Change(kind=ChangeKind.JOB_RENAMED, uid=graph.name, what=f"was {saved.job}", parameters=parameters)
        )
    order = [*ChangeKind]
    return sorted(found, key=lambda change: order.index(change.kind))


def _of_tasks(graph: JobGraph, saved: Saved) -> Iterator[Change]:
    for task in graph.tasks:
        if task.uid not in saved.graph:
            yield _added(graph, task, saved)
            continue
        before, parallelism = saved.graph[task.uid], saved.parallelism.get(task.uid, 1)
        yield from _of_inputs(task, before, saved)
        if task.uid not in saved.finished:
            yield from _of_sources(graph, task, before, saved)
        if parallelism != task.parallelism:
            what = f"had {parallelism} subtasks, and now has {task.parallelism}"
            yield Change(kind=ChangeKind.PARALLELISM, uid=task.uid, what=what)
    gone = sorted(saved.graph.keys() - {task.uid for task in graph.tasks})
    new = [repr(task.uid) for task in graph.tasks if task.uid not in saved.graph]
    for uid in gone:
        parameters = {"uids": ", ".join(gone), "was": gone[0], "new": " or ".join(new) or "a task"}
        yield Change(kind=ChangeKind.TASK_DROPPED, uid=uid, what="is gone", parameters=parameters)


def _of_inputs(task: Task, before: Sequence[str], saved: Saved) -> Iterator[Change]:
    for uid in task.inputs:
        if uid not in before:
            over = uid in saved.finished
            kind = ChangeKind.INPUT_OF_FINISHED if over else ChangeKind.INPUT_ADDED
            parameters = {"task": task.uid, "producer": uid} if over else {"input": uid}
            yield Change(kind=kind, uid=task.uid, what=f"reads {uid} now", parameters=parameters)
    gone = [uid for uid in before if uid not in task.inputs]
    for uid in gone:
        parameters = {"task": task.uid, "inputs": ", ".join(gone)}
        yield Change(kind=ChangeKind.INPUT_REMOVED, uid=task.uid, what=f"read {uid}", parameters=parameters)
    kept = [uid for uid in before if uid in task.inputs]
    if kept != [uid for uid in task.inputs if uid in before]:
        what = f"read {', '.join(before)}, and now reads {', '.join(task.inputs)}"
        yield Change(kind=ChangeKind.INPUTS_TURNED, uid=task.uid, what=what)


def _of_sources(graph: JobGraph, task: Task, before: Sequence[str], saved: Saved) -> Iterator[Change]:
    for source in graph.sources_of(task):
        was, now = saved.source_kinds.get(source.uid), source.kind
        if was == now and source.uid in saved.bounded and not source.bounded:
            # Its end may be recorded: then it is not asked again, and its task counts on no further row of it.
            was, now = f"a {was} that ends", f"a {now} without an end"
        if source.uid in before and was and now and was != now:
            parameters = {"task": task.uid, "source": source.uid, "before": was, "now": now}
            what = f"reads {source.uid}, which was {was} and is now {now}"
            yield Change(kind=ChangeKind.SOURCE_REPLACED, uid=task.uid, what=what, parameters=parameters)


def _added(graph: JobGraph, task: Task, saved: Saved) -> Change:
    read = [producer.uid for producer in graph.producers_of(task) if producer.uid in saved.graph]
    over = [uid for uid in read if uid in saved.finished]
    if over:
        parameters = {"task": task.uid, "producer": over[0]}
        what = f"is new and reads {over[0]}, which has finished"
        return Change(kind=ChangeKind.READER_OF_FINISHED, uid=task.uid, what=what, parameters=parameters)
    if read:
        return Change(kind=ChangeKind.READER_ADDED, uid=task.uid, what=f"is new and reads {', '.join(read)}")
    return Change(kind=ChangeKind.TASK_ADDED, uid=task.uid, what="is new")


def _of_sinks(graph: JobGraph, saved: Saved) -> Iterator[Change]:
    before = {uid: task for task, chain in saved.chains.items() for uid in sinks_of_chain(task, chain)}
    known = {task for task in saved.graph if saved.chains.get(task)}
    for sink in graph.sinks:
        if before.get(sink.uid) != sink.task:
            if sink.task in known:
                yield Change(kind=ChangeKind.SINK_ADDED, uid=sink.uid, what=f"is new to task {sink.task}")
        elif (kind := saved.kinds.get(sink.uid, sink.kind)) != sink.kind:
            yield Change(kind=ChangeKind.SINK_REPLACED, uid=sink.uid, what=f"was {kind}, and is now {sink.kind}")
    for uid in sorted(before.keys() - {sink.uid for sink in graph.sinks}):
        yield Change(kind=ChangeKind.SINK_DROPPED, uid=uid, what="is gone")


def sinks_of_chain(task: str, chain: Sequence[str]) -> list[str]:
    """Return the uids of the sinks among the operators of a task."""
    return [uid.removeprefix("sink:") for uid in chain if uid != task and "/" not in uid]
