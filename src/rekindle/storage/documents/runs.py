"""The documents of a job and of its runs: its identity, the driver of each run, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """``job.json``: the identity of the job in this folder."""

    job: str
    created_ms: int
    #: random; tells this job from one of the same name in another storage, whose sinks may share a target
    id: str = ""
    format: int = FORMAT_VERSION

    @property
    def owner(self) -> str:
        """The name by which sinks know the job: no other job has it, even one that is called the same."""
        return f"{self.job}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDescription:
    """A source of a job, for people; no path, option or function of it."""

    uid: str
    #: Files | Batch | Stream
    kind: str
    bounded: bool
    event_time: str | None = None
    watermark: str | None = None
    idle_after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDescription:
    """A task of a job, for people."""

    uid: str
    #: uids of the sources and tasks it reads
    inputs: tuple[str, ...]
    parallelism: int = 1
    output_mode: str = "append"
    event_time: str | None = None
    watermark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDescription:
    """A sink of a job, for people; no address or option of it."""

    uid: str
    task: str
    #: e.g. Parquet
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """The parts of a run, and the settings in force, for people; only the kinds of its sinks decide anything."""

    sources: tuple[SourceDescription, ...] = ()
    tasks: tuple[TaskDescription, ...] = ()
    sinks: tuple[SinkDescription, ...] = ()
    #: every setting of Rekindle as a user would write it; those of Spark, which may hold secrets, are not here
    settings: dict[str, str] = field(default_factory=dict)
    #: of Rekindle
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``runs/<run>.json``: a driver started. The next number fences it."""

    run: int
    started_ms: int
    host: str
    pid: int
    #: lineage it continues, or opens
    lineage: int
    #: checkpoint or savepoint folder it was to start from, absolute; None: resume or first start
    restore_from: str | None = None
    #: True: it continues from before the flush of a drained job
    undo_drain: bool = False
    #: True: the sinks go back with it
    rewind_sinks: bool = False
    #: True: the job owns the savepoint that it started from, and deletes it
    claim: bool = False
    #: tells two processes apart that race for one run number
    token: str = ""
    #: tells the process from a later one with the same pid, see `storage.liveness`
    process_started: str = ""
    #: id of the start of the machine, where that shows a loss of power (`Store.boot_id`); else empty
    boot_id: str = ""
    #: streaming | batch
    mode: str = "streaming"
    #: first of the runs of this process whose unanswered requests it hears; None: it has no predecessor there
    since: int | None = None
    #: None where an older version wrote it
    description: JobDescription | None = None
    format: int = FORMAT_VERSION

    def answers(self, run: int) -> bool:
        """Return whether a request to that run is for this one."""
        return (self.since or self.run) <= run <= self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``runs/<run>.result.json``: how a run ended."""

    run: int
    state: str
    ended_ms: int
    #: last completed checkpoint's id
    checkpoint: int | None = None
    #: savepoint made by the stop, absolute
    savepoint: str | None = None
    #: notes on what a drain left unread or unflushed
    notes: tuple[str, ...] = ()
    error: Json | None = None
    #: False: what the run found under its claim forbade it, or left it nothing to do; the one before it counts
    began: bool = True
    format: int = FORMAT_VERSION
