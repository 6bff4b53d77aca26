"""Rekindle runs PySpark streaming pipelines as jobs that begin, checkpoint, stop and end properly.

Importing this package does not import PySpark. Each of its names is imported when it is first used, since a command
that reads a storage needs only a few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rekindle.version import VERSION

if TYPE_CHECKING:
    from rekindle import errors, sinks, sources
    from rekindle.errors import RekindleError
    from rekindle.flushing import flush
    from rekindle.handle import JobHandle
    from rekindle.job import Job
    from rekindle.results import Checkpoint, JobResult, JobStatus, Savepoint
    from rekindle.shadowing.report import ShadowReport
    from rekindle.shadowing.shadow import shadow
    from rekindle.sources import Batch, Files, SplitSource, Stream
    from rekindle.start.previews import StartPreview
    from rekindle.state_editing import rewrite_state
    from rekindle.state_reading import state

__version__ = VERSION

__all__ = [
    "Batch",
    "Checkpoint",
    "Files",
    "Job",
    "JobHandle",
    "JobResult",
    "JobStatus",
    "RekindleError",
    "Savepoint",
    "ShadowReport",
    "SplitSource",
    "StartPreview",
    "Stream",
    "errors",
    "flush",
    "rewrite_state",
    "shadow",
    "sinks",
    "sources",
    "state",
]

_MODULES = ("errors", "sinks", "sources")
_HOMES = {
    "Batch": "sources",
    "Checkpoint": "results",
    "Files": "sources",
    "Job": "job",
    "JobHandle": "handle",
    "JobResult": "results",
    "JobStatus": "results",
    "RekindleError": "errors",
    "Savepoint": "results",
    "ShadowReport": "shadowing.report",
    "SplitSource": "sources",
    "StartPreview": "start.previews",
    "Stream": "sources",
    "flush": "flushing",
    "rewrite_state": "state_editing",
    "shadow": "shadowing.shadow",
    "state": "state_reading",
}
"""Name → its module."""


if not TYPE_CHECKING:  # else a checker of types would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"rekindle.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'rekindle' has no attribute {name!r}")
        found = getattr(import_module(f"rekindle.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
