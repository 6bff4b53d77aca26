"""The requests to a running job: read from its control folder, passed to the protocol, answered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from rekindle.errors import ConfigError, ControlError, RekindleError, error_from
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.states import JobState
from rekindle.runtime.control import ControlFolder
from rekindle.runtime.definition import RunContext
from rekindle.runtime.trying import tried
from rekindle.storage.documents.control import Answer, Request


class Requests:
    """The requests to the driver of one run.

    Args:
        state: returns the state of the job now.
        is_over: returns True once the run is over: the next run refuses later requests.
        noted: called with each request before it is passed to the protocol.
    """

    def __init__(
        self,
        run: RunContext,
        state: Callable[[], JobState],
        is_over: Callable[[], bool],
        noted: Callable[[Request], None],
    ) -> None:
        self._run = run
        self._state = state
        self._is_over = is_over
        self._noted = noted
        self._control = ControlFolder(run.storage)
        #: answers that the storage has refused, and that are tried again
        self._owed: list[Answer] = []

    def rung(self) -> bool:
        """Return True if the bell was rung; False if the storage does not answer."""
        return bool(tried(self._control.rung))

    def are_overdue(self, now_s: float) -> bool:
        """Return True if it is time to look even without a ring: for requests, or to repeat a refused answer."""
        return bool(self._owed) or self._control.is_overdue(now_s)

    def heard(self, now_s: float) -> Iterator[e.Event]:
        """Read the new requests, and yield an event for each that the protocol has to decide.

        Only the reading may fail and be repeated: the effects of a request are carried out whole, or end the run.
        """
        owed, self._owed = self._owed, []
        for answer in owed:
            self._answer(answer)
        found = tried(lambda: self._control.look(now_s))
        if found is None:
            return
        for request_id, error in found.unreadable.items():
            self._refuse(request_id, error)
        for request in found.requests:
            if self._is_over():
                return
            if not self._run.run.answers(request.run):
                self._refuse(request.id, ControlError("REQUEST_STALE", run=request.run))
            elif request.verb not in _EVENTS:
                verbs = ", ".join(_EVENTS)
                self._refuse(request.id, ConfigError("VERB_UNKNOWN", verb=request.verb, hint="", verbs=verbs))
            else:
                self._noted(request)
                yield _EVENTS[request.verb](request)
        with contextlib.suppress(ControlError):  # the driver has just been fenced, and finds that at its next look
            tried(lambda: self._control.clean(now_s))

    def _refuse(self, request_id: str, error: RekindleError) -> None:
        """Answer a request with an error, without the protocol."""
        self._answer(Answer(id=request_id, job=self._run.storage.job, state="", answered_ms=0, error=error.to_json()))

    def answer(self, command: c.AnswerRequest) -> None:
        """Write the answer that the protocol has decided."""
        error = error_from(*command.error).to_json() if command.error else None
        self._answer(
            Answer(
                id=command.request,
                job=self._run.storage.job,
                state=self._state().value,
                answered_ms=0,
                checkpoint=command.checkpoint,
                savepoint=command.savepoint,
                notes=command.notes,
                error=error,
            )
        )

    def _answer(self, answer: Answer) -> None:
        """Write an answer durably. If the storage refuses it, keep it for another try: that does not end the job."""
        made = replace(answer, state=answer.state or self._state().value, answered_ms=self._run.clock())
        if tried(lambda: self._run.storage.answer(made)) is None:
            self._owed.append(made)


_EVENTS: dict[str, Callable[[Request], e.Event]] = {
    "checkpoint": lambda request: e.CheckpointRequested(request=request.id),
    "savepoint": lambda request: e.CheckpointRequested(
        request=request.id, directory=request.savepoint, unaligned=request.unaligned
    ),
    "stop": lambda request: e.StopRequested(
        request=request.id, drain=request.drain, directory=request.savepoint, unaligned=request.unaligned
    ),
    "cancel": lambda request: e.CancelRequested(request=request.id),
}
"""Verb of a request → event for the protocol. Any other verb is answered with an error."""
