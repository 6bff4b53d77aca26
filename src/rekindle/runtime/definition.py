"""A user's definition of a job, and the context of one run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.config import Config
from rekindle.graph import job_graph
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.elapsed import Clock, Elapsed, system_clock
from rekindle.runtime.pauses import USUAL, Pauses
from rekindle.runtime.steps import Steps
from rekindle.sinks import TwoPhaseSink
from rekindle.sources import Source
from rekindle.storage import layout
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_ends import RunEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A source as the user defined it."""

    source: job_graph.Source
    spec: Source
    #: handling of rows before 1970: "fail" or "drop"
    late: str = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A job as its user defined it."""

    graph: JobGraph
    sources: Mapping[str, SourceSpec]
    #: task → function that makes its DataFrame from those of its inputs
    functions: Mapping[str, Callable[..., Any]]
    sinks: Mapping[str, TwoPhaseSink]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """A run that has been claimed, and whose subtasks are to be assembled."""

    storage: JobStorage
    run: Run
    #: the name by which sinks know the job
    owner: str
    #: graph of the definition, changed if the mode needs another
    graph: JobGraph
    definition: Definition
    #: source uid → its frozen list of files; None for a `Stream`
    frozen: Mapping[str, FrozenFiles | None]
    config: Config
    steps: Steps
    ends: RunEnds
    #: True if a file of a list may have been replaced since
    changed_files: bool = False
    #: posts an event to the driver, from any thread
    post: Callable[[e.Event], None]
    clock: Clock = system_clock
    #: time that its intervals and time-outs are measured by
    elapsed: Elapsed = field(default_factory=Elapsed)
    pauses: Pauses = USUAL

    def folder(self, subtask: SubtaskId) -> str:
        """Return the folder of a subtask in the storage."""
        return layout.subtask(self.storage.job, subtask.task, subtask.subtask, self.run.lineage)

    def sinks(self, task: Task) -> dict[str, TwoPhaseSink]:
        """Return the sinks of a task."""
        return {sink.uid: self.definition.sinks[sink.uid] for sink in self.graph.sinks_of(task)}
