"""One change of a job at a time, where a life of random changes could not say which rows there must be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import RestoreError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.start.permissions import Permissions
from rekindle.storage import layout
from rekindle.storage.codec import encode
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.savepoints import savepoints_in
from tests.simulation.world import CustomPlan, Plan, Row, World

SETTINGS = {"checkpoint.interval": "1 s", "input.target_batch_duration": "1 ms"}


def rows_of(uid: str) -> list[Row]:
    return [(uid, number, 10_000_000) for number in range(40)]


@pytest.fixture
def world() -> World:
    """A job of two sources and a task, stopped before it has read all of either."""
    plan = Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="kept", bounded=True, kind="Files"), Source(uid="gone", bounded=True, kind="Files")),
            tasks=(Task(uid="first", inputs=("kept", "gone")),),
            sinks=(Sink(uid="first_out", task="first", kind="Fake"),),
        ),
        files={uid: [[row] for row in rows_of(uid)] for uid in ("kept", "gone")},
        speed={"first": 10.0},
        windowed=frozenset(),
        live={},
        settings={},
        file_bytes=10**9,
    )
    world = World(plan, 1, calm=True)

    def stop() -> None:
        world.scheduler.pause(2)
        world.ask(ControlRequest(verb="stop"))

    result = world.run(SETTINGS, stop)
    assert result is not None and result.state == "STOPPED", result
    shown = world.shown()["first_out"]
    assert shown and all(set(rows_of(uid)) - set(shown) for uid in ("kept", "gone")), "all was read"
    return world


def refused(world: World, restore: str | None = None) -> str:
    with pytest.raises(RestoreError) as error:
        world.run(SETTINGS, restore=restore)
    return error.value.code


def finish(world: World, restore: str | None = None) -> Counter[Row]:
    result = world.run(SETTINGS, restore=restore)
    assert result is not None and result.state == "FINISHED", result
    return world.shown()["first_out"]


def test_an_input_that_is_removed_leaves_what_was_read_and_the_other_goes_on(world: World) -> None:
    before, graph = world.shown()["first_out"], world.plan.graph
    alone = replace(graph, sources=graph.sources[:1], tasks=(replace(graph.tasks[0], inputs=("kept",)),))
    world.plan = replace(world.plan, graph=alone)
    assert refused(world) == "INPUT_NOT_RESTORED"
    assert world.shown()["first_out"] == before
    world.permissions = Permissions(non_restored_state=True)
    after = finish(world)
    of_gone = Counter({row: count for row, count in before.items() if row[0] == "gone"})
    assert after == Counter(rows_of("kept")) + of_gone


def test_a_source_that_becomes_one_of_another_kind_is_refused_and_the_old_one_goes_on(world: World) -> None:
    before, old = world.shown()["first_out"], world.plan
    graph = replace(old.graph, sources=(old.graph.sources[0], replace(old.graph.sources[1], kind="SplitSource")))
    custom = {"gone": CustomPlan(splits={"a": rows_of("gone")}, bounded=True, at_first=1)}
    world.plan = replace(old, graph=graph, custom=custom)
    assert refused(world) == refused(world, "1") == "SOURCE_REPLACED"
    assert world.shown()["first_out"] == before
    world.plan = old
    assert finish(world) == Counter(rows_of("kept") + rows_of("gone"))


@pytest.mark.parametrize("opened", [False, True])
def test_a_list_of_files_that_a_failed_start_has_left_gives_way_to_that_of_a_savepoint(
    world: World, tmp_path: Path, opened: bool
) -> None:
    savepoint_at_rest(world.storage, str(tmp_path))
    savepoint, old = savepoints_in(str(tmp_path))[0].path, world.storage
    world.plan = replace(world.plan, graph=replace(world.plan.graph, name="renamed"))
    world.storage = JobStorage(world.store, "renamed")
    world.permissions = Permissions(other_name=True)
    for uid in ("kept", "gone"):
        found = old.frozen_files(uid)
        assert found is not None
        other = replace(found, files=found.files[::-1])
        world.storage.create(layout.frozen_files(layout.source("renamed", uid)), other)
    if opened:  # it failed after it had opened its lineage, before its first query
        world.storage.create(layout.identity("renamed"), Identity(job="renamed", created_ms=0, id="failed"))
        world.storage.fence.claim(Run(run=1, started_ms=0, host="vm", pid=0, lineage=1))
        world.storage.create(layout.lineage("renamed", 1), Lineage(lineage=1, run=1, created_ms=0))
        world.storage.record_result(Result(run=1, state="FAILED", ended_ms=0))
    assert finish(world, savepoint) == Counter(rows_of("kept") + rows_of("gone"))

    found = world.storage.frozen_files("kept")
    assert found is not None
    world.store.replace(
        layout.frozen_files(layout.source("renamed", "kept")), encode(replace(found, files=found.files[::-1]))
    )
    world.permissions = Permissions(other_name=True, sink_ahead=True)
    assert refused(world, savepoint) == "FILE_LIST_DIFFERENT"


def test_a_job_of_another_name_goes_on_from_a_savepoint_and_the_old_one_stays(world: World, tmp_path: Path) -> None:
    savepoint_at_rest(world.storage, str(tmp_path))
    savepoint, old = savepoints_in(str(tmp_path))[0].path, world.storage
    left = {entry.path for entry in world.store.walk("simulated")}
    world.plan = replace(world.plan, graph=replace(world.plan.graph, name="renamed"))
    world.storage = JobStorage(world.store, "renamed")
    assert refused(world, savepoint) == "JOB_DIFFERENT"
    world.permissions = Permissions(other_name=True)
    assert finish(world, savepoint) == Counter(rows_of("kept") + rows_of("gone"))
    assert {entry.path for entry in world.store.walk("simulated")} == left
    assert old.newest_manifest() is not None
