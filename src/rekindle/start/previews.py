"""The preview of a start as plain data; `rekindle.start.preview` makes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Beginning = Literal["begins", "resumes", "restores", "has ended"]
"""The beginning of a job: from nothing, in place, from a checkpoint or savepoint, or not at all."""

Fate = Literal["begins", "resumes", "finished", "dropped"]
"""The fate of a task, a source or a sink in a start: `finished` is not started again, `dropped` is no longer in the
job, and the state of such a task is not taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChangePreview:
    """One difference between a query and the query that left the state."""

    #: e.g. ``the delay of a watermark, or its column``
    what: str
    before: str
    now: str
    #: consequence for the rows
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPreview:
    """The preview of one task in a start."""

    uid: str
    fate: Fate
    #: number of its subtasks now; of a dropped task, before
    subtasks: int
    #: last batch to resume after, the highest of several subtasks; None: none, or its input is shared out again
    batch: int | None = None
    #: number of subtasks that have finished
    finished: int = 0
    #: changes of its query that Spark accepts, and that alter the output
    query: tuple[QueryChangePreview, ...] = ()
    #: error with which its query would be refused, as `RekindleError.to_json`; None: it would not
    refused: dict[str, Any] | None = None
    #: way in which it computes its history, "batch" or "stream"; None: it does not begin with a history and a live
    #: stream, or ``backlog.mode`` is "stream"
    history: str | None = None
    #: reason why that is a stream, although ``backlog.mode`` allows a batch; None: it is no stream
    history_streams: str | None = None
    #: reason why its query was not examined; None: it was
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePreview:
    """The preview of one source in a start."""

    uid: str
    #: kind of the source; empty: it is dropped
    kind: str = ""
    fate: Fate = "begins"
    #: tasks that read it
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPreview:
    """The preview of one sink in a start."""

    uid: str
    #: kind of the sink; empty: it is dropped
    kind: str = ""
    fate: Fate = "begins"
    #: True if rows that were prepared before are committed first
    has_prepared: bool = False
    #: error with which a start would be refused because of its target, or the first batch end the job, as
    #: `RekindleError.to_json`; None: none was found
    refused: dict[str, Any] | None = None
    #: reason why its target was not examined; None: it was
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """One difference between the job and its last run."""

    #: e.g. ``source live: watermark``
    what: str
    #: value before; None: it was not there
    before: str | None
    #: value now; None: it is not there any more
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """A change of the job's tasks, channels or sinks, and its consequence."""

    #: uid of the task or sink, or name of the job
    uid: str
    #: e.g. ``was read``
    what: str
    #: consequence for state, positions and rows
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPreview:
    """The commits that would be taken back from a sink."""

    sink: str
    kind: str
    #: numbers of the checkpoints that committed them, ascending
    checkpoints: tuple[int, ...]
    #: number of rows, as far as the sink counts them
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPreview:
    """The preview of `Job.start`; see `Job.check`."""

    job: str
    beginning: Beginning
    #: run that is active now: a start is refused until it has ended; None: there is none
    running: int | None
    #: absolute path of the checkpoint or savepoint that a restore reads; None: it is no restore
    path: str | None
    #: number of that checkpoint; in place, of the newest one; None: there is none
    checkpoint: int | None
    tasks: tuple[TaskPreview, ...]
    sinks: tuple[SinkPreview, ...]
    #: differences from the last run; empty if there was none, or if an older version ran it
    changes: tuple[JobChange, ...]
    #: differences from the lineage or checkpoint that the start resumes from, by the table of docs/change.md
    graph: tuple[GraphChange, ...] = ()
    #: later commits of sinks that would be taken back
    rewinds: tuple[RewindPreview, ...] = ()
    sources: tuple[SourcePreview, ...] = ()
    #: reason why the queries were not examined; None: they were
    unseen: str | None = None

    @property
    def refused(self) -> bool:
        """Return True if the start would be refused because of a query or a target, or the job end with a batch."""
        refused = [*(task.refused for task in self.tasks), *(sink.refused for sink in self.sinks)]
        return any(error is not None for error in refused)

    def to_json(self) -> dict[str, Any]:
        """Return the preview as plain data."""
        return asdict(self)
