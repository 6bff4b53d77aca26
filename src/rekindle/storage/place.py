"""The place in which a job keeps its state."""

from __future__ import annotations

import os

DEFAULT = "./rekindle-state"
VARIABLE = "REKINDLE_STORAGE"


def location_of(storage: str | None) -> str:
    """Return the storage that the user names, else the one that the environment names, else a folder here."""
    return storage or os.environ.get(VARIABLE) or DEFAULT
