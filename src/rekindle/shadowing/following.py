"""Read the checkpoints of a job as they come, before the job deletes them. The job notices nothing of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.errors import ControlError
from rekindle.progress.file_streams import read_file_stream
from rekindle.runtime.leftovers import rewound
from rekindle.shadowing.standing import FileLog, JobStanding, in_one_line, once
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Committed, Manifest
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.renaming import renamed_manifest


@dataclass(slots=True, kw_only=True)
class Following:
    """The checkpoints of one job after a number."""

    storage: CheckpointDocuments
    #: number of the last one seen, or given up
    last: int
    #: a checkpoint that was deleted before it was read; None: none was
    lost: int | None = None
    manifests: list[Manifest] = field(default_factory=list)

    def look(self) -> None:
        """Read what is new."""
        for number in self.storage.numbers_used():
            if number <= self.last:
                continue
            manifest = self.storage.manifest(number)
            folder = layout.checkpoint(self.storage.job, number)
            if manifest is None and not self.storage.store.exists(layout.manifest(folder)):
                continue  # it is just being made; or was just deleted, and the next number shows the gap
            if number != self.last + 1 and self.lost is None:
                self.lost = self.last + 1
            self.last = number
            if manifest is not None:
                self.manifests.append(manifest)

    def committed(self) -> list[Manifest]:
        """Return those whose rows are in the sinks: before a checkpoint completes, the one before it has committed."""
        if not self.manifests:
            return []
        newest = layout.checkpoint(self.storage.job, self.manifests[-1].checkpoint)
        done = self.storage.read(layout.committed(newest), Committed) is not None
        found = once(self.manifests)
        return found if done else found[:-1]

    def whole(self) -> list[Manifest]:
        """Return those whose rows are in the sinks, all of them.

        Raises:
            ControlError: ``SHADOW_ORIGINAL_UNKNOWN``.
        """
        if self.lost is not None:
            raise self._unknown(f"checkpoint {self.lost} was deleted before it was read")
        return self.committed()

    def line(self, since: Manifest) -> list[Manifest]:
        """Return those of them that continue a cut.

        Raises:
            ControlError: ``SHADOW_ORIGINAL_UNKNOWN``, it cannot be said what was committed since.
        """
        found = self.whole()
        restored = {number: self._restored(number) for number in {one.lineage for one in found}}
        gone_back = {one.checkpoint for one in found if rewound(self.storage, one.checkpoint) is not None}
        line = in_one_line(found, since=since, restored=restored, rewound=gone_back)
        if isinstance(line, int):
            raise self._unknown(f"before checkpoint {line} it was started from another place than where it stood")
        return line

    def _unknown(self, reason: str) -> ControlError:
        return ControlError("SHADOW_ORIGINAL_UNKNOWN", job=self.storage.job, reason=reason)

    def _restored(self, lineage: int) -> int | None:
        document = self.storage.read(layout.lineage(self.storage.job, lineage), Lineage)
        return document.restored_checkpoint if document is not None else None


def standings(storage: CheckpointDocuments, line: Collection[Manifest], names: Mapping[str, str]) -> list[JobStanding]:
    """Return where a job stood at each of these checkpoints.

    Args:
        names: uid that a task has there → uid that it has in the other job.
    """
    read: dict[tuple[str, int, int], FileLog | None] = {}

    def log(task: str, lineage: int, source: int) -> FileLog | None:
        key = (task, lineage, source)
        if key not in read:
            folder = layout.spark_progress_dir(layout.subtask(storage.job, task, 0, lineage))
            read[key] = read_file_stream(storage.store, f"{folder}/sources/{source}")
        return read[key]

    made = []
    for manifest in line:
        logs = {
            (names.get(task, task), source): found
            for task, source in _streams(manifest)
            if (found := log(task, manifest.lineage, source)) is not None
        }
        made.append(JobStanding(manifest=renamed_manifest(manifest, names), logs=logs))
    return made


def _streams(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield tasks, and the numbers of the sources that Spark reads itself for them."""
    for task, subtasks in manifest.tasks.items():
        for snapshot in subtasks.values():
            for position in snapshot.inputs.values():
                if position.offset is not None:
                    yield from ((task, source) for source in position.sources)
