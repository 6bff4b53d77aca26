"""The rules look at the subtasks that an event has touched: nothing is due for any other, and events stay as quick."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol import rules
from rekindle.protocol.ending import TaskState
from rekindle.protocol.job import JobMachine
from rekindle.protocol.subtask_states import SubtaskStates
from rekindle.testing.simulator import live
from tests.protocol import kit
from tests.protocol.kit import A, B


class CheckedMachine(JobMachine):
    """A job that looks at all of its subtasks after each event, and must find nothing that is due."""

    def handle(self, event: e.Event) -> tuple[c.Command, ...]:
        commands = super().handle(event)
        if self.state.terminal or self.exited or self.engines.lost is not None:
            return commands
        held = {state.status for state in self.tasks.states.values()}
        assert self.tasks.states.held() == held
        everyone = [*self.tasks.states]
        missed = [
            *self.scheduler.orders(everyone, self.now_ms, self.stopping.stop),
            *rules._closable(self, everyone),
        ]
        assert missed == [], f"after {event}"
        return commands


@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_due_for_a_subtask_that_was_not_touched(seed: int) -> None:
    assert not live(seed, job=CheckedMachine).wrong


def steps(subtasks: int) -> int:
    """Return how often the state of a subtask is looked up for a batch of each and a checkpoint."""
    looked = Counter[str]()

    class Counted(SubtaskStates):
        def __getitem__(self, task: SubtaskId) -> TaskState:
            looked["up"] += 1
            return super().__getitem__(task)

        def items(self) -> Any:
            looked["up"] += len(self)
            return super().items()

        def values(self) -> Any:
            looked["up"] += len(self)
            return super().values()

    graph = JobGraph(
        name="wide",
        sources=(Source(uid="rows", bounded=False),),
        tasks=(Task(uid="work", inputs=("rows",), parallelism=subtasks),),
        sinks=(Sink(uid="out", task="work"),),
    )
    job = JobMachine(graph, Config(checkpoint_interval_ms=10))
    job.handle(e.JobStarted(now_ms=0))
    job.tasks.states = Counted(job.tasks.states, job.coordinator.snapshots.barriers)
    for task in graph.subtasks():
        job.handle(e.TaskStarted(task=task))
        job.handle(e.BatchRecorded(task=task, batch=0))
    snapshots = job.handle(e.Ticked(now_ms=20))
    for order in snapshots:
        assert isinstance(order, c.TakeSnapshot)
        manifest = job.handle(e.SnapshotTaken(task=order.task, checkpoint=1, batch=0))
    assert len(snapshots) == subtasks
    assert isinstance(manifest[0], c.WriteManifest)
    job.handle(e.ManifestWritten(checkpoint=1))
    job.handle(e.TransactionsCommitted(checkpoint=1))
    return looked["up"]


def test_the_work_for_an_event_does_not_grow_with_the_subtasks() -> None:
    few, many = steps(20), steps(200)
    assert many <= 10 * few


def test_a_task_that_waited_for_the_savepoint_of_a_stop_is_closed_when_that_is_given_up() -> None:
    job = kit.running(A, B, checkpoint_mode="aligned", checkpoint_timeout_ms=1_000)
    kit.tell(job, kit.sources_ended(A), kit.finished(A), kit.checkpoint())
    kit.tell(job, kit.stop(directory="/save"), kit.taken(1, A), kit.taken(1, B), kit.written(1))
    assert not any(isinstance(one, c.CloseTask) for one in kit.tell(job, kit.committed(1)))
    kit.tell(job, kit.suspended(B))
    assert c.CloseTask(task=A) in kit.tick(job, 1_000), "the savepoint's checkpoint takes too long"
