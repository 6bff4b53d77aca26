"""The documents that a driver shows of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.storage.documents.runs import Result
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]

CREATED = "CREATED"
"""State of a job that no driver has started yet."""

RUNNING = "RUNNING"
"""State of a job whose driver seems to be alive; its heartbeat says more."""

LOST = "LOST"
"""State of a job whose driver is gone without having written a result: killed, or its machine died."""

AT_WORK = (RUNNING, "STOPPING")
"""States of a job whose figures are those of now."""


def shown_status(task: TaskStatusDocument, job_state: str) -> str:
    """Return ``running``; ``was running`` where the job has ended, or its driver is gone, while the task was."""
    is_now = job_state in (CREATED, *AT_WORK) or task.status == "closed"
    return task.status if is_now else f"was {task.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """A checkpoint as the heartbeat shows it. The history has the same and more, once it is completed or has failed."""

    id: int
    kind: str
    #: in_progress | completed | failed
    status: str
    triggered_at: int
    duration_ms: int | None = None
    #: subtasks that have acknowledged it, of how many
    acknowledged: tuple[int, int] = (0, 0)
    in_flight_bytes: int = 0
    size_bytes: int = 0
    path: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStatus:
    """An input as ``rekindle status`` shows it."""

    ended: bool = False
    #: position in it, as the source counts
    position: Any = None
    #: share of a bounded input that was read, 0 to 1
    share: float | None = None
    #: True: it has had no rows for so long that it no longer holds back the watermark
    idle: bool = False
    rows_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last failure of a task or of the job."""

    code: str
    message: str
    next_step: str
    failed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatusDocument:
    """A subtask as ``rekindle status`` shows it."""

    #: uid of the task
    uid: str
    #: number of the subtask
    subtask: int
    #: starting | running | suspending | finishing | waiting_for_final_checkpoint | closing | closed | restarting
    status: str
    #: number of the last batch; -1: none
    batch: int
    #: watermark of the query, ms
    watermark: int | None = None
    #: input → how far it was read
    inputs: dict[str, InputStatus] = field(default_factory=dict)
    #: rows that it reads a second, by Spark's last report
    rows_per_second: float | None = None
    #: duration of the last batch
    batch_duration_ms: int | None = None
    #: rows read over all runs, by Spark's reports, without the last ones before a kill; None: no reports, as in a batch
    #: run
    rows_in: int | None = None
    #: rows of these that come from sources, not from other tasks
    rows_of_sources: int | None = None
    #: rows written over all runs; None: no sink or channel of it counts rows
    rows_out: int | None = None
    #: over all runs of the job
    batches: int = 0
    #: time in batches, in this run
    busy_ms: int = 0
    #: time that batches waited because too much was unread in its channels, in this run
    held_ms: int = 0
    #: time that the batch under way has taken so far; None: none is under way, or an older version wrote it
    batch_so_far_ms: int | None = None
    #: time that a look for rows has taken since it was noticed, as of a source that does not answer; None: none was
    look_so_far_ms: int | None = None
    #: milliseconds by which the watermark is behind the clock; None: it has no watermark, or has reached its end
    lag_ms: int | None = None
    #: share of the last ten seconds, 0 to 1. The three shares add up to 1; None: not known yet
    busy: float | None = None
    #: share of the time in which batches waited
    back_pressured: float | None = None
    #: the rest
    idle: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    #: task that reads it → bytes of its output that this task still has to read
    unread_bytes: dict[str, int] = field(default_factory=dict)
    #: last failure in this run; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: restarts in this run; the next one counts when it is decided
    restarts: int = 0
    #: time of the next restart; None: none is planned
    next_attempt_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest figures of the history, so that a list of many jobs reads the heartbeats alone."""

    #: duration of the last completed checkpoint; None: there is none, or it is not known
    checkpoint_duration_ms: int | None = None
    #: size of the state in it
    checkpoint_bytes: int | None = None
    #: rows given to sinks a second; None: no sink counts rows
    rows_out_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``status.json``: the heartbeat of a driver."""

    job: str
    #: CREATED | RUNNING | STOPPING, or how the run ended
    state: str
    run: int
    host: str
    pid: int
    #: grows with each write. A reader on another machine compares two reads, not clocks
    beat: int
    written_ms: int
    #: longest time until the next write, in milliseconds; None where an older version wrote it
    next_beat_ms: int | None = None
    #: the subtasks
    tasks: tuple[TaskStatusDocument, ...] = ()
    #: over all runs of the job
    checkpoints_completed: int = 0
    #: over all runs of the job
    checkpoints_failed: int = 0
    #: number of the last completed checkpoint
    latest_checkpoint: int | None = None
    #: time at which it was complete
    latest_checkpoint_ms: int | None = None
    #: time at which nothing had changed since, and no batch was under way, so that no other was taken; None: that has
    #: not happened
    latest_checkpoint_confirmed_ms: int | None = None
    #: the newest checkpoints, newest first, with those in progress and failed
    history: tuple[CheckpointStats, ...] = ()
    #: start of the process, which tells it from a later process with the same pid (`storage.liveness`)
    process_started: str = ""
    #: streaming | batch
    mode: str = "streaming"
    error: Json | None = None
    #: last failure in this process; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: restarts by this process, of a task, of all tasks or of Spark; the next one counts when it is decided
    restarts: int = 0
    #: time of the next attempt at something that failed; None: none is planned
    next_attempt_ms: int | None = None
    #: time at which the run began; None where an older version wrote it
    started_ms: int | None = None
    #: rows read from sources, over all runs of the job, without the last ones before a kill
    rows_in: int | None = None
    #: rows given to sinks, over all runs of the job; None: no sink counts rows
    rows_out: int | None = None
    #: rows given to sinks that no checkpoint has committed yet
    rows_uncommitted: int | None = None
    #: over all runs of the job
    batches: int = 0
    #: restarts over all runs of the job
    restarts_total: int = 0
    #: newest figures of the history; None where an older version wrote it
    newest: Newest | None = None
    #: result of the run, so that a list of many jobs reads the heartbeats alone; None: the run has not ended, the
    #: driver died before it wrote this, an older version wrote it, or another run was about to begin
    result: Result | None = None
    #: version of Rekindle
    version: str = ""
    #: id of the job, so that a list of many jobs need not read it; empty where an older version wrote it
    identity: str = ""
    format: int = FORMAT_VERSION
