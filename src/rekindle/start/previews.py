"""What a start would do, as plain data; `rekindle.start.preview` finds it out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Beginning = Literal["begins", "resumes", "restores", "has ended"]
"""What a start does with the job: from nothing, in place, from a checkpoint or savepoint, or nothing at all."""

Fate = Literal["begins", "resumes", "finished", "dropped"]
"""What it does with a task, a source or a sink: `finished` is not started again, of a task that is `dropped` the state
is not taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChangePreview:
    """Something of a query that is not as its state knows it."""

    #: e.g. ``the delay of a watermark, or its column``
    what: str
    before: str
    now: str
    #: what becomes of the rows
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPreview:
    """What a start would do with a task."""

    uid: str
    fate: Fate
    #: how many it has now; of a task that is dropped, how many it had
    subtasks: int
    #: its last batch that counts, of several subtasks the highest; None: none, or they are dealt out again
    batch: int | None = None
    #: how many subtasks have finished
    finished: int = 0
    #: what of its query is another, Spark accepts, and alters what comes out
    query: tuple[QueryChangePreview, ...] = ()
    #: why the start would be refused because of its query, as `RekindleError.to_json`
    refused: dict[str, Any] | None = None
    #: how it takes the history that it begins with, "batch" or "stream"; None: it does not begin with one and a live
    #: stream, or ``backlog.mode`` asks for no batch
    history: str | None = None
    #: why that is a stream, although ``backlog.mode`` asks for a batch
    history_streams: str | None = None
    #: why its query was not looked at; None: it was
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePreview:
    """What a start would do with a source."""

    uid: str
    #: empty where it is dropped
    kind: str = ""
    fate: Fate = "begins"
    #: those that read it
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPreview:
    """What a start would do with a sink."""

    uid: str
    #: empty where it is dropped
    kind: str = ""
    fate: Fate = "begins"
    #: whether rows that were prepared before are committed first
    has_prepared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """Something that is not as it was in the last run."""

    #: e.g. ``source live: watermark``
    what: str
    #: None: it was not there
    before: str | None
    #: None: it is not there any more
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """A change of the job's tasks, channels or sinks, and what becomes of it."""

    #: of the task or sink, or the name of the job
    uid: str
    #: e.g. ``was read``
    what: str
    #: what a start makes of it
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPreview:
    """What would be taken back from a sink."""

    sink: str
    kind: str
    #: of the checkpoints whose commits they are, ascending
    checkpoints: tuple[int, ...]
    #: as far as the sink counts them
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPreview:
    """What `Job.start` would do now; see `Job.check`."""

    job: str
    beginning: Beginning
    #: the run that is at work now, which refuses a start until it has ended
    running: int | None
    #: checkpoint or savepoint that a restore reads, absolute
    path: str | None
    #: its number; in place, the newest there is
    checkpoint: int | None
    tasks: tuple[TaskPreview, ...]
    sinks: tuple[SinkPreview, ...]
    #: against the last run; empty where there was none, or where an older version ran it
    changes: tuple[JobChange, ...]
    #: against what the start resumes from, by the table of docs/change.md
    graph: tuple[GraphChange, ...] = ()
    #: what sinks have committed since and would be taken back
    rewinds: tuple[RewindPreview, ...] = ()
    sources: tuple[SourcePreview, ...] = ()
    #: why the queries were not looked at; None: they were
    unseen: str | None = None

    @property
    def refused(self) -> bool:
        """Return True if the start would be refused because of a query."""
        return any(task.refused is not None for task in self.tasks)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)
