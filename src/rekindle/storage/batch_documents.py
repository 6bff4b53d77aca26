"""What a subtask has stored: the records of its batches, its end, and the files that were dealt out to it."""

from __future__ import annotations

from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import BatchRecord, Drain, End, PreludeDocument
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_documents import JobDocuments


class BatchDocuments(JobDocuments):
    """The batches of a job's subtasks; a ``subtask_folder`` is what `layout.subtask` returns."""

    def frozen_files(self, source: str) -> FrozenFiles | None:
        """The frozen list of the bounded source `source`."""
        return self.read(layout.frozen_files(self.job, source), FrozenFiles)

    def records(self, subtask_folder: str) -> list[int]:
        """Numbers of the batches that have a record, ascending."""
        return self.numbers(layout.batches(subtask_folder))

    def record(self, subtask_folder: str, batch: int) -> BatchRecord | None:
        """The record of a batch."""
        return self.read(layout.batch(subtask_folder, batch), BatchRecord)

    def last_record(self, subtask_folder: str) -> BatchRecord | None:
        """The record of the highest batch: where the subtask durably stands."""

        def read(batch: int) -> BatchRecord | None:
            return self.record(subtask_folder, batch)

        return next(self.newest_first(layout.batches(subtask_folder), read), None)

    def end(self, subtask_folder: str) -> End | None:
        """Set once the subtask has finished its operator logic (EndOfData)."""
        return self.read(layout.end(subtask_folder), End)

    def drain(self, subtask_folder: str) -> Drain | None:
        """Set once a drain has begun on the subtask."""
        return self.read(layout.drain(subtask_folder), Drain)

    def prelude(self, subtask_folder: str) -> PreludeDocument | None:
        """Set once it is decided up to where the subtask's history is computed as a batch."""
        return self.read(read_layout.prelude(subtask_folder), PreludeDocument)
