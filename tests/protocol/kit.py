"""Words in which the protocol's tests are written: a running job in one line, events as short calls."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import TaskStatus

A, B = SubtaskId("a", 0), SubtaskId("b", 0)
DELAY_MS = Config().restart_delay_ms


def created(*tasks: SubtaskId, **config: Any) -> JobMachine:
    """A job of `tasks` (A alone where none is named) without channels; no periodic checkpoints unless asked for."""
    return JobMachine(graph_of(*(tasks or (A,))), Config(**{"checkpoint_interval_ms": 0, **config}))


def graph_of(*tasks: SubtaskId, reads: Mapping[str, str] | None = None) -> JobGraph:
    """A graph of these subtasks; `reads`: task → what it reads, by spaces, in place of a source of its own."""
    parallelism = Counter(task.task for task in tasks)
    inputs = {uid: tuple((reads or {}).get(uid, f"{uid}-source").split()) for uid in parallelism}
    sources = [uid for names in inputs.values() for uid in names if uid not in parallelism]
    return JobGraph(
        name="bids",
        sources=tuple(Source(uid=uid, bounded=True) for uid in dict.fromkeys(sources)),
        tasks=tuple(Task(uid=uid, inputs=inputs[uid], parallelism=count) for uid, count in parallelism.items()),
    )


def running(*tasks: SubtaskId, **config: Any) -> JobMachine:
    """A job whose tasks all run."""
    job = created(*tasks, **config)
    tell(job, e.JobStarted(now_ms=0), *(e.TaskStarted(task=task) for task in job.tasks.states))
    return job


def restored(*tasks: SubtaskId, latest: int | None = 7, draining: bool = False, **facts: e.RestoredTask) -> JobMachine:
    """A job that was started on a storage with checkpoint `latest`; `facts` by the task's uid."""
    job = created(*tasks)
    known = {SubtaskId(uid, 0): fact for uid, fact in facts.items()}
    job.handle(e.JobStarted(now_ms=0, next_checkpoint=8, latest_checkpoint=latest, tasks=known, draining=draining))
    return job


def tell(job: JobMachine, *events: e.Event) -> tuple[c.Command, ...]:
    """Let the job hear the events; what it says to the last one."""
    said: tuple[c.Command, ...] = ()
    for event in events:
        said = job.handle(event)
    return said


def tick(job: JobMachine, after_ms: int) -> tuple[c.Command, ...]:
    return job.handle(e.Ticked(now_ms=job.now_ms + after_ms))


def started(task: SubtaskId = A) -> e.Event:
    return e.TaskStarted(task=task)


def recorded(batch: int, task: SubtaskId = A, **read: int) -> e.Event:
    """Batch `batch` of a task; `read`: how many batches of a producer, by its uid."""
    return e.BatchRecorded(task=task, batch=batch, read={SubtaskId(uid, 0): place for uid, place in read.items()})


def sources_ended(task: SubtaskId = A) -> e.Event:
    return e.SourcesEnded(task=task)


def suspended(task: SubtaskId = A) -> e.Event:
    return e.TaskSuspended(task=task, batch=-1)


def finished(task: SubtaskId = A, **fields: Any) -> e.Event:
    return e.TaskFinished(task=task, batch=-1, **fields)


def closed(task: SubtaskId = A) -> e.Event:
    return e.TaskClosed(task=task)


def failed(task: SubtaskId = A, **fields: Any) -> e.Event:
    return e.TaskFailed(task=task, reason="boom", **fields)


def taken(number: int, task: SubtaskId = A) -> e.Event:
    """Behind a batch that the checkpoint before did not have."""
    return e.SnapshotTaken(task=task, checkpoint=number, batch=number)


def declined(number: int, task: SubtaskId = A) -> e.Event:
    return e.SnapshotDeclined(task=task, checkpoint=number, detail="no")


def written(number: int) -> e.Event:
    return e.ManifestWritten(checkpoint=number)


def committed(number: int) -> e.Event:
    return e.TransactionsCommitted(checkpoint=number)


def commit_failed(number: int) -> e.Event:
    return e.CommitFailed(checkpoint=number, detail="full")


def sealed(number: int, path: str = "/save/1") -> e.Event:
    return e.SavepointSealed(checkpoint=number, path=path)


def seal_failed(number: int) -> e.Event:
    return e.SavepointFailed(checkpoint=number, detail="full")


def checkpoint(request: str = "r1", directory: str | None = None) -> e.Event:
    return e.CheckpointRequested(request=request, directory=directory)


def stop(request: str = "s1", **fields: Any) -> e.Event:
    return e.StopRequested(request=request, **fields)


def cancel(request: str = "c1") -> e.Event:
    return e.CancelRequested(request=request)


def done(number: int, *tasks: SubtaskId) -> tuple[e.Event, ...]:
    """All that makes a checkpoint of `tasks` (A alone where none is named) complete and committed."""
    return (*(taken(number, task) for task in tasks or (A,)), written(number), committed(number))


def snapshot(number: int, *tasks: SubtaskId, batch: int = -1) -> tuple[c.Command, ...]:
    return tuple(c.TakeSnapshot(task=task, checkpoint=number, batch=batch) for task in tasks or (A,))


def commit(number: int) -> c.Command:
    return c.CommitTransactions(permit=CommitPermit(number))


def discard(keep: int = 3, pinned: tuple[int, ...] = ()) -> c.Command:
    return c.DiscardOlder(keep=keep, pinned=pinned)


def statuses(job: JobMachine) -> tuple[TaskStatus, ...]:
    return tuple(state.status for state in job.tasks.states.values())


def everything(job: JobMachine) -> dict[str, Any]:
    """All state of a job, comparable."""
    return {name: _plain(value) for name, value in vars(job).items()}


def _plain(thing: Any) -> Any:
    """A copy made of dicts, lists and values."""
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple | deque):
        return [_plain(value) for value in thing]
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    if slots or (hasattr(thing, "__dict__") and not isinstance(thing, Enum | type)):
        names = slots or vars(thing)
        return {name: _plain(getattr(thing, name)) for name in names if hasattr(thing, name)}
    return copy.copy(thing)


def refuses(job: JobMachine, event: e.Event) -> str:
    """Check that the event is illegal and changes nothing; returns the message."""
    before = everything(job)
    with pytest.raises(ProtocolError) as raised:
        job.handle(event)
    assert raised.value.code == "ILLEGAL_EVENT"
    assert everything(job) == before
    return raised.value.message
