"""Lives of jobs that are changed between two runs: every sink that was there all the time shows each row once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from rekindle.errors import RestoreError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.validation import validated
from rekindle.runtime.client import ControlRequest
from rekindle.storage.documents.runs import Result
from tests.simulation.world import Plan, RowSink, World, random_plan

_REFUSALS = {
    "TASKS_CHANGED", "FINISHED_TASK_READ", "SINK_UNSETTLED", "FINISHED_STATE_MIXED", "FINISHED_BEHIND_UNFINISHED",
    "PARTLY_FINISHED_ALL_TO_ALL", "PARTLY_FINISHED_POINTWISE", "INPUT_TOO_LATE",
}  # fmt: skip
"""What a change may be refused with. Anything else that a start raises is a fault."""


KINDS = ("rename", "rename", "parallelism", "reader", "sink", "drop sink")
OF_DROPS = ("reader", "reader", "drop task", "drop task", "rename", "sink")
OF_INPUTS = ("rename", "reader", "input", "input", "turn")


class Changing:
    """The job of a life, as it is now."""

    def __init__(self, world: World, chance: random.Random, kinds: tuple[str, ...]) -> None:
        self.world, self.chance, self.kinds = world, chance, kinds
        #: sinks that were there from the beginning
        self.whole = {sink.uid for sink in world.plan.graph.sinks}
        self.made: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    @property
    def graph(self) -> JobGraph:
        return self.world.plan.graph

    def change(self) -> None:
        """Change something; `undo` takes it back."""
        self.before = self.world.plan
        graph, chance = self.graph, self.chance
        kind = chance.choice(self.kinds)
        task = chance.choice(graph.tasks)
        plan = self.world.plan
        if kind == "rename":
            for other in graph.tasks:
                if other is task or chance.random() < 0.5:
                    plan = renamed(plan, other.uid, f"{other.uid}r")
        elif kind == "parallelism" and task.parallelism > 1:
            other = chance.choice([count for count in (2, 3, 4) if count != task.parallelism])
            plan = with_task(plan, replace(task, parallelism=other))
        elif kind == "reader" and len(graph.tasks) < 6:
            plan = with_reader(plan, task, f"n{len(graph.tasks)}{chance.randint(0, 999)}")
        elif kind == "input" and (others := self.more_for(task)):
            place = chance.randint(0, len(task.inputs))
            inputs = (*task.inputs[:place], chance.choice(others), *task.inputs[place:])
            plan = with_task(plan, replace(task, inputs=inputs))
        elif kind == "turn" and len(task.inputs) > 1:
            plan = with_task(plan, replace(task, inputs=task.inputs[::-1]))
        elif kind == "sink":
            uid = f"{task.uid}_more{chance.randint(0, 999)}"
            plan = replace(plan, graph=replace(graph, sinks=(*graph.sinks, Sink(uid=uid, task=task.uid, kind="Fake"))))
        elif kind == "drop task" and (idle := self.droppable()):
            plan = without_task(plan, chance.choice(idle))
        elif kind == "drop sink":
            extra = [sink.uid for sink in graph.sinks if sink.uid not in self.whole and "more" in sink.uid]
            gone = chance.choice(extra) if extra else None
            plan = replace(plan, graph=replace(graph, sinks=tuple(one for one in graph.sinks if one.uid != gone)))
        self.made[kind] += plan is not self.before
        self.take(plan)

    def droppable(self) -> list[str]:
        """The tasks that came later, and that no other one reads."""
        read = {uid for task in self.graph.tasks for uid in task.inputs}
        kept = {sink.task for sink in self.graph.sinks if sink.uid in self.whole}
        return [task.uid for task in self.graph.tasks if task.uid not in read | kept]

    def more_for(self, task: Task) -> list[str]:
        """The sources that a task may read more: files can be shared out among subtasks, a stream cannot.

        What a stream has had is late where there are windows, as it should be.
        """
        streams = task.parallelism == 1 and not self.world.plan.windowed
        others = (one for one in self.graph.sources if one.uid not in task.inputs)
        return [one.uid for one in others if one.bounded or streams]

    def take(self, plan: Plan) -> None:
        self.world.plan = replace(plan, graph=validated(plan.graph))
        for sink in plan.graph.sinks:
            self.world.sinks.setdefault(sink.uid, RowSink())

    def skips_a_name(self) -> bool:
        """A task was renamed twice, and the run with the name between was cut off before its first checkpoint."""
        manifest = self.world.storage.newest_manifest()
        known = manifest.graph if manifest else {}
        return any(task.was and not {task.uid, task.was} & set(known) for task in self.graph.tasks)

    def undo(self) -> None:
        self.take(self.before)

    def check(self) -> None:
        shown, expected = self.world.shown(), self.world.expected()
        for sink in self.graph.sinks:
            rows = expected[f"{sink.task}_out"]
            assert not shown[sink.uid] - rows, f"{sink.uid} has too much: {shown[sink.uid] - rows}"
            if sink.uid in self.whole:
                assert shown[sink.uid] == rows, f"{sink.uid} lacks {rows - shown[sink.uid]}"


def renamed(plan: Plan, old: str, now: str) -> Plan:
    """The same with another uid of a task."""

    def name(uid: str) -> str:
        return now if uid == old else uid

    tasks = tuple(
        replace(
            task,
            uid=name(task.uid),
            inputs=tuple(map(name, task.inputs)),
            was=old if task.uid == old else task.was,
        )
        for task in plan.graph.tasks
    )
    sinks = tuple(replace(sink, task=name(sink.task)) for sink in plan.graph.sinks)
    return replace(
        plan,
        graph=replace(plan.graph, tasks=tasks, sinks=sinks),
        speed={name(uid): speed for uid, speed in plan.speed.items()},
        windowed=frozenset(map(name, plan.windowed)),
    )


def with_task(plan: Plan, changed: Task) -> Plan:
    tasks = tuple(changed if task.uid == changed.uid else task for task in plan.graph.tasks)
    return replace(plan, graph=replace(plan.graph, tasks=tasks))


def without_task(plan: Plan, uid: str) -> Plan:
    """The same without a task and its sinks."""
    tasks = tuple(task for task in plan.graph.tasks if task.uid != uid)
    sinks = tuple(sink for sink in plan.graph.sinks if sink.task != uid)
    return replace(plan, graph=replace(plan.graph, tasks=tasks, sinks=sinks))


def with_reader(plan: Plan, read: Task, uid: str) -> Plan:
    tasks = (*plan.graph.tasks, Task(uid=uid, inputs=(read.uid,), event_time="ts"))
    sinks = (*plan.graph.sinks, Sink(uid=f"{uid}_out", task=uid, kind="Fake"))
    return replace(plan, graph=replace(plan.graph, tasks=tasks, sinks=sinks), speed={**plan.speed, uid: 20.0})


def live(seed: int, kinds: tuple[str, ...] = KINDS) -> Changing:
    """The life of a seed, with changes of these kinds."""
    chance = random.Random(seed)
    world = World(random_plan(chance, 3), seed)
    world.plan = replace(world.plan, settings={**world.plan.settings, "checkpoint.interval": "2 s"})
    world.permissions = replace(world.permissions, non_restored_state="drop task" in kinds)
    changing = Changing(world, chance, kinds)
    changing.before = world.plan
    kills, scheduler = chance.choice((0.0, 0.0, 0.003)), world.scheduler

    def turmoil() -> None:
        scheduler.pause(chance.choice((1, 3, 10, 30)))
        while True:
            world.ask(ControlRequest(verb=chance.choice(("stop", "stop", "cancel"))))
            scheduler.pause(chance.choice((1, 10)))

    def calm() -> None:
        scheduler.pause(60)
        while True:
            if world.plan.live:
                world.ask(ControlRequest(verb="stop", drain=True))
            scheduler.pause(500)

    result: Result | None = None
    for number in range(40):
        scheduler.kill_at_a_write = kills if number < 8 else 0
        try:
            result = world.run(world.plan.settings, turmoil if number < 8 else calm)
        except RestoreError as error:
            if error.code not in _REFUSALS and not (error.code == "STATE_NOT_RESTORED" and changing.skips_a_name()):
                raise
            changing.refused[error.code] += 1
            changing.undo()
            continue
        changing.before = world.plan
        if result is not None and result.state in ("FINISHED", "DRAINED"):
            break
        if number < 7 and chance.random() < 0.8:
            changing.change()
            if world.permissions.non_restored_state and changing.skips_a_name():
                changing.undo()  # what no checkpoint has a name of begins anew: it may, by that permission
    else:
        raise AssertionError(f"it never ended: {world.results}")
    changing.check()
    return changing


@pytest.mark.parametrize("seed", [0, 3, 9, 64, 79, 80, 85])
def test_a_life_full_of_changes_ends_well(seed: int) -> None:
    live(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 300))
def test_many_lives_full_of_changes_end_well(seed: int) -> None:
    live(seed)


def test_lives_in_which_inputs_come_and_change_places_end_well() -> None:
    made, refused = Counter[str](), Counter[str]()
    for seed in (1, 9, 20):
        changing = live(seed, OF_INPUTS)
        made, refused = made + changing.made, refused + changing.refused
    assert made["input"] and made["turn"]


def test_lives_in_which_tasks_come_and_go_end_well() -> None:
    made = Counter[str]()
    for seed in (2, 5):
        made += live(seed, OF_DROPS).made
    assert made["reader"] and made["drop task"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 200))
def test_many_lives_in_which_tasks_come_and_go_end_well(seed: int) -> None:
    live(seed, OF_DROPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 200))
def test_many_lives_in_which_inputs_come_and_change_places_end_well(seed: int) -> None:
    live(seed, OF_INPUTS)


def test_what_is_in_flight_goes_along_with_a_reader_that_is_renamed_again_and_again() -> None:
    """What a restore has carried over is named with the reader of then."""
    tasks = (Task(uid="first", inputs=("files",)), Task(uid="second", inputs=("first",)))
    plan = Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="files", bounded=True),),
            tasks=tasks,
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
        ),
        files={"files": [[("files", number, 10_000_000)] for number in range(30)]},
        speed={"first": 1_000, "second": 1.0},
        windowed=frozenset(),
        live={},
        settings={},
        file_bytes=10**9,
    )
    settings = {"checkpoint.interval": "1 s", "checkpoint.mode": "unaligned", "input.target_batch_duration": "1 ms"}
    world = World(plan, 1, calm=True)

    def cancel() -> None:
        """When all lies in the channel or behind it, and a checkpoint knows."""
        run = world.storage.latest_run()
        assert run is not None
        world.scheduler.pause(200, lambda: in_flight(world, run.lineage) > 0)
        world.ask(ControlRequest(verb="cancel"))

    for number in range(3):
        result = world.run(settings, cancel)
        assert result is not None and result.state == "CANCELED", result
        world.plan = renamed(world.plan, f"second{'r' * number}", f"second{'r' * (number + 1)}")
    result = world.run(settings)
    assert result is not None and result.state == "FINISHED", result
    every = Counter(("files", number, 10_000_000) for number in range(30))
    assert world.shown() == {"first_out": every, "second_out": every}


def in_flight(world: World, lineage: int) -> int:
    """How many bytes lie in the channels by the newest checkpoint, once `first` has read all."""
    manifest = world.storage.newest_manifest()
    if manifest is None or manifest.lineage != lineage or "first" not in manifest.finished_tasks:
        return 0
    return manifest.in_flight_bytes
