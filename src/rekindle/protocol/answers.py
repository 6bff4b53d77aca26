"""The answers that are given when the job ends: once its result is recorded, no earlier.

The requests for the stop in force wait for that, and so does any request that comes while the result is being recorded.
The result and the answers to a stop have the same notes.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import Error, Stop
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint
from rekindle.protocol.requests import refused_checkpoint, refused_stop
from rekindle.protocol.states import JobState
from rekindle.protocol.stopping import Stopping

ENDED = "the job has ended"


class Answers:
    """The answers that wait for the result of one job, and the notes that go with them."""

    def __init__(self, job: str, stopping: Stopping) -> None:
        self._job, self._stopping = job, stopping
        #: sentences of the result on how the job has ended
        self.notes: list[str] = []
        self._waiting: list[c.AnswerRequest] = []
        #: error in the answers to requests for a stop; None: they succeed
        self._error: Error | None = None

    def note(self, notes: Iterable[str]) -> None:
        """Add sentences to the result."""
        self.notes += notes

    def cancel(self, event: e.CancelRequested) -> None:
        """Grant a cancel."""
        self._waiting.append(c.AnswerRequest(request=event.request))

    def late_checkpoint(self, event: e.CheckpointRequested) -> None:
        """Refuse a checkpoint of a job that has ended."""
        self._waiting.append(refused_checkpoint(event.request, ENDED))

    def late_stop(self, event: e.StopRequested, state: JobState, latest: int | None) -> None:
        """Answer a stop of a job that has ended."""
        savepoint_missed = self._stopping.stop is None and event.directory is not None
        if self._error is None and (self._stopping.is_other(event) or savepoint_missed):
            self._waiting.append(refused_stop(self._job, event.request, state))
        else:
            self._answer_stops([event.request], self._stopping.stop, latest)

    def late_cancel(self, event: e.CancelRequested, state: JobState) -> None:
        """Answer a cancel of a job that has ended."""
        over: Error = ("JOB_NOT_RUNNING", {"job": self._job, "state": state.value})
        canceled = state is JobState.CANCELED
        self._waiting.append(c.AnswerRequest(request=event.request, error=None if canceled else over))

    def overtaken(
        self,
        error: Error | None,
        *,
        under_way: Iterable[PendingCheckpoint],
        queue: Iterable[CheckpointRequest],
        sealing: Iterable[PendingCheckpoint],
    ) -> None:
        """Answer requests whose checkpoint or savepoint is not made because the job ends.

        Args:
            error: the error of the answers; None: one that says that the job has ended.
        """
        requests = [request for checkpoint in under_way for request in checkpoint.asked.requests]
        requests += [asked.request or "" for asked in queue]
        refused: Error = error or ("CHECKPOINT_REFUSED", {"reason": ENDED})
        self._waiting += [c.AnswerRequest(request=request, error=refused) for request in requests]
        for one in sealing:
            said: Error = error or ("SAVEPOINT_FAILED", {"path": one.asked.directory, "reason": f"{ENDED} meanwhile"})
            self._waiting += [c.AnswerRequest(request=request, error=said) for request in one.asked.requests]

    def end(self, error: Error | None, latest: int | None) -> str | None:
        """Answer the requests for the stop in force, now that the job ends; return the path of its savepoint, or None.

        Args:
            error: the one that the job ends with; None: it ends well. A savepoint that was not made is then in `notes`.
            latest: the newest checkpoint that is complete; None: there is none.
        """
        self._error, stop = error, self._stopping.stop
        if stop is None:
            return None
        savepoint = stop.savepoint
        if savepoint is not None and savepoint.path is None and error is None:
            self._error = ("SAVEPOINT_FAILED", {"path": savepoint.directory, "reason": savepoint.failure})
            self.notes.append(f"The savepoint could not be made: {savepoint.failure}")
        self._answer_stops(stop.requests, stop, latest)
        return savepoint.path if savepoint else None

    def _answer_stops(self, requests: Iterable[str], stop: Stop | None, latest: int | None) -> None:
        savepoint = stop.savepoint.path if stop and stop.savepoint else None
        said = tuple(self.notes)
        self._waiting += [
            c.AnswerRequest(request=one, checkpoint=latest, savepoint=savepoint, notes=said, error=self._error)
            for one in requests
        ]

    def take(self) -> tuple[c.AnswerRequest, ...]:
        """Return the answers that waited for the result, which is recorded now."""
        answers, self._waiting = tuple(self._waiting), []
        return answers
