"""The requests to a job: those that were heard, and the answers that are given at once.

Every request is answered exactly once, unless the run dies or is fenced first. A batch run grants cancel only: there is
no place before its end where it could be stopped. Answers that wait for the end of the job are in `answers`.
"""

from __future__ import annotations

from rekindle.protocol import commands as c
from rekindle.protocol.ending import Error
from rekindle.protocol.pending_checkpoint import Settled
from rekindle.protocol.states import JobState

REMEMBERED = 1_000
"""The number of requests that are remembered. An older one is not delivered again: its files are gone."""

STOPPING = "the job is stopping"


class HeardRequests:
    """The last requests that were heard, in order: each is answered once, even if it is delivered again."""

    def __init__(self) -> None:
        self._heard: dict[str, None] = {}

    def __contains__(self, request: str | None) -> bool:
        return request in self._heard

    def hear(self, request: str) -> None:
        """Remember that a request was heard."""
        self._heard[request] = None
        if len(self._heard) > REMEMBERED:
            del self._heard[next(iter(self._heard))]


def refused_in_batch(job: str, request: str, verb: str) -> c.AnswerRequest:
    """Refuse a request that a batch run cannot grant."""
    return c.AnswerRequest(request=request, error=("BATCH_VERB_REFUSED", {"job": job, "verb": verb}))


def refused_stop(job: str, request: str, state: JobState) -> c.AnswerRequest:
    """Refuse a stop, since another one is in force or the job has ended otherwise."""
    return c.AnswerRequest(request=request, error=("STOP_REFUSED", {"job": job, "state": state.value}))


def refused_checkpoint(request: str | None, reason: str) -> c.AnswerRequest:
    """Refuse a checkpoint."""
    return c.AnswerRequest(request=request or "", error=("CHECKPOINT_REFUSED", {"reason": reason}))


def answered(one: Settled, request: str) -> c.AnswerRequest:
    """Answer a request for a checkpoint that has settled, with its savepoint or the error of that."""
    checkpoint = one.checkpoint
    error: Error | None = None
    if checkpoint.asked.directory is not None and one.savepoint is None:
        error = ("SAVEPOINT_FAILED", {"path": checkpoint.asked.directory, "reason": one.detail})
    return c.AnswerRequest(request=request, checkpoint=checkpoint.number, savepoint=one.savepoint, error=error)
