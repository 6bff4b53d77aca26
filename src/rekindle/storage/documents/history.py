"""The documents of a job's history: its events, what its checkpoints cost, and the rates of its subtasks.

Rows are kept in segments, see `rekindle.history.log`. A reader decides nothing by them: they are for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventError:
    """An error, as `errors` has it, and the stack that it came from."""

    code: str
    message: str
    next_step: str = ""
    parameters: Json = field(default_factory=dict)
    #: the stack of Python, or of Spark, cut to 16 KB; empty: there is none, or the failure before this one has it
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """A row of ``history/events``: something that happened to a job."""

    time_ms: int
    run: int
    #: see `rekindle.history.events`
    kind: str
    severity: Severity = "info"
    message: str = ""
    #: the task, as ``<uid>/<subtask>``
    task: str | None = None
    checkpoint: int | None = None
    #: origin of the request: a host, a user and a process, a signal, the API
    by: str | None = None
    #: place of a savepoint
    path: str | None = None
    error: EventError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskStats:
    """The part of one subtask in a checkpoint; times in milliseconds after the trigger, or spans."""

    uid: str
    subtask: int
    #: it had finished before the checkpoint was triggered, and took no part
    finished: bool = False
    #: time from the trigger until its snapshot was there; None: it never was
    acknowledged_ms: int | None = None
    #: time that the barriers took to reach it, on all of its channels
    alignment_ms: int | None = None
    #: time that the snapshot took from then on: until Spark had committed its batch
    sync_ms: int | None = None
    #: the snapshot did not wait for what was in the channels
    unaligned: bool = False
    #: of what is in the channels and belongs to the snapshot; None where that is not known
    in_flight_bytes: int | None = None
    #: of its state, as Spark's last report has it; None where Spark has reported nothing
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A row of ``history/checkpoints``: a checkpoint that was completed, or has failed."""

    #: of a failed one it is not unique: a later run may give the number again
    id: int
    run: int
    #: periodic | manual | final | stop | savepoint
    kind: str
    #: completed | failed
    status: str
    triggered_ms: int
    #: time at which its manifest was there; None: it has failed
    completed_ms: int | None = None
    #: from the trigger to the manifest
    duration_ms: int | None = None
    subtasks: tuple[SubtaskStats, ...] = ()
    state_bytes: int | None = None
    in_flight_bytes: int = 0
    #: time that the sinks took to commit, with what had to be repeated; None: not yet, or not known
    commit_ms: int | None = None
    #: sink → how long its commit took, without what had to be repeated; of sinks that had something to commit
    sink_commit_ms: dict[str, int] = field(default_factory=dict)
    #: its folder
    path: str | None = None
    #: reason, of one that has failed
    failure: str | None = None
    failed_ms: int | None = None
    #: place of the savepoint that was made of it
    savepoint: str | None = None
    savepoint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRates:
    """The rates of a subtask between two samples."""

    #: rows a second
    rows_in: float | None = None
    #: rows a second; None where no sink and no channel counts them
    rows_out: float | None = None
    #: batches a second
    batches: float = 0
    #: average duration of the batches in between; None: there was none
    batch_ms: float | None = None
    watermark_ms: int | None = None
    #: time from the watermark to the clock; None: it has no watermark, or is at its end
    lag_ms: int | None = None
    #: shares of the time, 0 to 1, which add up to 1
    busy: float = 0
    idle: float = 1
    back_pressured: float = 0
    state_rows: int | None = None
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSample:
    """A row of ``history/rates``: the rates of each subtask, every ten seconds."""

    time_ms: int
    run: int
    #: subtask, as ``<uid>/<subtask>`` → its rates
    tasks: dict[str, TaskRates] = field(default_factory=dict)
    #: rows in records that no checkpoint has committed; None where no sink counts rows
    rows_uncommitted: int | None = None
    #: of the job or a task of it, over all runs; None where an older version wrote it
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSegment:
    """``history/events/<run>-<k>-<first>.json``: some rows of the log of events."""

    #: number of the first row; rows are numbered over all runs
    first: int
    rows: tuple[HistoryEvent, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSegment:
    """``history/checkpoints/<run>-<k>-<first>.json``: some rows of the log of checkpoints."""

    #: number of the first row
    first: int
    rows: tuple[CheckpointRecord, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSegment:
    """``history/rates/<run>-<k>-<first>.json``: some rows of the log of rates."""

    #: number of the first row
    first: int
    rows: tuple[RateSample, ...] = ()
    format: int = FORMAT_VERSION
