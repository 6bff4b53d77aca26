from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.runtime import client, driver
from tests.runtime.kit import World


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at everything much more often than a real driver does."""
    monkeypatch.setattr(driver, "LOOP_S", 0.002)
    monkeypatch.setattr(driver, "CONTROL_S", 0.005)
    monkeypatch.setattr(driver, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(client, "POLL_S", (0.002, 0.01))
    monkeypatch.setattr(client, "_LOOK_S", 0.02)


@pytest.fixture
def leaving_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that ends waits for what hangs, but not for long."""
    monkeypatch.setattr(driver, "LEAVE_S", 0.2)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
