"""The places of a job, its storage and the targets of its sinks, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.errors import SinkError, StorageError
from rekindle.sinks import TwoPhaseSink
from rekindle.sources.globs import is_glob
from rekindle.storage.addresses import shown
from rekindle.storage.open import check_kept, is_within


def check_places(location: str, job: str, sinks: Mapping[str, TwoPhaseSink]) -> None:
    """Refuse places that do not last, and a storage and a target that are not apart.

    Raises:
        SinkError: ``SINK_TARGET_INVALID``: the target is in the folder of the job, or the storage is in the target.
        StorageError: ``PLACE_NOT_KEPT``.
    """
    check_kept(location)
    for uid, sink in sinks.items():
        for address in sink.addresses:
            check_kept(address)
            if is_within(address, f"{location.rstrip('/')}/{job}"):
                _refuse(uid, address, f"it lies in the folder of the job in {shown(location)}, and goes with the job")
        path = getattr(sink, "path", None)  # of a table that is a folder; the tables of a warehouse lie below it
        if isinstance(path, str) and is_within(location, path):
            _refuse(uid, path, f"the storage {shown(location)} lies in it, and its files could be read as rows")


def refuse_patterns(location: str) -> None:
    """Refuse a path that Spark would take for a pattern: it would ignore the logs of inboxes below it."""
    if is_glob(location):
        raise StorageError("STORAGE_PATH_UNSUPPORTED", uri=location, letters="{ } [ ] * ? \\")


def _refuse(uid: str, target: str, reason: str) -> None:
    raise SinkError("SINK_TARGET_INVALID", sink=uid, target=shown(target), reason=reason)
