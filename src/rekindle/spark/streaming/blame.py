"""Find the input that a failure of a subtask's query is of, and make the error that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame

from rekindle.errors import JobError, RekindleError
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.session.failures import brief, is_same_file, task_failed, translate
from rekindle.spark.inputs.input import Input
from rekindle.spark.plans.static_tables import has_static_file
from rekindle.spark.query.refused import misuse
from rekindle.spark.streaming.batch_protocol import BatchProtocol
from rekindle.storage.documents.batch import BatchRecord


class Blame:
    """An explainer of what the query of one subtask has died of.

    Args:
        frame: the plan of the query; None where it is never started.
        inputs: those of the query.
        protocol: of its batches.
    """

    def __init__(
        self, subtask: SubtaskId, frame: DataFrame | None, inputs: Sequence[Input], protocol: BatchProtocol
    ) -> None:
        self.subtask = subtask
        self._frame = frame
        self._inputs = inputs
        self._protocol = protocol
        #: the last recorded batch when the query last failed to read more, and what it died of
        self._failed: tuple[int, str] | None = None

    def failed(self, reason: BaseException | None) -> e.TaskFailed:
        """Return what the driver is to hear."""
        self._note(reason)
        known = None if reason is None else misuse(self.subtask.task, reason)
        return task_failed(self.subtask, known or reason, self._source_of)

    def _note(self, reason: BaseException | None) -> None:
        self._protocol.lists_again = True
        if self._protocol.flush_from is None:
            self._failed = self._protocol.last, "" if reason is None else f" ({brief(reason)})"

    def has_failed_after(self, batch: int) -> bool:
        """Return True if the query has failed to read more after this batch, its last recorded one."""
        return self._failed is not None and self._failed[0] == batch

    def left_out(self, last: BatchRecord | None) -> tuple[str, ...]:
        """Say of a query that is drained whether it could not read what it was to read.

        Args:
            last: its last batch record that is not of a flush.
        """
        batch = -1 if last is None else last.batch
        if self._failed is None or not self.has_failed_after(batch):
            return ()
        after = "in its first batch" if batch < 0 else f"after batch {batch}"
        return (f"{self.subtask.task}: it failed {after}{self._failed[1]}, and rows that had arrived may be unread",)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Put what a query has died of inside an order into an error with a code, with the reason in its words."""
        try:
            yield
        except Exception as error:
            reason = error.__cause__ if isinstance(error, JobError) and error.__cause__ is not None else error
            self._note(reason)
            if isinstance(reason, RekindleError):
                raise
            known = misuse(self.subtask.task, reason) or translate(reason, self._source_of)
            raise known or JobError("QUERY_DIED", task=self.subtask.task, reason=brief(reason)) from error

    def _source_of(self, path: str) -> str | None:
        """Find the input that a file is of: one that was given it, else those whose files are not known here, if any.

        None where it is of a table that the task's function reads by itself. All inputs where it is not said which
        file it is.
        """
        if not path:
            return ", ".join(item.uid for item in self._inputs)
        for item in self._inputs:
            if item.feed is not None and any(is_same_file(path, file.path) for file in item.feed.outstanding):
                return item.uid
        if self._frame is not None and has_static_file(self._frame, path):
            return None
        return ", ".join(item.uid for item in self._inputs if item.feed is None) or None
