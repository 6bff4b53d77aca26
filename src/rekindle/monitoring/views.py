"""A job as shown to those that watch it: plain data, which becomes JSON unchanged.

Times are milliseconds since the epoch, ages and durations milliseconds, shares 0 to 1. None is what is not known.
`docs/rest.md` describes the fields for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rekindle.storage.documents.history import HistoryEvent, RateSample, TaskRates
from rekindle.storage.documents.status import TaskStatusDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The last failure, or the one of which a run has failed."""

    code: str
    message: str
    next_step: str = ""
    #: None: the document does not say when
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageView:
    """A storage that is watched."""

    index: int
    location: str
    #: number of its jobs; None: it cannot be read
    jobs: int | None
    #: the reason for which it cannot be read; its jobs are in no list then
    error: ErrorView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    """A line of the list of jobs."""

    #: its name in addresses
    id: str
    job: str
    #: index of its storage
    storage: int
    #: random, of this very job: another of the same name has another
    identity: str = ""
    #: CREATED | RUNNING | STOPPING | FINISHED | STOPPED | DRAINED | CANCELED | FAILED, or LOST: its driver is dead and
    #: has recorded no result; or SILENT: its driver seems to run, but its heartbeat stands still; or UNREADABLE
    state: str = "CREATED"
    mode: str = "streaming"
    run: int | None = None
    host: str = ""
    pid: int = 0
    version: str = ""
    #: of the run in force
    started_ms: int | None = None
    ended_ms: int | None = None
    #: of the run in force, until now or until it ended
    uptime_ms: int | None = None
    heartbeat_ms: int | None = None
    #: None: the job has ended, or the run in force has no heartbeat yet
    heartbeat_age_ms: int | None = None
    latest_checkpoint: int | None = None
    latest_checkpoint_ms: int | None = None
    #: time at which that was last found to say all that another would; None: it was not
    latest_checkpoint_confirmed_ms: int | None = None
    #: since it was complete, or was last found to say all that another would
    checkpoint_age_ms: int | None = None
    latest_checkpoint_duration_ms: int | None = None
    #: of its state
    latest_checkpoint_bytes: int | None = None
    #: over all runs
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    #: the least of its tasks
    watermark_ms: int | None = None
    #: the greatest of its tasks
    lag_ms: int | None = None
    #: greatest share of a subtask
    busy: float | None = None
    back_pressured: float | None = None
    #: total over all runs, without the last rows read before a kill
    rows_in: int = 0
    #: totals over all runs
    rows_out: int | None = None
    batches: int = 0
    #: read of sources and given to sinks, a second, by the subtasks that tell
    rows_in_per_second: float | None = None
    rows_out_per_second: float | None = None
    rows_uncommitted: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    #: of this process, and over all runs
    restarts: int = 0
    restarts_total: int = 0
    next_attempt_ms: int | None = None
    #: status of a subtask → how many have it; of a job without a driver: how many had it, when it was last heard of
    subtasks: dict[str, int] = field(default_factory=dict)
    #: the error of which it has failed; else the last failure in this run
    error: ErrorView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskView:
    """A subtask: what the heartbeat shows, and how quick it was in the latest sample."""

    status: TaskStatusDocument
    rates: TaskRates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with its subtasks."""

    overview: JobOverview
    subtasks: tuple[SubtaskView, ...] = ()
    #: path of the savepoint that the run left, if it has ended with one
    savepoint: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexView:
    """A source, a task or a sink. Figures are those of all its subtasks."""

    #: <kind>:<uid>
    id: str
    #: source | task | sink
    kind: str
    uid: str
    #: kind of the source or of the sink, e.g. Files; output mode of a task; empty where it is not recorded
    type: str = ""
    #: the task that reads the source or feeds the sink; the task itself
    task: str = ""
    parallelism: int = 1
    bounded: bool | None = None
    event_time: str | None = None
    #: the delay that rows may have, as the user wrote it
    watermark: str | None = None
    #: of a task: the worst of its subtasks; of a source: running | idle | ended
    status: str | None = None
    #: share of a bounded source that has been read
    share: float | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    rows_in_per_second: float | None = None
    rows_out_per_second: float | None = None
    busy: float | None = None
    idle: float | None = None
    back_pressured: float | None = None
    batch: int | None = None
    batch_duration_ms: int | None = None
    watermark_ms: int | None = None
    lag_ms: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeView:
    """The way of rows from one vertex to another."""

    source: str
    target: str
    #: input: a task reads a source; channel: a task reads a task; output: a sink gets what a task writes
    kind: str
    rows_per_second: float | None = None
    #: of a channel: bytes that lie in it, and are not read
    unread_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """The vertices and edges of a job."""

    vertices: tuple[VertexView, ...] = ()
    edges: tuple[EdgeView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run of a job, the newest first."""

    run: int
    started_ms: int
    host: str
    pid: int
    lineage: int
    mode: str
    #: the state in which it ended; else the state of the job, of the newest run; else LOST: its driver was killed
    state: str
    ended_ms: int | None = None
    duration_ms: int | None = None
    restore_from: str | None = None
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    error: ErrorView | None = None
    #: False: it ended before it began
    began: bool = True
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """Something that happened, and its number, which only grows."""

    number: int
    event: HistoryEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesView:
    """Samples of how quick each subtask was, the oldest first."""

    samples: tuple[RateSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsView:
    """The settings in force in the newest run."""

    run: int | None = None
    version: str = ""
    #: key → value as a user would write it; empty where the run did not record it
    settings: dict[str, str] = field(default_factory=dict)
    #: key → what it is, of those that this version knows
    what: dict[str, str] = field(default_factory=dict)
