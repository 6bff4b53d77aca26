"""The actions that a page may ask of a running job, with the answers of the command line; only if they are allowed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool

from rekindle.errors import ConfigError, ControlError, RekindleError
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest, Ending
from rekindle.runtime.pauses import Pauses
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import RUNNING
from rekindle.storage.forwarding import innermost
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.savepoints import default_folder
from rekindle.storage.second_look import state_for_certain

_OPTIONS = {
    "checkpoint": ("wait",),
    "savepoint": ("directory", "unaligned", "wait"),
    "stop": ("directory", "unaligned", "wait"),
    "drain": ("directory", "wait"),
    "cancel": ("wait",),
}
"""Action → the options that say something about it."""
VERBS = tuple(_OPTIONS)

_KEPT = 1_000
"""Requests that are remembered, to be asked for later; no answer is looked for to older ones."""

_AT_ONCE = 4
"""Threads that look for answers in a storage, or copy savepoints, at the same time: the server has others to do."""

_PAUSES = Pauses(answer_s=(0.02, 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionBody:
    """The options of an action."""

    #: folder that a savepoint is made in; None: in the storage for ``savepoint``, none for ``stop`` and ``drain``
    directory: str | None = None
    #: for ``savepoint`` and ``stop``: do not read data between tasks first: copy it
    unaligned: bool = False
    #: seconds that the answer may take; then it says where to ask for it
    wait: float = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer:
    """The outcome of an action."""

    job: str
    #: name to ask for the answer by: ``/api/v1/jobs/{job}/requests/{request}``
    request: str
    #: False: the driver has not answered yet
    done: bool
    state: str | None = None
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()


def options_of(verb: str, data: bytes) -> ActionBody:
    """Return the options in the body of a request.

    Raises:
        ConfigError: ``BODY_INVALID``, also for an option that would not be obeyed: a job that was stopped without the
            savepoint that was asked for cannot be asked again.
    """
    try:
        given = msgspec.json.decode(data, type=dict[str, Any]) if data.strip() else {}
        body = msgspec.convert(given, ActionBody)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError("BODY_INVALID", reason=error) from error
    usual = asdict(ActionBody())
    for name, value in given.items():
        if name not in _OPTIONS[verb] and (name not in usual or value != usual[name]):
            known = ", ".join(_OPTIONS[verb])
            raise ConfigError("BODY_INVALID", reason=f"{verb} has no option {name!r}; its options are {known}")
    return body


class Actions:
    """The requests made to drivers, and the answers that are remembered; no thread waits for an answer."""

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors
        #: the id of a job, and the name of a request to it → what looks for the answer
        self._asked: OrderedDict[tuple[str, str], asyncio.Task[Ending | RekindleError]] = OrderedDict()
        #: location of a storage, and whether it is for a copy → the turns that are taken there
        self._turns: dict[tuple[str, bool], asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))

    async def ask(self, job_id: str, verb: str, body: ActionBody) -> str:
        """Ask for something; return the name to ask for the answer by.

        Raises:
            ControlError: ``JOB_UNKNOWN``, ``JOB_NOT_RUNNING``.
        """
        monitor, job = self._monitors.find(job_id)
        name, look = await run_in_threadpool(_send, monitor, job, verb, body)
        turn = self._turns[monitor.store.location, name is None]
        name = name or client.new_id(0)
        self._asked[job_id, name] = asyncio.create_task(_followed(look, turn))
        while len(self._asked) > _KEPT:
            self._asked.popitem(last=False)[1].cancel()
        return name

    async def answer_within(self, job_id: str, request: str, wait_s: float) -> ActionAnswer:
        """Return what became of a request, after `wait_s` at the latest; raises as `answer` does."""
        asked = self._asked.get((job_id, request))
        if asked is not None:
            await asyncio.wait([asked], timeout=max(wait_s, 0))
        return self.answer(job_id, request)

    def answer(self, job_id: str, request: str) -> ActionAnswer:
        """Return what has become of a request.

        Raises:
            RekindleError: the driver refused or failed, or the request is not known here: ``REQUEST_UNKNOWN``.
        """
        asked = self._asked.get((job_id, request))
        if asked is None or asked.cancelled():
            raise ControlError("REQUEST_UNKNOWN", request=request, job=job_id)
        if not asked.done():
            return ActionAnswer(job=job_id, request=request, done=False)
        ending = asked.result()
        if isinstance(ending, RekindleError):
            raise ending
        return ActionAnswer(
            job=job_id,
            request=request,
            done=True,
            state=ending.state,
            checkpoint=ending.checkpoint,
            savepoint=ending.savepoint,
            notes=ending.notes,
        )


_Look = Callable[[], Ending | float]
"""A look for an answer, which returns it, or the seconds to pause before the next look."""


def _send(monitor: Monitor, job: str, verb: str, body: ActionBody) -> tuple[str | None, _Look]:
    """Ask a job for something; return the name of the request, None where no driver is asked, and how to look."""
    monitor.watch.known(job)
    storage = JobStorage(innermost(monitor.store), job)
    target, drain = _place(body.directory), verb == "drain"
    if verb == "savepoint":
        target = target or default_folder(storage.store.location)
        state = state_for_certain(storage)
        if state != RUNNING:
            return None, partial(savepoint_at_rest, storage, target, state)
    control = ControlRequest(
        verb="stop" if drain else verb, drain=drain, savepoint=target, unaligned=body.unaligned and not drain
    )
    sent = client.send(storage, control)
    if isinstance(sent, Result):
        return None, lambda: sent
    return sent.id, partial(client.look, client.looks(storage, control, sent, pauses=_PAUSES))


async def _followed(look: _Look, turn: asyncio.Semaphore) -> Ending | RekindleError:
    """Look until there is an answer; return it, or why there is none."""
    try:
        while True:
            async with turn:
                found = await run_in_threadpool(look)
            if isinstance(found, Ending):
                return found
            await asyncio.sleep(found)
    except RekindleError as error:
        return error
    except Exception as error:
        return ControlError("REQUEST_FAILED", reason=f"{type(error).__name__}: {error}")


def _place(directory: str | None) -> str | None:
    """Return the folder that a savepoint is wanted in; ``BODY_INVALID`` for one that can be no folder."""
    if directory is None:
        return None
    if not directory or "\0" in directory:
        raise ConfigError("BODY_INVALID", reason=f"{directory!r} is no folder")
    return open_store(directory).location
