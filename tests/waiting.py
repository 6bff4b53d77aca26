"""Waiting for something to come about, in one way for all tests."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 60, pause_s: float = 0.01) -> None:
    """Wait until `condition` holds; a limit keeps a hanging test from hanging for ever."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(pause_s)
