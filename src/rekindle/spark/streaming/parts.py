"""The parts of a subtask that runs as a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rekindle.channels.backlog import Backlog
from rekindle.graph.job_graph import Task
from rekindle.graph.queries import QueryDescription
from rekindle.ids import SubtaskId
from rekindle.progress.retention import SourceLogs
from rekindle.runtime.definition import RunContext
from rekindle.spark.inputs.catching_up import CatchingUp
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.outputs import Outputs, SubtaskPlace
from rekindle.spark.plans.leftovers import waits_for_the_clock
from rekindle.spark.prelude.prelude import Prelude
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.streaming.siblings import Siblings
from rekindle.storage.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The plan of a subtask, and what is known from it; without values, of a subtask that has ended."""

    frame: DataFrame | None = None
    inputs: Sequence[Input] = ()
    described: QueryDescription | None = None
    prelude: Prelude = field(default_factory=Prelude)
    lists_files: bool = False
    #: see `rekindle.spark.plans.plan.files_too_old_ms`
    files_too_old_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskParts:
    """The parts of one subtask."""

    task: Task
    place: SubtaskPlace
    #: the batch whose record the positions of `inputs` are of, -1 for none
    last: int
    #: the task's DataFrame, built from `inputs`; None for a subtask that has ended, which is never started
    frame: DataFrame | None
    inputs: Sequence[Input]
    #: the store in which its query reads the logs of its inboxes
    logs: Store
    outputs: Outputs
    #: of its own channels; None where no task reads it
    backlog: Backlog | None
    #: producer → the backlog of its channels
    read_from: Mapping[SubtaskId, Backlog]
    #: the subtasks of its task
    siblings: Siblings
    #: the batches that Spark has to keep of its query
    kept: KeptBatches
    #: the logs of its query's file sources
    source_logs: SourceLogs
    #: the rest that it has to read in a run of what is available now
    catching_up: CatchingUp = field(default_factory=CatchingUp)
    #: its history, where that is computed as a batch
    prelude: Prelude = field(default_factory=Prelude)
    #: Spark itself looks for the files of one of its inputs
    lists_files: bool = False
    #: the identity of its query
    described: QueryDescription | None = None

    def timers_at_ms(self, clock: Callable[[], int]) -> int | None:
        """Return the time now if its query has timers of processing time, which may be due."""
        return clock() if self.frame is not None and waits_for_the_clock(self.frame) else None

    def reads_no_more(self, run: RunContext) -> bool:
        """Return True if all that it reads has ended, or a drain of it has begun: nothing else is ever flushed."""
        if run.storage.drain(self.place.folder) is not None:
            return True
        channels = [item for item in self.inputs if item.is_channel]
        producers = [SubtaskId(item.uid, index) for item in channels for index in item.producers]
        sources_ended = all(item.ended for item in self.inputs if not item.is_channel)
        return sources_ended and all(run.ends.of(run.folder(one)) is not None for one in producers)
