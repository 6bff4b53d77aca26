"""Requests and stops: each request is answered exactly once, and at most one stop or drain is in force.

Every request is answered, unless the run dies or is fenced first. One that comes while the result is being recorded is
answered with it. A batch run grants cancel alone: there is no place before its end where it could be stopped.

What a stop does to tasks and checkpoints is not decided here (`job`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import AskedSavepoint, Error, Stop
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint, Settled
from rekindle.protocol.states import JobState

REMEMBERED = 1_000
"""Requests. One that was answered so long ago that it is not remembered is not delivered again: its files are gone."""

ENDED = "the job has ended"
STOPPING = "the job is stopping"


class Stopping:
    """The requests to one job, and the stop in force."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: the stop or drain in force
        self.stop: Stop | None = None
        #: the last requests that were heard, in order: each is answered once, however often it is delivered
        self.heard: dict[str, None] = {}
        #: what is answered once the result is recorded
        self.answers: list[c.AnswerRequest] = []
        #: the answer to those who asked for a stop, if it is an error
        self._error: Error | None = None

    def hear(self, request: str) -> None:
        """Remember that a request was heard."""
        self.heard[request] = None
        if len(self.heard) > REMEMBERED:
            del self.heard[next(iter(self.heard))]

    # -- a stop -------------------------------------------------------------------------------------------------------

    def begin(self, event: e.StopRequested, *, unaligned: bool, now_ms: int) -> Stop:
        """Let a stop be in force; `unaligned`: checkpoints of the job are, unless something else is asked for."""
        in_its_mode = unaligned and event.directory is None
        self.stop = Stop(
            drain=event.drain,
            begun_ms=now_ms,
            unaligned=(in_its_mode or event.unaligned) and not event.drain,
            savepoint=None if event.directory is None else AskedSavepoint(directory=event.directory),
            requests=[event.request],
        )
        return self.stop

    def carry_through(self) -> None:
        """Let a drain be in force that an earlier run has begun: its flush cannot be taken back."""
        self.stop = Stop(drain=True)

    def is_other(self, event: e.StopRequested) -> bool:
        """Return True if another stop than this one is in force."""
        stop = self.stop
        if stop is None:
            return False
        directory = stop.savepoint.directory if stop.savepoint else None
        return stop.drain != event.drain or event.directory not in (None, directory)

    def give_up(self, stop: Stop, reason: str) -> tuple[c.AnswerRequest, ...]:
        """Let none be in force any more; return the answer to those who asked for it."""
        self.stop = None
        error: Error = ("STOP_FAILED", {"job": self._name, "reason": reason})
        return tuple(c.AnswerRequest(request=request, error=error) for request in stop.requests)

    # -- answers at once ----------------------------------------------------------------------------------------------

    def refused_in_batch(self, request: str, verb: str) -> tuple[c.AnswerRequest, ...]:
        """Refuse what a batch run cannot do."""
        return (c.AnswerRequest(request=request, error=("BATCH_VERB_REFUSED", {"job": self._name, "verb": verb})),)

    def refused_checkpoints(self, asked: Iterable[CheckpointRequest]) -> tuple[c.AnswerRequest, ...]:
        """Refuse what waited for a checkpoint when a stop began."""
        return tuple(refusal(one.request, STOPPING) for one in asked)

    def refused_stop(self, request: str, state: JobState) -> c.AnswerRequest:
        """Refuse a stop, since another one is in force or the job has ended otherwise."""
        return c.AnswerRequest(request=request, error=("STOP_REFUSED", {"job": self._name, "state": state.value}))

    # -- answers with the result --------------------------------------------------------------------------------------

    def late_checkpoint(self, event: e.CheckpointRequested) -> None:
        """Refuse a checkpoint of a job that has ended."""
        self.answers.append(refusal(event.request, ENDED))

    def late_stop(self, event: e.StopRequested, state: JobState, latest: int | None, notes: Sequence[str]) -> None:
        """Answer a stop of a job that has ended."""
        savepoint_missed = self.stop is None and event.directory is not None
        if self._error is None and (self.is_other(event) or savepoint_missed):
            self.answers.append(self.refused_stop(event.request, state))
        else:
            self._answer_stops([event.request], latest, notes)

    def late_cancel(self, event: e.CancelRequested, state: JobState) -> None:
        """Answer a cancel of a job that has ended."""
        over: Error = ("JOB_NOT_RUNNING", {"job": self._name, "state": state.value})
        canceled = state is JobState.CANCELED
        self.answers.append(c.AnswerRequest(request=event.request, error=None if canceled else over))

    def overtaken(
        self,
        error: Error | None,
        *,
        under_way: Iterable[PendingCheckpoint],
        queue: Iterable[CheckpointRequest],
        sealing: Iterable[PendingCheckpoint],
    ) -> None:
        """Answer those whose checkpoint or savepoint the end of the job overtakes; `error`: with this error."""
        requests = [request for checkpoint in under_way for request in checkpoint.asked.requests]
        requests += [asked.request or "" for asked in queue]
        refused: Error = error or ("CHECKPOINT_REFUSED", {"reason": ENDED})
        self.answers += [c.AnswerRequest(request=request, error=refused) for request in requests]
        for one in sealing:
            said: Error = error or ("SAVEPOINT_FAILED", {"path": one.asked.directory, "reason": f"{ENDED} meanwhile"})
            self.answers += [c.AnswerRequest(request=request, error=said) for request in one.asked.requests]

    def end(self, error: Error | None, latest: int | None, notes: list[str]) -> str | None:
        """Answer those who asked for the stop in force, now that the job ends; return its savepoint.

        Args:
            error: the one that the job ends with; None: it ends well, and `notes` gain what was not made.
        """
        self._error, stop = error, self.stop
        if stop is None:
            return None
        savepoint = stop.savepoint
        if savepoint is not None and savepoint.path is None and error is None:
            self._error = ("SAVEPOINT_FAILED", {"path": savepoint.directory, "reason": savepoint.failure})
            notes.append(f"The savepoint could not be made: {savepoint.failure}")
        self._answer_stops(stop.requests, latest, notes)
        return savepoint.path if savepoint else None

    def _answer_stops(self, requests: Iterable[str], latest: int | None, notes: Sequence[str]) -> None:
        savepoint = self.stop.savepoint.path if self.stop and self.stop.savepoint else None
        said = tuple(notes)
        self.answers += [
            c.AnswerRequest(request=one, checkpoint=latest, savepoint=savepoint, notes=said, error=self._error)
            for one in requests
        ]

    def take_answers(self) -> tuple[c.AnswerRequest, ...]:
        """Return what is answered now that the result is recorded."""
        answers, self.answers = tuple(self.answers), []
        return answers


def refusal(request: str | None, reason: str) -> c.AnswerRequest:
    """Refuse a checkpoint."""
    return c.AnswerRequest(request=request or "", error=("CHECKPOINT_REFUSED", {"reason": reason}))


def answered(one: Settled, request: str) -> c.AnswerRequest:
    """Answer who asked for a checkpoint that has settled, with its savepoint or the error of that."""
    checkpoint = one.checkpoint
    error: Error | None = None
    if checkpoint.asked.directory is not None and one.savepoint is None:
        error = ("SAVEPOINT_FAILED", {"path": checkpoint.asked.directory, "reason": one.detail})
    return c.AnswerRequest(request=request, checkpoint=checkpoint.number, savepoint=one.savepoint, error=error)
