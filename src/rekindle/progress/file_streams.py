"""The files that a stream of files has read, from Spark's whole log of it."""

from __future__ import annotations

from contextlib import suppress

from rekindle.progress.directory import COMPACTED, file_log, log_numbers
from rekindle.storage.port import NotFound, Store

_TRIES = 3
"""The number of tries: a running query may compact its log while it is read."""


def read_file_stream(store: Store, log: str) -> dict[str, int] | None:
    """Return file → Spark's offset for all files in the log; None: it is no stream of files.

    Raises:
        StorageError: ``OBJECT_CORRUPT``, ``PROGRESS_FORMAT_UNKNOWN``.
    """
    for _ in range(_TRIES):
        with suppress(NotFound):
            return _read(store, log)
    return None


def _read(store: Store, log: str) -> dict[str, int] | None:
    names = log_numbers(store.names(log))
    whole = max((number for name, number in names.items() if name.endswith(COMPACTED)), default=-1)
    first = {number: name for name, number in sorted(names.items()) if number >= whole}
    found: dict[str, int] = {}
    for number in sorted(first):
        name = f"{number}{COMPACTED}" if f"{number}{COMPACTED}" in names else first[number]
        entries = file_log(store.read(f"{log}/{name}"), f"{log}/{name}")
        if entries is None:
            return None
        for entry in entries:
            found.setdefault(entry["path"], entry["batchId"])
    return found if names else None
