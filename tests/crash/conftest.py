from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.start import decide
from tests.crash.kit import CrashWorld


@pytest.fixture
def world(tmp_path: Path) -> CrashWorld:
    return CrashWorld(tmp_path).fill()


@pytest.fixture
def thought_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other driver seems to be gone, as one on a machine that is suspended does."""
    monkeypatch.setattr(decide, "is_alive", lambda *_: False)
    monkeypatch.setattr(decide, "is_driven_here", lambda *_: False)
