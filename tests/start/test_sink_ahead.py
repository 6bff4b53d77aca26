"""A restore from behind what a sink has committed is refused, whatever became of the checkpoints in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.config import Config
from rekindle.errors import ControlError, RestoreError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.validation import validated
from rekindle.runtime.definition import Definition
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.storage import layout
from rekindle.testing.fake_runner import FakeInput
from tests.runtime.kit import JOB, SOURCE, TASK, World, until


def prepare(world: World, restore: str, *, sink_ahead: bool = False, shared_target: bool = False) -> None:
    """Begin a start from `restore`, as far as it goes without Spark."""
    graph = validated(
        JobGraph(
            name=JOB,
            sources=(Source(uid=SOURCE, bounded=False),),
            tasks=(Task(uid=TASK, inputs=(SOURCE,)),),
            sinks=tuple(Sink(uid=uid, task=TASK) for uid in world.sinks),
        )
    )
    definition = Definition(graph=graph, sources={}, functions={}, sinks=world.sinks)
    permissions = Permissions(sink_ahead=sink_ahead, shared_target=shared_target)
    Launch(definition, world.storage.store, Config.of({}), permissions).prepare(restore)


def grow_and_rest(world: World, savepoints: Path) -> tuple[str, str]:
    """A savepoint, commits behind it, checkpoints with nothing to commit, and another savepoint."""
    world.rows = FakeInput(available=9, ended=False)
    handle = world.start(**{"checkpoint.interval": "0", "checkpoint.retained": "1"})
    until(lambda: world.read() == 9)
    before = handle.savepoint(str(savepoints)).path
    assert handle.status().history[0].path == before, "a savepoint is listed with the path of its copy"
    world.rows.available = 30
    until(lambda: world.read() == 30)
    while not any(manifest.transactions for manifest in world.storage.manifests() if manifest.checkpoint > 1):
        handle.checkpoint()
    while world.storage.manifests()[0].transactions:
        handle.checkpoint()
    after = handle.savepoint(str(savepoints)).path
    handle.stop()
    handle.wait()
    assert not any(manifest.transactions for manifest in world.storage.manifests())
    return before, after


def test_a_sink_is_ahead_also_when_the_checkpoint_that_committed_has_been_discarded(tmp_path: Path) -> None:
    world = World(tmp_path)
    before, after = grow_and_rest(world, tmp_path / "savepoints")

    with pytest.raises(RestoreError, match="SINK_AHEAD"):
        prepare(world, before)

    prepare(world, before, sink_ahead=True)
    prepare(world, after)


def test_a_savepoint_of_another_storage_is_behind_whatever_was_committed_here(tmp_path: Path) -> None:
    here, there = World(tmp_path / "here"), World(tmp_path / "there")
    grow_and_rest(here, tmp_path / "savepoints")
    _, elsewhere = grow_and_rest(there, tmp_path / "savepoints")

    with pytest.raises(RestoreError, match="SINK_AHEAD"):
        prepare(here, elsewhere)

    prepare(World(tmp_path / "new"), elsewhere)


def test_what_another_job_has_not_committed_is_no_place_to_take_its_target_over_from(tmp_path: Path) -> None:
    there, here = World(tmp_path / "there"), World(tmp_path / "here")
    there.rows = FakeInput(available=9, ended=False)
    handle = there.start(**{"checkpoint.interval": "0"})
    until(lambda: there.read() == 9)
    handle.checkpoint()
    handle.stop()
    handle.wait()
    number = next(one.checkpoint for one in there.storage.manifests() if one.transactions)
    folder = layout.checkpoint(JOB, number)
    path = f"{there.storage.store.location}/{folder}"

    prepare(here, path, shared_target=True)
    there.storage.store.delete_many([layout.committed(folder)])
    with pytest.raises(ControlError, match="CHECKPOINT_NOT_COMMITTED"):
        prepare(here, path, shared_target=True)
    prepare(here, path)
