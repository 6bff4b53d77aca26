"""The documents that a driver shows of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.storage.documents.runs import Result
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """A line of ``rekindle checkpoints``; those in progress and failed live in the status only."""

    id: int
    kind: str
    status: str
    triggered_at: int
    duration_ms: int | None = None
    acknowledged: tuple[int, int] = (0, 0)
    in_flight_bytes: int = 0
    size_bytes: int = 0
    path: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStatus:
    """An input as ``rekindle status`` shows it."""

    ended: bool = False
    position: Any = None
    #: share of a bounded input that has been read, 0 to 1
    share: float | None = None
    #: it has had no data for so long that it holds nothing back
    idle: bool = False
    rows_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last failure of a task, or of anything of the job: an error, as `errors` has it."""

    code: str
    message: str
    next_step: str
    failed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatusDocument:
    """A subtask as ``rekindle status`` shows it."""

    uid: str
    subtask: int
    status: str
    batch: int
    watermark: int | None = None
    inputs: dict[str, InputStatus] = field(default_factory=dict)
    #: rows it reads, as Spark's last report has it
    rows_per_second: float | None = None
    batch_duration_ms: int | None = None
    #: over all runs of the job, as Spark's reports count them, except the last ones before a driver was killed; None:
    #: there was none, as in a batch run
    rows_in: int | None = None
    #: those of them that it read of sources, and not of other tasks
    rows_of_sources: int | None = None
    #: over all runs of the job; None where neither a sink nor a channel of it counts rows
    rows_out: int | None = None
    #: over all runs of the job
    batches: int = 0
    #: of this run: time in batches, and time that batches waited because too much lay unread in its channels
    busy_ms: int = 0
    held_ms: int = 0
    #: time from the watermark to the clock; None: it has no watermark, or is at its end
    lag_ms: int | None = None
    #: shares of the last ten seconds, 0 to 1, which add up to 1; None: there was no second look yet
    busy: float | None = None
    back_pressured: float | None = None
    idle: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    #: task that reads it → bytes of its output which that has still to read
    unread_bytes: dict[str, int] = field(default_factory=dict)
    #: the last one of this run; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: number of times that this run has started it again, or is about to
    restarts: int = 0
    #: time at which it is started again; None: it does not wait for that
    next_attempt_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest figures of the history, for those that read the heartbeat alone, as a list of many jobs does."""

    #: of the newest completed checkpoint; None: there is none, or that is not known
    checkpoint_duration_ms: int | None = None
    checkpoint_bytes: int | None = None
    #: rows given to sinks a second; None where no sink counts rows
    rows_out_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``status.json``: the heartbeat of a driver."""

    job: str
    state: str
    run: int
    host: str
    pid: int
    #: counts up with each write: a reader on another machine compares two reads, never clocks
    beat: int
    written_ms: int
    #: milliseconds until the next one comes at the latest; None where an older version wrote it
    next_beat_ms: int | None = None
    tasks: tuple[TaskStatusDocument, ...] = ()
    #: over all runs of the job
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    latest_checkpoint: int | None = None
    latest_checkpoint_ms: int | None = None
    #: time at which that one was last found to say all that another would, so that none was taken; None: it was not
    latest_checkpoint_confirmed_ms: int | None = None
    #: newest first; in progress and failed ones among them
    history: tuple[CheckpointStats, ...] = ()
    #: tells the process from a later one with the same pid, see `storage.liveness`
    process_started: str = ""
    #: streaming | batch
    mode: str = "streaming"
    error: Json | None = None
    #: the last one in this process, whatever has failed; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: number of times that this process has started a task, all of them, or Spark again, or is about to
    restarts: int = 0
    #: time of the next attempt at something that failed; None: nothing waits for one
    next_attempt_ms: int | None = None
    #: time at which the run began; None where an older version wrote it
    started_ms: int | None = None
    #: rows read of sources, over all runs of the job
    rows_in: int | None = None
    #: rows given to sinks, over all runs of the job; None where no sink counts rows
    rows_out: int | None = None
    #: those of them that no checkpoint has committed yet
    rows_uncommitted: int | None = None
    #: over all runs of the job
    batches: int = 0
    restarts_total: int = 0
    #: None where an older version wrote it: the history has these figures
    newest: Newest | None = None
    #: result of the run, for a list of many jobs; None: it has not ended, or its driver died before it said so here,
    #: or an older version wrote it, or another run has been about to begin since
    result: Result | None = None
    #: of Rekindle
    version: str = ""
    format: int = FORMAT_VERSION
