"""The durable world of a simulated job: what would lie in its storage and its sinks, in memory.

Everything in here survives a crash of the driver, nothing else does. Each write is one step, so that a crash may fall
between any two. The world knows no protocol: it does what it is ordered and keeps a history of it, which
`rekindle.testing.invariants` judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.testing.simulated_facts import BatchCommitted, ManifestCreated
from rekindle.testing.simulated_files import SimulatedManifest, TaskFiles
from rekindle.testing.simulated_folder import CheckpointFolder
from rekindle.testing.simulated_outputs import SimulatedOutputs

Entry = tuple[int, object]
"""Number of the run, and an event it heard, a command it gave, or a fact."""


@dataclass(slots=True)
class World:
    """Everything durable, and the history of how it came about."""

    graph: JobGraph
    tasks: dict[SubtaskId, TaskFiles]
    #: producer → consuming task → the consumers that its rows are dealt out to
    consumers: Mapping[SubtaskId, Mapping[str, tuple[SubtaskId, ...]]]
    checkpoints: CheckpointFolder = field(default_factory=CheckpointFolder)
    outputs: SimulatedOutputs = field(default_factory=SimulatedOutputs)
    results: dict[int, c.RecordResult] = field(default_factory=dict)
    run: int = 0
    history: list[Entry] = field(default_factory=list)

    def note(self, run: int, thing: object) -> None:
        """Write something into the history."""
        self.history.append((run, thing))

    def create_manifest(self, number: int, manifest: SimulatedManifest) -> None:
        """Make a checkpoint complete."""
        self.checkpoints.create(number, manifest)
        self.note(manifest.run, ManifestCreated(number))

    def commit(self, run: int, number: int, task: SubtaskId, batch: int) -> None:
        """Show a batch in the sink; again is harmless."""
        records = self.tasks[task].records
        record = records[batch] if batch < len(records) else None
        named = (number, task, batch) in self.checkpoints.named and record is not None
        self.note(run, BatchCommitted(number, task, batch, named))
        self.outputs.show(task, batch, record)

    def forked(self, number: int) -> World:
        """Return another world that continues a checkpoint of this one, its sink showing what that one has committed.

        What has finished for good has no query there: Spark has committed nothing of it.
        """
        manifest = self.checkpoints.manifests[number]
        snapshots = manifest.snapshots
        tasks = {
            task: TaskFiles(
                files.sources,
                files.producers,
                files.records[: snapshots[task].batch + 1],
                -1 if manifest.needs_no_state(task.task) else snapshots[task].batch,
                snapshots[task].end,
            )
            for task, files in self.tasks.items()
        }
        folder, outputs = CheckpointFolder(opened_from=number), SimulatedOutputs(table_upto=number)
        fork = World(self.graph, tasks, self.consumers, folder, outputs)
        fork.create_manifest(number, manifest)
        for task, files in tasks.items():
            for batch, record in enumerate(files.records):
                outputs.show(task, batch, record)
                outputs.table.update(record.rows)
        return fork
