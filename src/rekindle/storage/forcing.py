"""What survives a loss of power: which writes are forced to the disk, and what is forced before them.

A record, a manifest, an end rest on what others have written: Spark's driver and executors their logs, state and rows,
sinks what they have staged or moved. These are not forced one by one. Before such a document appears, its whole file
system is (`rekindle.storage.disk`): one call, whatever number of files there are. So a document on the disk means that
all it speaks of is there too. What is newer than the last document may be lost, in part or torn, and is made again.
"""

from __future__ import annotations

from enum import Enum

from rekindle.storage import layout


class Force(Enum):
    """What a write does before it returns."""

    #: it may be lost, and that does no harm
    NOTHING = "nothing"
    #: it is on the disk
    ITSELF = "itself"
    #: so is all that was written before it appeared, by whichever process
    EVERYTHING = "everything"


FORCES: dict[str, Force] = {
    **dict.fromkeys(layout.STEPS, Force.ITSELF),
    **dict.fromkeys(
        (
            "status.replace",
            "history.replace",
            "log.replace",
            "reserve.create",
            "request.create",
            # It is empty, and made again by each start.
            "inbox.open",
            # What is copied is forced before the document that names it.
            "segment.copy",
            "segments.copy",
        ),
        Force.NOTHING,
    ),
    **dict.fromkeys(
        (
            "files.freeze",
            "lineage.create",
            "record.create",
            "end.create",
            "manifest.create",
            "committed.create",
        ),
        Force.EVERYTHING,
    ),
}
"""Step → what is forced with it."""


def force_of(path: str) -> Force:
    """What a write to a path of a storage forces; nothing where it is none of a storage's."""
    try:
        return FORCES[layout.step_of(path)]
    except KeyError:
        return Force.NOTHING


def force_nothing(_: str) -> Force:
    """Leave all to the system."""
    return Force.NOTHING
