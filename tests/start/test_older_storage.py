"""A storage that was put back from a backup knows less than its sinks: numbers that they have seen would come again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rekindle.config import Config
from rekindle.errors import RestoreError
from rekindle.runtime.driver import Driver
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.start.previews import StartPreview
from rekindle.testing.fake_runner import FakeInput
from tests.runtime.kit import NEVER, World, ended, until


def begun(world: World, *, sink_ahead: bool = False) -> Driver:
    permissions = Permissions(sink_ahead=sink_ahead)
    launch = Launch(world.definition(), world.store, Config.of(NEVER), permissions, pauses=world.pauses)
    launch.prepare(None)
    driver = launch.begin(world.engine)
    assert isinstance(driver, Driver)
    return driver


def run_to(world: World, rows: int) -> None:
    """Run until so many rows are read and committed, and stop."""
    world.rows.available = rows
    handle = world.start(**NEVER)
    until(lambda: world.read() == rows)
    handle.stop()
    ended(handle)


@pytest.fixture
def older(tmp_path: Path) -> World:
    """A job whose storage is that of its first checkpoint; its sinks have two more."""
    world = World(tmp_path)
    world.rows = FakeInput(available=0, ended=False)
    run_to(world, 4)
    shutil.copytree(world.location, tmp_path / "backup")
    run_to(world, 8)
    run_to(world, 12)
    assert world.storage.numbers_used() == [1, 2, 3]
    shutil.rmtree(world.location)
    shutil.copytree(tmp_path / "backup", world.location)
    return world


def test_a_storage_that_knows_less_than_its_sinks_is_refused(older: World) -> None:
    with pytest.raises(
        RestoreError, match=r"has committed checkpoint 3 of job 'job', and .* knows none after 1"
    ) as refused:
        begun(older)
    assert refused.value.code == "STORAGE_OLDER"
    assert older.storage.numbers_used() == [1]
    result = older.storage.result(2)
    assert result is not None and result.state == "FAILED"

    with pytest.raises(RestoreError, match="STORAGE_OLDER"):
        begun(older)


def test_a_look_before_the_start_finds_it_and_knows_the_permission(older: World) -> None:
    def preview(*, sink_ahead: bool) -> StartPreview:
        permissions = Permissions(sink_ahead=sink_ahead)
        return Launch(older.definition(), older.store, Config.of(NEVER), permissions).preview(None)

    codes = {sink.uid: (sink.refused or {}).get("code") for sink in preview(sink_ahead=False).sinks}
    assert codes == {"out": "STORAGE_OLDER", "second": "STORAGE_OLDER"}
    assert not preview(sink_ahead=True).refused


def test_with_permission_it_goes_on_with_numbers_that_no_sink_has_seen(older: World) -> None:
    older.rows.available, older.rows.ended = 16, True
    driver = begun(older, sink_ahead=True)
    assert older.storage.numbers_used() == [1, 2, 3]

    driver.run()

    assert [one.checkpoint for one in older.manifests()] == [1, 4]
    sink = older.sinks["out"]
    assert set(sink.rows) == set(range(16))
    assert len(sink.rows) == 16 + 8, "what was committed after the backup is there twice"


def test_a_storage_that_knows_all_is_not_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.rows = FakeInput(available=0, ended=False)
    for rows in (4, 8, 12):
        run_to(world, rows)
    assert sorted(world.sinks["out"].rows) == [*range(10)], "all that was emitted"
