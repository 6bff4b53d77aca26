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

    #: last batch that belongs to the checkpoint, -1 for none
    batch: int
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    watermark_ms: int | None = None
    #: set once the subtask has finished its operator logic
    end: End | None = None
    #: producing task → its subtask → batches [from, to) of that which lie in the channel between what was read and the
    #: barrier (FLIP-76)
    in_flight: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    #: bytes that lay in its channels and that it had still to read; None where an older version wrote it
    in_flight_bytes: int | None = None
    #: description of its query, for the meaning of its state; None where an older version wrote it, or in a batch run
    windows: QueryDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The outputs that one batch prepared for one sink."""

    task: str
    subtask: int
    batch: int
    committables: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: the commit point of a checkpoint, or a savepoint's table of contents."""

    checkpoint: int
    job: str
    #: periodic | manual | final | stop | savepoint
    kind: str
    run: int
    lineage: int
    triggered_ms: int
    completed_ms: int
    #: task uid → its uids of inputs, in order: what a restore checks the job against
    graph: dict[str, list[str]]
    #: task uid → subtask index → snapshot
    tasks: dict[str, dict[int, SubtaskSnapshot]]
    #: task uid → bounded source → what no subtask had read of its frozen list: the enumerators' state
    unread: dict[str, dict[str, Ranges]] = field(default_factory=dict)
    #: task uid → custom source → its operator state (`OperatorState.to_json`): the splits, and how far each was read
    operator_state: dict[str, dict[str, Json]] = field(default_factory=dict)
    #: task uids all of whose subtasks have finished (FLIP-147: "fully finished", not started on restore)
    finished_tasks: tuple[str, ...] = ()
    #: task uid → its operators: sources, the task itself, sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: source uid → its kind; empty where an older version wrote it
    source_kinds: dict[str, str] = field(default_factory=dict)
    #: sink uid → transactions to commit now that this manifest exists; empty in a savepoint
    transactions: dict[str, list[Transaction]] = field(default_factory=dict)
    in_flight_bytes: int = 0
    #: bytes of a savepoint's files; 0 for a checkpoint, which only names what lies in place
    size_bytes: int = 0
    #: True for a self-contained copy
    savepoint: bool = False
    #: the job was drained: windows were emitted before their time
    drained: bool = False
    #: id of the job (`Identity.id`) that took it: checkpoint numbers of different jobs cannot be compared
    job_id: str = ""
    #: sink uid → the newest checkpoint of that job, up to this one, that gave the sink something to commit
    last_commits: dict[str, int] = field(default_factory=dict)
    #: of the run that took it: streaming | batch
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def needs_no_state(self, task: str) -> bool:
        """Return whether nothing starts a task again: all of it has finished, not by a drain, which can be undone."""
        subtasks = self.tasks[task].values()
        return all(one.end is not None and not one.end.drained for one in subtasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """``manifest.json`` of a number that no checkpoint may have: a driver that tries to use it finds it taken."""

    checkpoint: int
    #: that used it up
    run: int
    void: bool = True
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``committed.json``: all transactions of a checkpoint are committed, so recovery need not repeat that."""

    checkpoint: int
    run: int
    committed_ms: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """``rewound.json``: what the checkpoint has committed was taken back from the sinks, so nothing starts from it."""

    checkpoint: int
    #: that took it back
    run: int
    #: the checkpoint that the sinks went back to
    to: int
    rewound_ms: int
    format: int = FORMAT_VERSION
