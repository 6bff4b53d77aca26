"""Rekindle runs PySpark streaming pipelines as jobs that begin, checkpoint, stop and end properly.

Importing this package does not import PySpark.
"""

from rekindle import errors, sinks, sources
from rekindle.errors import RekindleError
from rekindle.flushing import flush
from rekindle.handle import JobHandle
from rekindle.job import Job
from rekindle.results import Checkpoint, JobResult, JobStatus, Savepoint
from rekindle.sources import Batch, Files, SplitSource, Stream
from rekindle.start.previews import StartPreview
from rekindle.state_editing import rewrite_state
from rekindle.state_reading import state
from rekindle.version import VERSION

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
    "SplitSource",
    "StartPreview",
    "Stream",
    "errors",
    "flush",
    "rewrite_state",
    "sinks",
    "sources",
    "state",
]
