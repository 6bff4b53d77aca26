"""Nothing is lost, comes twice, or waits for ever, in lives that the real driver and the real channels live."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId
from rekindle.runtime.client import ControlRequest
from rekindle.spark.streaming import purging
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from tests.simulation.cooperative import Killed
from tests.simulation.fake_spark import Row
from tests.simulation.lives import live
from tests.simulation.world import IDLE_AFTER, LIVE_DELAY, Plan, World

QUICK = {"checkpoint.interval": "1 s", "checkpoint.retained": 1, "input.target_batch_duration": "1 ms"}


# In 85 a start is looked at from a checkpoint in which a task has finished in part.
@pytest.mark.parametrize("seed", [*range(12), 85])
def test_a_life_full_of_kills_ends_well(seed: int) -> None:
    live(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 1_000))
def test_many_lives_full_of_kills_end_well(seed: int) -> None:
    live(seed)


def job_of(files: list[list[Row]], *, live: dict[str, float]) -> Plan:
    """A bounded source → `first` → `second`, which holds rows back and may read live sources too."""
    sources = (
        Source(uid="files", bounded=True, event_time="ts"),
        *(Source(uid=uid, bounded=False, event_time="ts", watermark=LIVE_DELAY) for uid in live),
    )
    tasks = (
        Task(uid="first", inputs=("files",)),
        Task(uid="second", inputs=("first", *live), event_time="ts"),
    )
    sinks = tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks)
    return Plan(
        graph=JobGraph(name="simulated", sources=sources, tasks=tasks, sinks=sinks),
        files={"files": files},
        speed={"first": 1_000, "second": 1_000},
        windowed=frozenset({"second"}),
        live=live,
        settings=QUICK,
        file_bytes=10**9,  # one is more than enough for a batch
    )


@pytest.mark.parametrize("kill_at", range(1, 33))
def test_a_drain_is_carried_through_wherever_it_was_killed(kill_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The last file is empty: nothing of it comes through the channel, so that its reader has to be told of it again.
    world = World(
        job_of([[("files", 0, 10_000_000)], [("files", 1, 10_001_000)], []], live={"live": 0.05}), 1, calm=True
    )
    scheduler, steps = world.scheduler, [0]

    def step(name: str) -> None:
        """Die so many steps after the last task has begun to drain."""
        if scheduler.dead:
            raise Killed
        if steps[0] or (
            name == "drain.create/after" and world.store.exists("simulated/tasks/second/0/000001/drain.json")
        ):
            steps[0] += 1
            if steps[0] == kill_at:
                scheduler.kill()
                raise Killed

    monkeypatch.setattr(scheduler, "step", step)

    def drain() -> None:
        scheduler.pause(10)
        world.ask(ControlRequest(verb="stop", drain=True))

    assert world.run(QUICK, drain) is None, "it was killed"
    scheduler.pause(10)
    result = world.run(QUICK)
    assert result is not None and result.state == "DRAINED", result
    assert world.shown() == world.expected()
    assert world.shown()["second_out"]["files", 1, 10_001_000] == 1


@pytest.mark.parametrize("period_s", [1.1, 1.3, 1.5, 1.7])
def test_a_job_that_is_stopped_again_and_again_goes_on_each_time(period_s: float) -> None:
    world = World(job_of([[("files", number, 10_000_000)] for number in range(100)], live={}), 1, calm=True)

    def stop() -> None:
        world.scheduler.pause(period_s)
        world.ask(ControlRequest(verb="stop"))

    results = []
    while "FINISHED" not in results:
        assert len(results) < 50, "it does not get on"
        result = world.run(QUICK, stop)
        assert result is not None and result.state in ("STOPPED", "FINISHED"), result
        results.append(result.state)
    assert len(results) > 2
    assert world.shown() == world.expected() and world.all_read()


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_what_is_started_from_a_checkpoint_leaves_finished_tasks_without_a_query_and_takes_checkpoints(
    mode: str,
) -> None:
    plan = job_of([[("files", number, 10_000_000)] for number in range(30)], live={"live": 1.0})
    plan = replace(plan, speed={"first": 1_000, "second": 1.0}, windowed=frozenset({"first", "second"}))
    settings = {**QUICK, "checkpoint.mode": mode}
    world = World(plan, 1, calm=True)

    def checkpoint_of(lineage: int) -> Manifest | None:
        """The newest one, if `first` had finished by then."""
        manifest = world.storage.newest_manifest()
        is_one = manifest is not None and manifest.lineage == lineage and manifest.needs_no_state("first")
        return manifest if is_one else None

    def cancel() -> None:
        """When there is one; `second` has not read yet all that `first` had written."""
        run = world.storage.latest_run()
        assert run is not None
        world.scheduler.pause(200, lambda: checkpoint_of(run.lineage) is not None)
        world.ask(ControlRequest(verb="cancel"))

    first = SubtaskId("first", 0)
    restored = None
    for lineage in (1, 2, 3):
        result = world.run(settings, cancel, restore=restored)
        assert result is not None and result.state == "CANCELED", result
        manifest = checkpoint_of(lineage)
        assert manifest is not None, "checkpoints go on"
        kept = world.store.names(layout.spark_progress_dir(layout.subtask("simulated", *first, lineage)))
        assert bool(kept) == (lineage == 1), "what has finished has no query any more"
        restored = manifest.checkpoint

    def drain() -> None:
        world.ask(ControlRequest(verb="stop", drain=True))

    result = world.run(settings, drain)
    assert result is not None and result.state == "DRAINED", result
    assert world.shown() == world.expected() and world.all_read()


def test_what_spark_keeps_of_a_finished_task_is_deleted_once_no_checkpoint_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purging, "SETTLED_MS", 5_000)
    plan = job_of([[("files", number, 10_000_000)] for number in range(30)], live={"live": 1.0})
    plan = replace(plan, windowed=frozenset({"first", "second"}))
    settings = {**QUICK, "checkpoint.interval": "2 s", "checkpoint.retained": 3}
    world = World(plan, 1, calm=True)
    queries = [layout.spark_progress_dir(layout.subtask("simulated", task, 0, 1)) for task in ("first", "second")]

    def kept() -> list[bool]:
        return [bool(world.store.names(query)) for query in queries]

    def stop() -> None:
        while True:
            retained = [manifest for manifest in world.storage.manifests() if manifest.lineage == 1]
            needed = any(not manifest.needs_no_state("first") for manifest in retained)
            assert kept() == [True, True] or not needed, "a checkpoint can be started from as long as it is retained"
            if kept() == [False, True]:
                break
            assert world.scheduler.now_s < 1_200, "it is never deleted"
            world.scheduler.pause(1)
        world.scheduler.pause(10)
        world.ask(ControlRequest(verb="stop"))

    result = world.run(settings, stop)
    assert result is not None and result.state == "STOPPED", result
    assert kept() == [False, True]

    def drain() -> None:
        world.scheduler.pause(20)
        world.ask(ControlRequest(verb="stop", drain=True))

    result = world.run(settings, drain)
    assert result is not None and result.state == "DRAINED", result
    assert kept() == [False, True], "what a drain has ended is kept"
    assert world.shown() == world.expected() and world.all_read()


def two_streams(slow: float, speed: float) -> World:
    """A stream of three rows a second and another one, which may be idle, read by a task of so many rows a second."""
    plan = job_of([[("files", 0, 10_000_000)]], live={"live": 3.0, "quiet": slow})
    sources = tuple(replace(one, idle_after=IDLE_AFTER if one.uid == "quiet" else None) for one in plan.graph.sources)
    speeds = {"first": 1_000, "second": speed}
    return World(replace(plan, graph=replace(plan.graph, sources=sources), speed=speeds), 1, calm=True)


@pytest.mark.parametrize("speed", [1.0, 3.0, 10.0, 1_000.0])
def test_a_stream_whose_rows_wait_for_a_batch_that_takes_long_is_not_idle(speed: float) -> None:
    world = two_streams(0.5, speed)

    def drain() -> None:
        world.scheduler.pause(100)
        world.ask(ControlRequest(verb="stop", drain=True))

    result = world.run(QUICK, drain)
    assert result is not None and result.state == "DRAINED"
    assert world.shown() == world.expected()
    assert not world.engine.late


def test_a_stream_without_rows_holds_nothing_back_once_it_is_idle() -> None:
    world = two_streams(0.0, 1_000)
    came: list[int] = []

    def look() -> None:
        world.scheduler.pause(60)
        came.append(sum(world.shown()["second_out"].values()))
        world.ask(ControlRequest(verb="stop", drain=True))

    result = world.run(QUICK, look)
    assert result is not None and result.state == "DRAINED"
    assert came[0] > 100, "of the windows of a minute"
    assert world.shown() == world.expected()
    assert not world.engine.late


@pytest.mark.parametrize("ahead_s", [86_400, -86_400])
def test_a_clock_that_is_set_and_set_right_moves_no_interval(ahead_s: int) -> None:
    world = World(job_of([], live={"live": 3.0}), 1, calm=True)
    numbers: list[int] = []

    def set_clock() -> None:
        for ahead in (0, ahead_s, 0):
            world.clock_is_ahead_s = ahead
            world.scheduler.pause(20)
            numbers.append(len(world.storage.checkpoints()) and world.storage.checkpoints()[0])
        world.ask(ControlRequest(verb="stop"))

    assert world.run(QUICK, set_clock) is not None
    taken = [later - earlier for earlier, later in zip([0, *numbers], numbers, strict=False)]
    assert min(taken) >= max(taken) - 3 > 10, taken
