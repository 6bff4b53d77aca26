"""The writes that are forced to the disk so that they survive a loss of power, and what is forced before them.

A manifest rests on what others have written: Spark's driver and executors their logs and state, tasks their batch
records and segments, sinks what they have staged. These are not forced one by one, and not batch by batch. Before a
manifest appears, its whole file system is (`rekindle.storage.disk`): one call, for any number of files. So a manifest
on the disk means that all it names is there too. What is newer than the newest manifest may be lost, in part or torn: a
start that finds signs of a loss of power makes no use of it (`rekindle.start.lost`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rekindle.storage import layout


class Force(Enum):
    """The guarantee that a write gives when it returns."""

    #: it may be lost, and that does no harm
    NOTHING = "nothing"
    #: its bytes are on the disk
    ITSELF = "itself"
    #: so is all that was written before it appeared, by any process of this machine
    EVERYTHING = "everything"


Forces = Callable[[str], Force]
"""A function that returns what a write to a path forces."""

FORCES: dict[str, Force] = {
    **dict.fromkeys(layout.STEPS, Force.NOTHING),
    **dict.fromkeys(
        (
            "job.create",
            "result.create",
            "lineage.create",
            "drain.create",
            "request.create",
            "answer.create",
            "copy.begin",
            # It replaces a log of Spark's that a checkpoint may need.
            "progress.write",
        ),
        Force.ITSELF,
    ),
    **dict.fromkeys(
        (
            # What a run continues may have been left by a process that was killed before it had forced it.
            "run.create",
            # It names copies of rows.
            "files.freeze",
            "manifest.create",
            # What sinks have committed, or taken back, is not done again.
            "committed.create",
            "rewound.create",
        ),
        Force.EVERYTHING,
    ),
}
"""Step → what is forced with a document that is created or replaced. A copy is not forced, whatever its path."""


def force_of(path: str) -> Force:
    """Return what a write to a path of a storage forces; nothing where the path is none of a storage's."""
    try:
        return FORCES[layout.step_of(path)]
    except KeyError:
        return Force.NOTHING


def force_nothing(_: str) -> Force:
    """Force nothing: leave all writes to the system."""
    return Force.NOTHING
