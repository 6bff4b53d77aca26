from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.kit import World


@pytest.fixture
def leaving_soon(world: World) -> None:
    """A driver that ends waits for what hangs, but not for long."""
    world.pauses = replace(world.pauses, leave_s=0.2)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
