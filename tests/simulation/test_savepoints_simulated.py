"""Drivers that are asked for savepoints, killed meanwhile, and started from savepoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.storage import layout
from rekindle.storage.origin import copied_bytes, find_origin
from tests.simulation.lives import live


@pytest.mark.parametrize("seed", range(8))
def test_a_life_with_savepoints_ends_well(seed: int, tmp_path: Path) -> None:
    live(seed, saves=str(tmp_path))
    check_sizes(tmp_path)


def check_sizes(folder: Path) -> None:
    """Each savepoint has exactly the bytes that its manifest counts: one that lacks any is refused."""
    for path in folder.glob("*/manifest.json"):
        origin = find_origin(str(path.parent))
        sizes = {entry.path: entry.size_bytes for entry in origin.store.walk(origin.folder)}
        assert copied_bytes(origin.folder, sizes) == origin.manifest.size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 500))
def test_many_lives_with_savepoints_end_well(seed: int, tmp_path: Path) -> None:
    live(seed, saves=str(tmp_path))
    check_sizes(tmp_path)


def test_such_lives_start_from_savepoints_of_jobs_that_ran(tmp_path: Path) -> None:
    world = live(1, saves=str(tmp_path))

    runs = [world.storage.run(number) for number in world.storage.numbers(layout.runs(world.storage.job))]
    assert any(str(run and run.restore_from).startswith(str(tmp_path)) for run in runs)
