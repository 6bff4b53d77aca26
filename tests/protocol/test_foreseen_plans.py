"""Batches that an earlier driver has planned, which read more than the job allows: each checkpoint is one cut."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from tests.protocol.kit import A, B, checkpoint, recorded
from tests.protocol.obedient import Obedient, graph

GRAPHS = (
    graph(a="s", b="a", c="b"),
    graph(a="s", b="t", c="a b", d="c"),
    graph({"b": 2}, a="s", b="a", c="b"),
)


class World(Obedient):
    """Tasks that read when they are told to, and records that the job hears of later."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.graph = chance.choice(GRAPHS)
        self.tasks = self.graph.subtasks()
        self.unheard: dict[SubtaskId, deque[e.Event]] = defaultdict(deque)
        super().__init__(
            self.graph,
            slow=self.tasks,
            checkpoint_mode=chance.choice(("aligned", "unaligned")),
            checkpoint_aligned_timeout_ms=chance.choice((0, 50)),
            checkpoint_max_concurrent=chance.choice((1, 3)),
            checkpoint_tolerable_failures=1_000,
        )

    def producers(self, task: SubtaskId) -> list[SubtaskId]:
        edges = self.graph.topology.inputs_of(task.task)
        return [
            SubtaskId(edge.source, index)
            for edge in edges
            for index in self.graph.topology.producers(edge, task.subtask)
        ]

    def batch(self, task: SubtaskId, *, foreseen: bool) -> None:
        """A batch of a task, which reads what it may, or, as it was planned before, what is in the storage."""
        before, allowed = self.read_so_far.setdefault(task, {}), self.allowed.get(task, {})
        for producer in self.producers(task):
            most = self.batches.get(producer, -1) + 1 if foreseen else allowed.get(producer, 0)
            before[producer] = self.chance.randint(before.get(producer, 0), max(most, before.get(producer, 0)))
        self.unheard[task].append(self._batch(task, dict(before)))

    def tell(self, task: SubtaskId) -> None:
        if self.unheard[task]:
            self.hear(self.unheard[task].popleft())

    def settle(self) -> None:
        """No batch is foreseen any more: all is heard, and everything is read."""
        for _ in self.tasks:
            for task in self.tasks:
                while self.unheard[task]:
                    self.tell(task)
                self.read(task)


def live(seed: int) -> World:
    chance = random.Random(seed)
    world = World(chance)
    foreseen = chance.choice((0.05, 0.3))
    for number in range(120):
        task = chance.choice(world.tasks)
        act = chance.random()
        if act < 0.5:
            world.batch(task, foreseen=chance.random() < foreseen)
        if act < 0.8:
            world.tell(task)
        elif act < 0.9:
            world.hear(checkpoint(f"r{number}"))
        else:
            world.tick(20)
    world.settle()
    world.hear(checkpoint("last"))
    world.settle()
    return world


def is_one_cut(world: World, number: int) -> bool:
    snapshots = {one.task: one for one in world.said(c.TakeSnapshot) if one.checkpoint == number}
    for task, one in snapshots.items():
        if one.batch >= 0 and dict(one.read) != world.reads[task][one.batch]:
            return False
        for producer in world.producers(task):
            read, written = one.read[producer], snapshots[producer].batch + 1
            if one.in_flight.get(producer, (read, read)) != (read, written):
                return False
    return snapshots.keys() == set(world.tasks)


@pytest.mark.parametrize("seed", range(60))
def test_each_checkpoint_is_one_cut_whatever_an_earlier_driver_had_planned(seed: int) -> None:
    world = live(seed)
    written = [one.checkpoint for one in world.said(c.WriteManifest)]
    assert written, "none was completed"
    assert [number for number in written if not is_one_cut(world, number)] == []
    assert not world.job.coordinator.busy
    assert written[-1] == world.job.coordinator.next_number - 1, "the last one was"


def test_a_checkpoint_whose_barrier_was_passed_is_declined_at_once() -> None:
    world = Obedient(graph(a="s", b="a"), slow=[B], checkpoint_tolerable_failures=1)
    world.write(A)
    world.hear(checkpoint())
    world.write(A)
    world.hear(recorded(0, B, a=2))
    (answer,) = world.said(c.AnswerRequest)
    assert "has read past its barrier" in str(answer)
    world.hear(checkpoint("r2"))
    assert [one.checkpoint for one in world.said(c.WriteManifest)] == [2]
