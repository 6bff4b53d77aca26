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
    """The error of an event."""

    code: str
    message: str
    next_step: str = ""
    parameters: Json = field(default_factory=dict)
    #: stack trace of Python or Spark, cut to 16,000 letters; empty: there is none, or the failure before has the same
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """A row of ``history/events``: something that happened to a job."""

    time_ms: int
    run: int
    #: see the table of events in docs/monitoring.md
    kind: str
    #: info | warning | error
    severity: Severity = "info"
    message: str = ""
    #: the subtask, as ``<uid>/<subtask>``
    task: str | None = None
    checkpoint: int | None = None
    #: origin of a request: user, host and process, a signal, or the API
    by: str | None = None
    #: folder of a savepoint
    path: str | None = None
    error: EventError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskStats:
    """The part of one subtask in a checkpoint."""

    uid: str
    subtask: int
    #: True: it had finished before the checkpoint was triggered, and took no part
    finished: bool = False
    #: time from the trigger until its snapshot existed; None: it never did
    acknowledged_ms: int | None = None
    #: time from the trigger until the barriers had reached it on all of its channels
    alignment_ms: int | None = None
    #: time from then until Spark had committed its batch
    sync_ms: int | None = None
    #: True: the snapshot did not wait for what was in the channels
    unaligned: bool = False
    #: bytes in its channels that belong to the snapshot; None: not known
    in_flight_bytes: int | None = None
    #: size of its state, by Spark's last report; None: Spark has reported nothing
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A row of ``history/checkpoints``: a checkpoint that was completed or has failed."""

    #: number of the checkpoint. A later run may use the number of a failed one again
    id: int
    run: int
    #: periodic | manual | final | stop | savepoint
    kind: str
    #: completed | failed
    status: str
    triggered_ms: int
    #: time at which its manifest existed; None: it has failed
    completed_ms: int | None = None
    #: time from the trigger to the manifest, or to the failure
    duration_ms: int | None = None
    subtasks: tuple[SubtaskStats, ...] = ()
    #: sum over its subtasks
    state_bytes: int | None = None
    in_flight_bytes: int = 0
    #: time that the sinks took to commit, with repetitions; None: not yet, or not known
    commit_ms: int | None = None
    #: sink → time of its commit, without repetitions; only sinks that had something to commit
    sink_commit_ms: dict[str, int] = field(default_factory=dict)
    #: folder of the checkpoint
    path: str | None = None
    #: reason, if it has failed
    failure: str | None = None
    failed_ms: int | None = None
    #: folder of the savepoint that was made of it
    savepoint: str | None = None
    savepoint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRates:
    """The rates of a subtask."""

    #: rows a second
    rows_in: float | None = None
    #: rows a second; None: no sink or channel of it counts rows
    rows_out: float | None = None
    #: batches a second
    batches: float = 0
    #: average duration of a batch; None: there was none
    batch_ms: float | None = None
    watermark_ms: int | None = None
    #: milliseconds by which the watermark is behind the clock; None: it has no watermark, or has reached its end
    lag_ms: int | None = None
    #: share of the time in batches, 0 to 1. The three shares add up to 1
    busy: float = 0
    #: the rest
    idle: float = 1
    #: share of the time in which batches waited because too much was unread in its channels
    back_pressured: float = 0
    state_rows: int | None = None
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSample:
    """A row of ``history/rates``: the rates of each subtask in the ten seconds before."""

    time_ms: int
    run: int
    #: subtask, as ``<uid>/<subtask>`` → its rates
    tasks: dict[str, TaskRates] = field(default_factory=dict)
    #: rows given to sinks that no checkpoint has committed; None: no sink counts rows
    rows_uncommitted: int | None = None
    #: restarts of the job and its tasks, over all runs; None where an older version wrote it
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSegment:
    """``history/events/<run>-<k>-<first>.json``: some rows of the events."""

    #: number of the first row. Rows are numbered over all runs
    first: int
    rows: tuple[HistoryEvent, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSegment:
    """``history/checkpoints/<run>-<k>-<first>.json``: some rows of the checkpoints."""

    #: number of the first row
    first: int
    rows: tuple[CheckpointRecord, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSegment:
    """``history/rates/<run>-<k>-<first>.json``: some rows of the rates."""

    #: number of the first row
    first: int
    rows: tuple[RateSample, ...] = ()
    format: int = FORMAT_VERSION
