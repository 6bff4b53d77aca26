from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kit import CrashWorld


@pytest.fixture
def world(tmp_path: Path) -> CrashWorld:
    return CrashWorld(tmp_path).fill()
