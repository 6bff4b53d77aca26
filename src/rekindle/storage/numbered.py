"""Names in a folder of the storage that begin with a number: those of batches, reads, marks and lineages."""

from __future__ import annotations

import re

from rekindle.storage.port import Store

_NUMBERED = re.compile(r"([0-9]+)(?:[-.].*)?")


def number_of(name: str) -> int | None:
    """Return the number that a name begins with; None: it is not ours.

    Other programs leave files of their own in a folder, such as ``.DS_Store``.
    """
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else None


def names_before(store: Store, folder: str, number: int) -> list[str]:
    """Return the names in a folder that begin with a lower number."""
    return [name for name in store.names(folder) if (found := number_of(name)) is not None and found < number]
