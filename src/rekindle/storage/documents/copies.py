"""The document of a job that was copied from another storage."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.storage.layout import FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOf:
    """``copied.json``: the job comes from another storage. It is no job until a ``job.json`` of its id is there too."""

    job: str
    #: of the job (`Identity.id`)
    id: str
    #: the storage that it was copied from, as a person would name it
    source: str
    begun_ms: int
    #: tells the command that copies from one that was started later, which takes over
    token: str
    format: int = FORMAT_VERSION
