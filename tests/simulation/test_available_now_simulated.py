"""Runs of what is available now, one after the other: each stops by itself, and together they read all, once."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.protocol.operator_state import OperatorState
from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from tests.simulation.fake_spark import live_row
from tests.simulation.lives import Plans, bad_times
from tests.simulation.test_custom_sources_simulated import custom_plan
from tests.simulation.world import DELAY_MS, LIVE_DELAY, Plan, World, random_plan

_MOST_S = 20_000


def live_by_schedule(seed: int, plan_of: Plans = random_plan) -> World:
    """The life of a seed whose runs read what is available when they begin; some are killed, or asked for things."""
    chance = random.Random(seed)
    plan = plan_of(chance, 4)
    if plan_of is not _chain and chance.random() < 0.5:
        plan = replace(plan, windowed=frozenset())
    world = World(plan, seed)
    scheduler, kills = world.scheduler, chance.choice((0.0, 0.002, 0.01))
    for number in range(chance.randint(3, 8)):
        is_quiet = world.is_calm = number % 2 == 0
        scheduler.kill_at_a_write = 0 if is_quiet else kills
        world.available_now = True
        there, before, known = _there(world), _read_to(world), _open_splits(world).keys()
        began_s = scheduler.now_s
        result = world.run(plan.settings, None if is_quiet else lambda: bad_times(world, chance, freezes=False))
        if result is not None and result.state in ("FINISHED", "DRAINED"):
            break
        assert result is None or result.state in ("STOPPED", "CANCELED"), f"{result}"
        if is_quiet:
            assert result is not None and result.state == "STOPPED", f"{result}"
            assert scheduler.now_s < began_s + _MOST_S
            _check_stopped(world, there, before)
            left = {split for split, is_read in _open_splits(world).items() if split in known and not is_read}
            assert not left, f"{left} have more rows: {world.results}"
        scheduler.pause(chance.choice((1, 60, 600)))
    else:
        scheduler.kill_at_a_write, world.is_calm, world.available_now = 0, True, False
        result = world.run(plan.settings, lambda: _drain(world))
        assert result is not None and result.state in ("DRAINED", "FINISHED"), f"{result}"
    assert world.shown() == world.expected(), f"{world.results}"
    assert not world.read_again and not world.engine.late
    return world


def _drain(world: World) -> None:
    world.scheduler.pause(10)
    world.ask(ControlRequest(verb="stop", drain=True))


def _there(world: World) -> dict[str, int]:
    """Live source → the number of its newest row."""
    return {uid: int((world.scheduler.now_s - 1_000) * rate) - 1 for uid, rate in world.plan.live.items()}


def _read_to(world: World) -> dict[str, int]:
    """Live source → the number of its last row that is read."""
    lineage, read = world.storage.lineage(), dict.fromkeys(world.plan.live, -1)
    for task in world.plan.graph.tasks if lineage is not None else ():
        folder = layout.subtask(world.storage.job, task.uid, 0, lineage.lineage if lineage else 0)
        record = world.storage.last_record(folder)
        for uid in read.keys() & set(task.inputs):
            position = record.inputs[uid] if record else InputPosition()
            read[uid] = position.offset["logOffset"] if position.offset else -1
    return read


def _open_splits(world: World) -> dict[tuple[str, str], bool]:
    """Task and split of a custom source → whether its rows are all read, by the newest checkpoint."""
    manifest = world.storage.newest_manifest()
    return {
        (task, entry["id"]): (entry["position"] or 0) == len(world.plan.custom[source].splits[entry["id"]])
        for task, sources in (manifest.operator_state if manifest else {}).items()
        for source, state in sources.items()
        for one in OperatorState.from_json(state).subtasks.values()
        for entry in (one["splits"].entries if one else ())
    }


def _check_stopped(world: World, there: dict[str, int], before: dict[str, int]) -> None:
    """All that was there is read, and all that was read has come through, but for what open windows hold."""
    lineage, read = world.storage.lineage(), _read_to(world)
    assert lineage is not None
    late = {uid for uid, number in there.items() if read[uid] < number}
    assert not late, f"{late} were read to {read}, and {there} was there: {world.results}"
    for task in world.plan.graph.tasks:
        live = there.keys() & set(task.inputs)
        # A stream that has nothing is bound to that with the first batch only: till then more of it may come.
        if task.parallelism == 1 and not (live and all(before[uid] >= there[uid] for uid in live)):
            _check_watermark(world, task, lineage.lineage)
    if not world.plan.windowed:
        assert world.shown() == world.expected(), f"{world.results}"
    assert world.all_read() or world.plan.custom, "of what has an end, all was there"


def _check_watermark(world: World, task: Task, lineage: int) -> None:
    """The windows of a task that have passed are closed, and the tasks that read it have heard how late it is."""
    storage, folder = world.storage, layout.subtask(world.storage.job, task.uid, 0, lineage)
    record, plan = storage.last_record(folder), world.plan
    if record is None or storage.end(folder) is not None:
        return
    commit = storage.store.read(f"{layout.spark_progress_dir(folder)}/commits/{record.batch}").decode()
    next_ms = json.loads(commit.partition("\n")[2])["nextBatchWatermarkMs"]
    if task.uid in plan.windowed or plan.graph.consumers_of(task):
        assert (record.watermark_ms or 0) >= next_ms, f"{task.uid} has not looked again"
    producers = [one for one in plan.graph.tasks if one.uid in task.inputs]
    if len(producers) == len(task.inputs) and all(one.parallelism == 1 for one in producers):
        folders = [layout.subtask(storage.job, one.uid, 0, lineage) for one in producers]
        records = [storage.last_record(one) for one in folders if storage.end(one) is None]
        late_ms = min((one.watermark_ms or 0 for one in records if one is not None), default=0)
        assert next_ms >= late_ms, f"{task.uid} has not heard of {late_ms}"


def _has_a_stream(seed: int) -> bool:
    plan: Plan = random_plan(random.Random(seed))
    return bool(plan.live)


@pytest.mark.parametrize("seed", [seed for seed in range(60) if _has_a_stream(seed)][:14])
def test_runs_by_schedule_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed)


def _chain(chance: random.Random, _: int) -> Plan:
    """A live source, read by the first of three tasks in a row; the last two hold back what later rows push out."""
    plan = random_plan(chance, 1)
    tasks = [Task(uid=f"t{number}", inputs=(f"t{number - 1}",), event_time="ts") for number in (1, 2)]
    first = Task(uid="t0", inputs=("live",), event_time="ts")
    return replace(
        plan,
        graph=JobGraph(
            name="chain",
            sources=(Source(uid="live", bounded=False, event_time="ts", watermark=LIVE_DELAY),),
            tasks=(first, *tasks),
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in (first, *tasks)),
        ),
        files={},
        speed={"t0": 1000.0, "t1": chance.choice((20.0, 1000.0)), "t2": chance.choice((20.0, 1000.0))},
        windowed=frozenset(("t1", "t2")),
        live={"live": chance.choice((0.5, 3.0))},
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_over_goes_through_all_tasks_before_a_run_stops(seed: int) -> None:
    live_by_schedule(seed, _chain)


@pytest.mark.parametrize("seed", range(4))
def test_runs_by_schedule_of_a_custom_source_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed, custom_plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 1_000))
def test_many_runs_by_schedule_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed)


@pytest.mark.parametrize("slow", [1, 2])
def test_a_task_that_never_comes_to_the_end_of_what_another_writes_does_not_hold_a_run(slow: int) -> None:
    """Of a stream that cannot be bound, more comes all the time."""
    plan = _chain(random.Random(0), 1)
    speed = {"t0": 1_000.0, "t1": 1_000.0, "t2": 1_000.0, f"t{slow}": 80.0}
    world = World(replace(plan, speed=speed, live={"live": 40.0}), 0, calm=True)
    world.available_now, world.engine.binds = True, False
    world.scheduler.pause(3)
    before = _there(world)

    def ask() -> None:
        world.scheduler.pause(60)
        world.ask(ControlRequest(verb="stop"))

    began_s = world.scheduler.now_s
    result = world.run(plan.settings, ask)
    assert result is not None and result.state == "STOPPED"
    assert world.scheduler.now_s < began_s + 60, "it was asked to stop"
    assert _read_to(world)["live"] >= before["live"]
    newest_ms = max(live_row("live", number)[2] for number in range(before["live"] + 1))
    for task in plan.graph.tasks:
        record = world.storage.last_record(layout.subtask(world.storage.job, task.uid, 0, 1))
        assert record is not None and (record.watermark_ms or 0) >= newest_ms - DELAY_MS[LIVE_DELAY], task.uid
