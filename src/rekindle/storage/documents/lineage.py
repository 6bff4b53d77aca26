"""The document of a lineage: what a run, and those that resume it, continue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.protocol.enumerator import Ranges
from rekindle.storage.layout import FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """``lineages/<n>.json``: once it exists, the tasks' folders of this lineage are whole, and the job runs on them."""

    lineage: int
    run: int
    created_ms: int
    #: checkpoint or savepoint folder it was restored from, absolute; None for a first start
    restored_from: str | None = None
    #: id of that checkpoint, where it belongs to this very job
    restored_checkpoint: int | None = None
    #: the job owns that savepoint, and deletes it once it has as many checkpoints as it retains
    claimed: bool = False
    #: task uid → uids of its inputs, in order: what a resume checks the job against
    graph: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → its operators: sources, the task itself, sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → number of its subtasks, where that is not 1
    parallelism: dict[str, int] = field(default_factory=dict)
    #: task uid → bounded source → the part of its frozen list to read in this lineage; all of it where not named
    unread: dict[str, dict[str, Ranges]] = field(default_factory=dict)
    #: task uid → custom source → the operator state that it begins with; none in a first lineage
    operator_state: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    #: streaming | batch: every run of the lineage has the same
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def subtasks(self) -> list[SubtaskId]:
        """Return every subtask of the lineage, task by task."""
        return [SubtaskId(uid, index) for uid in self.graph for index in range(self.parallelism.get(uid, 1))]
