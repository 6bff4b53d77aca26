"""The client of the control folder: it writes a request for the driver in force, and waits for the answer.

The storage is the only interface, so a driver that has died never answers. While it waits, the client checks whether
the driver lives, whether its run has ended, and whether a newer run has taken over. Requests are independent of each
other, so a cancel is answered while a stop hangs.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from rekindle.errors import ControlError, RekindleError, error_from
from rekindle.runtime.pauses import USUAL, Pauses
from rekindle.storage import layout
from rekindle.storage.bell import ring
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import LOST, RUNNING, Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import silence_ms
from rekindle.storage.run_documents import RunDocuments
from rekindle.storage.savepoints import check_apart

Ending = Answer | Result
"""The outcome that a verb prints: the driver's answer, or the result of a run that gave none."""

_asked_by: ContextVar[str] = ContextVar("asked_by", default="")

_SATISFIED_BY = {
    "stop": ("STOPPED", "FINISHED", "DRAINED"),
    "drain": ("DRAINED", "FINISHED"),
    "cancel": ("CANCELED", "STOPPED", "FINISHED", "DRAINED"),
}
"""Verb → states of an ended job that already satisfy it, so that a second request is harmless."""


def answered(document: dict[str, Any]) -> RekindleError:
    """Return the error that a driver has put into an answer or a result, as it was raised there."""
    return error_from(document["code"], document.get("parameters", {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """The request of a verb, before it has an id and a run."""

    #: "checkpoint", "savepoint", "stop" or "cancel"
    verb: str
    drain: bool = False
    #: absolute folder for a savepoint; None: none is wanted
    savepoint: str | None = None
    unaligned: bool = False

    @classmethod
    def of(cls, request: Request) -> ControlRequest:
        """Return the same request as an earlier one in the storage."""
        return cls(verb=request.verb, drain=request.drain, savepoint=request.savepoint, unaligned=request.unaligned)

    def met_by(self, result: Result) -> bool:
        """Return whether a job with this result needs the request no more."""
        wanted = "drain" if self.drain else self.verb
        if result.state not in _SATISFIED_BY.get(wanted, ()):
            return False
        # A savepoint somewhere else is not the one that was asked for.
        return self.savepoint is None or (result.savepoint or "").startswith(f"{self.savepoint.rstrip('/')}/")


def new_id(now_ms: int) -> str:
    """Return a new unique id that sorts by time."""
    return f"{now_ms:013d}-{secrets.token_hex(4)}"


def send(storage: RunDocuments, wanted: ControlRequest) -> Request | Result:
    """Write the request for the run in force and return it; or return the result if the job has ended as wished.

    Raises ``JOB_NOT_RUNNING`` if no driver would answer, ``SAVEPOINT_FAILED`` for a place that goes with the job.
    """
    if wanted.savepoint is not None:
        check_apart(storage.store, storage.job, wanted.savepoint)
    run = storage.latest_run()
    state = storage.state()
    if run is None or state != RUNNING:
        result = storage.result(run.run) if run else None
        if result is not None and wanted.met_by(result):
            return result
        raise ControlError("JOB_NOT_RUNNING", job=storage.job, state=state)
    now_ms = round(time.time() * 1_000)
    request = Request(
        id=new_id(now_ms),
        run=run.run,
        verb=wanted.verb,
        created_ms=now_ms,
        drain=wanted.drain,
        savepoint=wanted.savepoint,
        unaligned=wanted.unaligned,
        by=_asked_by.get() or _this_user(),
    )
    storage.create(layout.request(storage.job, request.id), request)
    ring(storage.store, storage.job, request.id)
    return request


Looks = Generator[float, None, Ending]
"""A wait for an answer, look by look: after each it yields the seconds to pause, and at last it returns the answer."""


def looks(
    storage: JobStorage,
    wanted: ControlRequest,
    request: Request,
    timeout_s: float | None = None,
    is_lost: Callable[[], bool] = lambda: False,
    *,
    take: bool = True,
    pauses: Pauses = USUAL,
) -> Looks:
    """Look for the answer to `request`; return it, or the result of a run that ended as wished without an answer.

    Args:
        timeout_s: None: no limit, or `Pauses.cancel_s` for a cancel.
        is_lost: returns True if the caller knows that the driver is gone: one that ran in this process, which still
            lives, so that the storage cannot tell.
        take: True to delete the answer, which no one else will read.
        pauses: pauses between two looks.

    Raises:
        RekindleError: the driver refused or failed, with its code.
        ControlError: ``REQUEST_TIMED_OUT`` or ``CANCEL_TIMED_OUT`` (the request stands), ``REQUEST_STALE`` (a newer run
            has taken over), ``CANCELED_MEANWHILE`` or ``JOB_NOT_RUNNING`` (it ended otherwise, or its driver died),
            ``ANSWER_FORGOTTEN`` (it was given so long ago that it is deleted).
    """
    look_s = pauses.driver_s * storage.store.pace
    watch = _Watch(storage, look_s)
    if timeout_s is None and wanted.verb == "cancel":
        timeout_s = pauses.cancel_s
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    looked_s = time.monotonic()
    pause, longest = (pause * storage.store.pace for pause in pauses.answer_s)
    while True:
        # The state is read before the answer: a driver that is gone by now has answered, or never will.
        state = LOST if is_lost() else watch.state()
        answer = storage.answer_to(request.id)
        if answer is not None:
            if take:
                with suppress(RekindleError):  # the driver deletes later what cannot be deleted here
                    storage.forget_request(request.id)
            if answer.error is not None:
                raise answered(answer.error)
            return answer
        if state != RUNNING or _is_over(storage, request):
            return _without_answer(storage, wanted, request)
        if time.monotonic() - looked_s >= look_s:
            looked_s = time.monotonic()
            asked = storage.store.exists(layout.request(storage.job, request.id))
            if not asked and storage.answer_to(request.id) is None:
                raise ControlError("ANSWER_FORGOTTEN", job=storage.job)
        if deadline is not None and time.monotonic() >= deadline:
            raise _timed_out(storage, wanted, f"{timeout_s:g}")
        yield pause
        pause = min(pause * 1.5, longest)


def look(looks: Looks) -> Ending | float:
    """Look once more for an answer; return it, or the seconds to pause before the next look. Raises as `looks` says."""
    try:
        return next(looks)
    except StopIteration as end:
        ending: Ending = end.value
        return ending


def wait(looks: Looks) -> Ending:
    """Wait for an answer and return it. Raises as `looks` says."""
    while not isinstance(ending := look(looks), Ending):
        time.sleep(ending)
    return ending


def _timed_out(storage: RunDocuments, wanted: ControlRequest, seconds: str) -> ControlError:
    driver = storage.driver() if wanted.verb == "cancel" else None
    if driver is None:
        return ControlError("REQUEST_TIMED_OUT", seconds=seconds, job=storage.job)
    return ControlError("CANCEL_TIMED_OUT", seconds=seconds, job=storage.job, pid=driver.pid, host=driver.host)


def _is_over(storage: RunDocuments, request: Request) -> bool:
    """Return whether a newer run has taken over that does not answer for this one (same process)."""
    if not storage.fence.newer_than(request.run):
        return False
    newest = storage.latest_run()
    return newest is None or not newest.answers(request.run)


def _without_answer(storage: RunDocuments, wanted: ControlRequest, request: Request) -> Result:
    newest = storage.latest_run()
    result = storage.result(newest.run if newest and newest.answers(request.run) else request.run)
    if result is not None and wanted.met_by(result):
        return result
    if _is_over(storage, request):
        raise ControlError("REQUEST_STALE", run=request.run)
    if result is not None and result.state == "CANCELED":
        raise ControlError("CANCELED_MEANWHILE", job=storage.job)
    if result is not None and result.error is not None:
        raise answered(result.error)
    raise ControlError("JOB_NOT_RUNNING", job=storage.job, state=result.state if result else LOST)


@contextmanager
def asked_by(name: str) -> Iterator[None]:
    """Name `name` as the author of the requests that are made inside, for example a signal."""
    before = _asked_by.set(name)
    try:
        yield
    finally:
        _asked_by.reset(before)


def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}"


class _Watch:
    """A watch on a job: it reads the state at intervals, twice if one look is not enough (`liveness.is_alive`).

    The time between the two is counted by the looks in between, so that a pause of this process, or of the storage, is
    no silence of the driver (`second_look.gives_a_sign`).
    """

    def __init__(self, storage: RunDocuments, look_s: float) -> None:
        self._storage = storage
        self._look_s = look_s
        #: the sign of life to compare with; the next attribute: looks since it was read
        self._earlier: Run | Status | None = storage.driver()
        self._looks = 0
        self._looked_s = float("-inf")
        self._state = RUNNING

    def state(self) -> str:
        now_s = time.monotonic()
        if now_s - self._looked_s < self._look_s:
            return self._state
        self._looked_s = now_s
        if self._looks * self._look_s < silence_ms(self._storage.store) / 1_000:
            self._state = self._storage.state()
            self._looks += 1
        else:
            self._state = self._storage.state(self._earlier)
            self._earlier, self._looks = self._storage.driver(), 0
        return self._state
