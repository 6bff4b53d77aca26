"""The documents of a job and of its runs: its identity, the driver of each run, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """``job.json``: the identity of the job in this folder."""

    #: name of the job
    job: str
    created_ms: int
    #: random id of this job. A job with the same name in another storage has another id
    id: str = ""
    format: int = FORMAT_VERSION

    @property
    def owner(self) -> str:
        """The name by which sinks know the job: no other job has it, even one that is called the same."""
        return f"{self.job}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDescription:
    """A source of a job, for people, without its paths, options and functions."""

    uid: str
    #: Files | Batch | Stream | SplitSource | Jdbc | Kafka | Hybrid
    kind: str
    #: True: the source ends
    bounded: bool
    #: column with the event time
    event_time: str | None = None
    #: delay of the watermark, as the user wrote it
    watermark: str | None = None
    #: time without rows after which the source no longer holds back the watermark, as the user wrote it
    idle_after: str | None = None
    #: short hash of where it reads, by which a change is noticed; None: that is not known
    address_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDescription:
    """A task of a job, for people."""

    uid: str
    #: uids of the sources and tasks that it reads
    inputs: tuple[str, ...]
    #: number of its subtasks
    parallelism: int = 1
    output_mode: str = "append"
    #: column of its output with the event time
    event_time: str | None = None
    #: delay of that watermark, as the user wrote it
    watermark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDescription:
    """A sink of a job, for people, without its address and options."""

    uid: str
    #: uid of the task that it gets the rows of
    task: str
    #: name of its class, such as Parquet
    kind: str
    #: short hash of where it writes, by which a change is noticed; None: that is not known
    address_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """The parts of a job in a run, and its settings. For people; only the kinds of its sinks decide anything."""

    sources: tuple[SourceDescription, ...] = ()
    tasks: tuple[TaskDescription, ...] = ()
    sinks: tuple[SinkDescription, ...] = ()
    #: every setting of Rekindle, as a user would write it. Spark's settings may hold secrets: all others are not here
    settings: dict[str, str] = field(default_factory=dict)
    #: settings of the session that values depend on, such as its time zone; empty where an older version wrote it
    value_settings: dict[str, str] = field(default_factory=dict)
    #: version of Rekindle
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``runs/<run>.json``: a driver has started. The next number fences it."""

    run: int
    started_ms: int
    host: str
    pid: int
    #: lineage that the run continues or opens
    lineage: int
    #: folder of the checkpoint or savepoint to start from, absolute; None: the run resumes in place, or is the first
    restore_from: str | None = None
    #: False: the start itself has decided to restore, so the next start decides for itself, too
    asked: bool = True
    #: newest completed checkpoint of the job when it decided so; None: it had none
    newest_checkpoint: int | None = None
    #: True: the job was drained, and the run continues from before the flush
    undo_drain: bool = False
    #: True: the sinks go back to that checkpoint too
    rewind_sinks: bool = False
    #: True: the job owns the savepoint that it started from, and deletes it later
    claim: bool = False
    #: random, so that of two processes that create the same run each knows whether it has won
    token: str = ""
    #: start of the process, which tells it from a later process with the same pid (`storage.liveness`)
    process_started: str = ""
    #: id of the machine's current start, by which a loss of power is noticed; empty where the storage needs none
    boot_id: str = ""
    #: streaming | batch
    mode: str = "streaming"
    #: True: it stops by itself once its sources have caught up with what is there
    available_now: bool = False
    #: first run of this process, if it has had several: requests to any of them are answered; None: it has had one
    since: int | None = None
    #: the parts of the job; None where an older version wrote it
    description: JobDescription | None = None
    #: in ``starting.json``, which is this document without its description: grows with each write
    beat: int = 0
    #: in ``starting.json``: time of that write, ms since the epoch
    written_ms: int = 0
    format: int = FORMAT_VERSION

    def answers(self, run: int) -> bool:
        """Return whether a request to that run is for this one."""
        return (self.since or self.run) <= run <= self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``runs/<run>.result.json``: how a run ended."""

    run: int
    #: FINISHED | STOPPED | DRAINED | CANCELED | FAILED
    state: str
    ended_ms: int
    #: number of the last completed checkpoint
    checkpoint: int | None = None
    #: folder of the savepoint that the stop has made, absolute
    savepoint: str | None = None
    #: rows that a drain has not read, state that it has not flushed, and other remarks
    notes: tuple[str, ...] = ()
    #: the error of a failed run: code, message, parameters, next step
    error: Json | None = None
    #: False: the run found nothing to do, or an error, before it began. The result of the run before it counts
    began: bool = True
    format: int = FORMAT_VERSION
