"""The document of a job that was copied from another storage."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.storage.layout import FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOf:
    """``copied.json``: the job was copied from another storage. It is a job once ``job.json`` is there too."""

    job: str
    #: id of the job, as in ``job.json``
    id: str
    #: the storage that it was copied from
    source: str
    begun_ms: int
    #: random, so that a copy notices when another command has begun it again
    token: str
    format: int = FORMAT_VERSION
