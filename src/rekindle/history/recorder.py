"""The history that a driver writes to be watched by: the logs of one run, fed with what the protocol hears and says.

Nothing that is decided depends on it, and no order waits for it. Where the storage refuses, what is not written waits,
within bounds; where a newer run has taken over, nothing more is written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from rekindle.errors import ControlError, StorageError
from rekindle.history.checkpoints import CheckpointLog
from rekindle.history.events import EventLog
from rekindle.history.rates import RateLog
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import Newest, Status


class Recorder:
    """The history of one run.

    Args:
        last: the last status that an earlier run has written.
        state_bytes: how large the state of a subtask is, as was known last.
    """

    def __init__(
        self,
        storage: CheckpointDocuments,
        run: Run,
        job: JobMachine,
        last: Status | None,
        clock: Callable[[], int],
        state_bytes: Callable[[SubtaskId], int | None],
    ) -> None:
        self.events = EventLog(storage, run, last, clock)
        self.checkpoints = CheckpointLog(storage, run, job, clock)
        self.rates = RateLog(storage, run.run, clock)
        self._state_bytes = state_bytes
        #: result of the run; None: it has not ended
        self.result: Result | None = None

    def heard(self, event: e.Event) -> None:
        """Note what an event says."""
        match event:
            case e.JobStarted():
                self.events.started()
            case e.TaskStarted():
                self.events.tasks.started(event.task)
            case e.CaughtUp():
                self.events.tasks.caught_up(event.task)
            case e.TaskFinished():
                self.events.tasks.finished(event.task, event.notes)
            case e.SnapshotTaken():
                self.checkpoints.snapshot_taken(event.checkpoint, event.task, self._state_bytes(event.task))
            case e.TransactionsCommitted():
                self.checkpoints.committed(event.checkpoint, dict(event.sink_commit_ms))
            case e.SavepointSealed():
                self.checkpoints.sealed(event.checkpoint, event.path, event.size_bytes)
                self.events.savepoint_completed(event.checkpoint, event.path)
            case e.SavepointFailed():
                self.events.savepoint_failed(event.checkpoint, event.detail)
            case _:
                return

    def ordered(self, command: c.Command) -> None:
        """Note what a command says."""
        match command:
            case c.TakeSnapshot():
                self.checkpoints.snapshot_ordered(command)
            case c.AbortCheckpoint():
                self.checkpoints.failed(command.checkpoint, command.reason)
                self.events.checkpoint_failed(command.checkpoint, command.reason)
            case c.CommitTransactions():
                self.checkpoints.commit_ordered(command.permit.checkpoint)
            case _:
                return

    def completed(self, manifest: Manifest, took_ms: int) -> None:
        """Note that a manifest was created, so many milliseconds after the trigger."""
        self.checkpoints.completed(manifest, took_ms)
        self.events.checkpoint_completed(manifest)

    def beat(self, now_ms: int, status: Status, has_sinks: Callable[[str], bool]) -> Newest:
        """Take in a status, write what is new, and return the newest figures.

        Args:
            now_ms: a time that never goes back.
            has_sinks: whether rows of a task leave the job.
        """
        self.rates.look(now_ms, status)
        self.flush()
        record = self.checkpoints.newest()
        return Newest(
            checkpoint_duration_ms=record.duration_ms if record else None,
            checkpoint_bytes=record.state_bytes if record else None,
            rows_out_per_second=self.rates.rows_out(has_sinks),
        )

    def ended(self, result: Result) -> None:
        """Note how the run has ended."""
        self.result = result
        self.events.ended(result)

    def flush(self) -> None:
        """Write what is new; what the storage refuses is tried again the next time.

        After the end there may be no next time, so each log has another try there.
        """
        for log in (self.events, self.checkpoints, self.rates):
            for _ in range(2 if self.result else 1):
                with suppress(StorageError, ControlError):
                    log.writer.flush()
                    break
