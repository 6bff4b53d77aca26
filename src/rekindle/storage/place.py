"""Where a job keeps its state."""

from __future__ import annotations

import os

DEFAULT = "./rekindle-state"
VARIABLE = "REKINDLE_STORAGE"


def location_of(storage: str | None) -> str:
    """Return what the user has said, else what the environment says, else the folder here."""
    return storage or os.environ.get(VARIABLE) or DEFAULT
