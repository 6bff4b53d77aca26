"""Checkpoints and savepoints as shown to those that watch a job: plain data, as in `views`."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.storage.documents.history import CheckpointRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCounts:
    """The numbers of checkpoints; of completed and failed ones over all runs."""

    triggered: int
    in_progress: int
    completed: int
    failed: int
    #: runs that began from a checkpoint or savepoint by name
    restored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint without its subtasks."""

    id: int
    run: int
    #: periodic | manual | final | stop | savepoint
    kind: str
    #: in_progress | completed | failed
    status: str
    triggered_ms: int
    completed_ms: int | None = None
    duration_ms: int | None = None
    #: time at which the last subtask had acknowledged it
    latest_ack_ms: int | None = None
    #: subtasks that have acknowledged it, finished ones among them, of so many
    acknowledged: int = 0
    subtasks: int = 0
    state_bytes: int | None = None
    in_flight_bytes: int = 0
    commit_ms: int | None = None
    #: at least one subtask did not wait for what was in its channels
    unaligned: bool = False
    path: str | None = None
    #: it is still in the storage
    kept: bool = False
    failure: str | None = None
    failed_ms: int | None = None
    savepoint: str | None = None
    savepoint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A run that began from a checkpoint or savepoint by name."""

    run: int
    restored_ms: int
    path: str
    #: None: it was a savepoint, or another job's
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsView:
    """The tabs Overview and History: the newest checkpoints first."""

    counts: CheckpointCounts
    latest_completed: CheckpointRow | None = None
    latest_failed: CheckpointRow | None = None
    latest_savepoint: CheckpointRow | None = None
    latest_restored: Restored | None = None
    history: tuple[CheckpointRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """A checkpoint with its subtasks."""

    overview: CheckpointRow
    record: CheckpointRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """The tab Configuration; None where the run did not record its settings."""

    #: every row is committed exactly once, where the sink can do that
    guarantee: str = "exactly_once"
    #: unaligned | aligned
    mode: str | None = None
    #: 0: no periodic checkpoints
    interval_ms: int | None = None
    timeout_ms: int | None = None
    min_pause_ms: int | None = None
    max_concurrent: int | None = None
    #: 0: aligned ones stay aligned
    aligned_timeout_ms: int | None = None
    retained: int | None = None
    tolerable_failures: int | None = None
    after_tasks_finish: bool | None = None
    storage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointView:
    """A savepoint that the history knows."""

    #: the checkpoint it was made of
    checkpoint: int
    run: int
    #: savepoint | stop
    kind: str
    completed_ms: int | None
    path: str
    size_bytes: int | None = None
    duration_ms: int | None = None
