"""The documents of subtasks: batch records, drains and ends, and the frozen lists of sources."""

from __future__ import annotations

from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import BatchRecord, Drain, End, PreludeDocument
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_documents import JobDocuments


class BatchDocuments(JobDocuments):
    """The batches of a job's subtasks; a ``subtask_folder`` is what `layout.subtask` returns."""

    def frozen_files(self, source: str) -> FrozenFiles | None:
        """Return the frozen list of the bounded source `source`; None where it was not frozen yet."""
        return self.read(layout.frozen_files(layout.source(self.job, source)), FrozenFiles)

    def records(self, subtask_folder: str) -> list[int]:
        """Return the numbers of the recorded batches, ascending."""
        return self.numbers(layout.batches(subtask_folder))

    def record(self, subtask_folder: str, batch: int) -> BatchRecord | None:
        """Return the batch record of a batch; None where there is none."""
        return self.read(layout.batch(subtask_folder, batch), BatchRecord)

    def last_record(self, subtask_folder: str) -> BatchRecord | None:
        """Return the newest batch record, after which the subtask resumes; None where there is none."""

        def read(batch: int) -> BatchRecord | None:
            return self.record(subtask_folder, batch)

        return next(self.newest_first(layout.batches(subtask_folder), read), None)

    def end(self, subtask_folder: str) -> End | None:
        """Return the document of the subtask's end; None until it has finished its operator logic (EndOfData).

        One that batches follow does not count (`RunEnds`): the driver that recorded it had been taken for dead.
        """
        end = self.read(layout.end(subtask_folder), End)
        return None if end is None or max(self.records(subtask_folder), default=-1) > end.batch else end

    def drain(self, subtask_folder: str) -> Drain | None:
        """Return the document of the drain that has begun on the subtask; None where none has.

        One that a batch of a later run follows does not count (`RunEnds`).
        """
        drain = self.read(layout.drain(subtask_folder), Drain)
        last = self.last_record(subtask_folder) if drain is not None else None
        return None if drain is None or (last is not None and last.run > drain.run) else drain

    def prelude(self, subtask_folder: str) -> PreludeDocument | None:
        """Return the document of the batch that computes the subtask's history; None where there is none."""
        return self.read(read_layout.prelude(subtask_folder), PreludeDocument)
