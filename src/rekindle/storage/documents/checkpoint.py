"""The documents of a checkpoint: what it consists of, and that its rows are committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.graph.queries import QueryDescription
from rekindle.protocol.enumerator import Ranges
from rekindle.storage.documents.batch import End, InputPosition
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskSnapshot:
    """A subtask's share of a checkpoint."""

    #: last batch that belongs to the checkpoint; -1: none
    batch: int
    #: input → its position
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    #: watermark of the query
    watermark_ms: int | None = None
    #: end of the subtask; None: it has not ended
    end: End | None = None
    #: producing task → its subtask → batches [from, to) that are in the channel between the position and the barrier
    #: (FLIP-76)
    in_flight: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    #: bytes in its channels that it still had to read; None where an older version wrote it
    in_flight_bytes: int | None = None
    #: the query, as far as its state depends on it; None in a batch run, and where an older version wrote it
    windows: QueryDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The outputs that one batch has prepared for one sink."""

    task: str
    subtask: int
    batch: int
    #: values that `commit` is given
    committables: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: the commit point of a checkpoint, or the table of contents of a savepoint."""

    #: number of the checkpoint
    checkpoint: int
    job: str
    #: periodic | manual | final | stop | savepoint
    kind: str
    run: int
    lineage: int
    triggered_ms: int
    completed_ms: int
    #: task uid → uids of its inputs, in order. A restore compares the job with it
    graph: dict[str, list[str]]
    #: task uid → number of the subtask → its share
    tasks: dict[str, dict[int, SubtaskSnapshot]]
    #: task uid → bounded source → the part of its file list that no subtask had read
    unread: dict[str, dict[str, Ranges]] = field(default_factory=dict)
    #: task uid → custom source → its splits, and how far each was read
    operator_state: dict[str, dict[str, Json]] = field(default_factory=dict)
    #: tasks of which all subtasks have finished. A restore does not start them (FLIP-147)
    finished_tasks: tuple[str, ...] = ()
    #: task uid → its sources, itself and its sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: source uid → name of its class; empty where an older version wrote it
    source_kinds: dict[str, str] = field(default_factory=dict)
    #: sources that end; empty where an older version wrote it
    bounded_sources: tuple[str, ...] = ()
    #: sink uid → what it commits because this manifest exists; empty in a savepoint
    transactions: dict[str, list[Transaction]] = field(default_factory=dict)
    #: bytes in the channels that the checkpoint names
    in_flight_bytes: int = 0
    #: bytes of a savepoint's files; 0 for a checkpoint, which copies nothing
    size_bytes: int = 0
    #: True: the folder is a copy that is complete by itself
    savepoint: bool = False
    #: True: the job was drained, so windows were emitted before their time
    drained: bool = False
    #: id of the job that took it: the numbers of different jobs cannot be compared
    job_id: str = ""
    #: sink uid → the newest checkpoint of that job, up to this one, in which the sink had something to commit
    last_commits: dict[str, int] = field(default_factory=dict)
    #: streaming | batch: of the run that took it
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def needs_no_state(self, task: str) -> bool:
        """Return whether nothing starts a task again: all of it has finished, not by a drain, which can be undone."""
        subtasks = self.tasks[task].values()
        return all(one.end is not None and not one.end.drained for one in subtasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """``manifest.json`` of a number that no checkpoint may use: a driver that tries finds it taken."""

    checkpoint: int
    #: run that has used up the number
    run: int
    void: bool = True
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``committed.json``: all transactions of a checkpoint are committed. A restart does not commit them again."""

    checkpoint: int
    run: int
    committed_ms: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """``rewound.json``: the sinks took back this checkpoint's rows; ``rewinding.json``: some may have done that."""

    checkpoint: int
    #: run that takes them back
    run: int
    #: checkpoint that the sinks go back to
    to: int
    rewound_ms: int
    format: int = FORMAT_VERSION
