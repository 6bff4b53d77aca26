"""The actions that a page may ask of a running job, with the answers of the command line; only if they are allowed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import msgspec

from rekindle.errors import ConfigError, ControlError, RekindleError
from rekindle.monitoring.monitors import Monitors
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest, Ending
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
"""Answers that are remembered, to be asked for later."""


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


def body_of(verb: str, data: bytes) -> ActionBody:
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
    """The requests made to drivers, and the answers that are remembered."""

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors
        self._asked: OrderedDict[str, Future[Ending]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, job_id: str, verb: str, body: ActionBody) -> str:
        """Ask for something; return the name to ask for the answer by.

        Raises:
            ControlError: ``JOB_UNKNOWN``, ``JOB_NOT_RUNNING``.
        """
        monitor, name = self._monitors.find(job_id)
        monitor.watch.known(name)
        storage = JobStorage(innermost(monitor.store), name)
        target = open_store(body.directory).location if body.directory else None
        if verb == "savepoint":
            target = target or default_folder(storage.store.location)
            state = state_for_certain(storage)
            if state != RUNNING:
                return self._start(None, partial(savepoint_at_rest, storage, target, state))
        drain = verb == "drain"
        control = ControlRequest(
            verb="stop" if drain else verb, drain=drain, savepoint=target, unaligned=body.unaligned and not drain
        )
        sent = client.send(storage, control)
        if isinstance(sent, Result):
            return self._start(None, lambda: sent)
        return self._start(sent.id, partial(client.wait, storage, control, sent))

    def answer(self, job_id: str, request: str, wait_s: float = 0) -> ActionAnswer:
        """Return what became of a request.

        Raises:
            RekindleError: the driver refused or failed, or the request is not known here: ``REQUEST_UNKNOWN``.
        """
        with self._lock:
            future = self._asked.get(request)
        if future is None:
            raise ControlError("REQUEST_UNKNOWN", request=request, job=job_id)
        wait([future], max(wait_s, 0))
        if not future.done():
            return ActionAnswer(job=job_id, request=request, done=False)
        ending = future.result()
        return ActionAnswer(
            job=job_id,
            request=request,
            done=True,
            state=ending.state,
            checkpoint=ending.checkpoint,
            savepoint=ending.savepoint,
            notes=ending.notes,
        )

    def _start(self, name: str | None, work: Callable[[], Ending]) -> str:
        future: Future[Ending] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except RekindleError as error:
                future.set_exception(error)
            except Exception as error:
                future.set_exception(ControlError("REQUEST_FAILED", reason=f"{type(error).__name__}: {error}"))

        key = name or client.new_id(0)
        with self._lock:
            self._asked[key] = future
            while len(self._asked) > _KEPT:
                self._asked.popitem(last=False)
        threading.Thread(target=run, name=f"rekindle-ui-{key}", daemon=True).start()
        return key
