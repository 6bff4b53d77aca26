"""The document of a lineage: what a run, and those that resume it, continue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.protocol.enumerator import Ranges
from rekindle.storage.layout import FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """``lineages/<n>.json``: the folders of the tasks in this lineage are complete, and the job runs on them."""

    lineage: int
    #: run that opened the lineage
    run: int
    created_ms: int
    #: folder of the checkpoint or savepoint that it began with, absolute; None: it began with nothing
    restored_from: str | None = None
    #: number of that checkpoint
    restored_checkpoint: int | None = None
    #: time at which it was complete, ms since the epoch; None where an older version wrote it
    restored_ms: int | None = None
    #: newest checkpoint when the sinks went back to that one: what was committed with it, and with those in between,
    #: was taken back. None: the sinks did not go back
    rewound_from: int | None = None
    #: True: the job owns that savepoint, and deletes it when it has retained enough checkpoints of its own
    claimed: bool = False
    #: task uid → uids of its inputs, in order. A resume compares the job with it
    graph: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → its sources, itself and its sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → number of its subtasks, if that is not 1
    parallelism: dict[str, int] = field(default_factory=dict)
    #: task uid → bounded source → the part of its file list that is read in this lineage; all of it if not named
    unread: dict[str, dict[str, Ranges]] = field(default_factory=dict)
    #: task uid → custom source → its splits and positions at the beginning; empty in the first lineage
    operator_state: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    #: streaming | batch, the same for every run of the lineage
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def subtasks(self) -> list[SubtaskId]:
        """Return every subtask of the lineage, task by task."""
        return [SubtaskId(uid, index) for uid in self.graph for index in range(self.parallelism.get(uid, 1))]
