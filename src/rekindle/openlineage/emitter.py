"""Sending the events of a run to where OpenLineage's own configuration says.

A thread of its own looks at the job once a second, and sends. A server that is away, or hangs, holds up nothing but
that thread; the end of the job waits for it for a moment.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import one_line
from rekindle.openlineage.datasets import Dataset, of_sink, of_source
from rekindle.runtime.definition import Definition
from rekindle.runtime.elapsed import system_clock
from rekindle.storage.documents.runs import Result
from rekindle.storage.run_documents import RunDocuments

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from rekindle.openlineage.events import RunEvents

_LOG = logging.getLogger(__name__)

Send = Callable[["RunEvent"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingPauses:
    """Pauses of what sends events, in seconds."""

    #: between two looks at the job
    look_s: float = 1.0
    #: RUNNING is sent after a checkpoint, and not more often than this
    running_s: float = 60.0
    #: after an event that could not be sent
    again_s: float = 30.0
    #: longest time that the end of a job waits for what is to be sent
    leave_s: float = 5.0


USUAL = SendingPauses()


def is_configured() -> bool:
    """Return True if OpenLineage is configured, in one of the places where its client looks."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(name == "OPENLINEAGE_URL" or name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ):
        return True
    files = [os.environ.get("OPENLINEAGE_CONFIG", ""), "openlineage.yml"]
    with suppress(RuntimeError):  # a user without a home
        files.append(str(Path.home() / ".openlineage" / "openlineage.yml"))
    return any(file and os.path.isfile(file) for file in files)


def transport() -> Send | None:
    """Return what sends an event; None where none is to be sent. What is wrong with it is logged: it ends no job."""
    if not is_configured():
        return None
    try:
        from openlineage.client import OpenLineageClient

        return OpenLineageClient().emit
    except ModuleNotFoundError as error:
        _LOG.warning(
            "OpenLineage is configured, and %s is not installed: pip install 'rekindle[openlineage]'", error.name
        )
    except Exception as error:
        _LOG.warning("No OpenLineage events: its configuration cannot be used: %s", one_line(error))
    return None


def named(name: str) -> Dataset:
    """Return the name of a job, in the namespace that OpenLineage's configuration gives."""
    return Dataset(os.environ.get("OPENLINEAGE_NAMESPACE") or "default", name)


def inputs_and_outputs(definition: Definition) -> tuple[tuple[Dataset, ...], tuple[Dataset, ...]]:
    """Return what a job reads, and what it writes."""
    job = named(definition.graph.name)
    read = [one for uid, source in definition.sources.items() for one in of_source(job, uid, source.spec)]
    written = [of_sink(job, uid, sink) for uid, sink in definition.sinks.items()]
    return tuple(dict.fromkeys(read)), tuple(dict.fromkeys(written))


class Emitter:
    """A sender of the events of one run.

    Args:
        checkpoints: how many have been completed.
    """

    def __init__(
        self, send: Send, events: RunEvents, checkpoints: Callable[[], int], pauses: SendingPauses = USUAL
    ) -> None:
        self._send = send
        self._pauses = pauses
        self._events = events
        self._checkpoints = checkpoints
        self._end: RunEvent | None = None
        self._over = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="openlineage", daemon=True)
        self._begun = events.started(system_clock())
        self._reported = self._completed()

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def end(self, how: Result | str) -> None:
        """Send the last event, and wait for that a moment.

        Args:
            how: the result; or the reason why there is none.
        """
        made = self._events
        self._end = made.broken_off(system_clock(), how) if isinstance(how, str) else made.ended(how)
        self._over.set()
        self._thread.join(self._pauses.leave_s)

    def _work(self) -> None:
        # It is in the order of what has happened: a run that no one has heard of cannot end.
        if not self._is_begun():
            return
        self._watch()
        if self._end is not None:
            self._sent(self._end)

    def _is_begun(self) -> bool:
        """Send the beginning until that has succeeded, or the run is over, and then once more."""
        while not self._sent(self._begun):
            if self._over.wait(self._pauses.again_s):
                return self._sent(self._begun)
        return True

    def _watch(self) -> None:
        next_s = time.monotonic() + self._pauses.running_s
        while not self._over.wait(self._pauses.look_s):
            now = self._completed()
            if now > self._reported and time.monotonic() >= next_s:
                self._sent(self._events.running(system_clock()))
                self._reported, next_s = now, time.monotonic() + self._pauses.running_s

    def _completed(self) -> int:
        try:
            return self._checkpoints()
        except Exception:
            return 0

    def _sent(self, event: RunEvent) -> bool:
        try:
            self._send(event)
        except Exception as error:
            if not self._failed:
                _LOG.warning("An OpenLineage event was not sent; the job continues: %s", one_line(error))
            self._failed = True
            return False
        self._failed = False
        return True


def run_events(
    definition: Definition, storage: RunDocuments, run: int, *, mode: str, engine: str, redact: Callable[[str], str]
) -> RunEvents:
    """Return what makes the events of a run."""
    from rekindle.openlineage.events import RunEvents, RunFacts

    identity = storage.identity()
    inputs, outputs = inputs_and_outputs(definition)
    facts = RunFacts(
        job=named(storage.job),
        identity=identity.id if identity is not None else "",
        run=run,
        mode=mode,
        engine=engine,
        inputs=inputs,
        outputs=outputs,
    )
    return RunEvents(facts, redact)


@contextmanager
def emitting(
    make: Callable[[], RunEvents], checkpoints: Callable[[], int], pauses: SendingPauses = USUAL
) -> Iterator[Callable[[Result], Result]]:
    """Send the events of a run, where OpenLineage is configured, from now until it has ended.

    What it yields is given the result, and returns it.
    """
    send, emitter = transport(), None
    if send is not None:
        try:
            emitter = Emitter(send, make(), checkpoints, pauses)
        except Exception as error:
            _LOG.warning("No OpenLineage events: %s", one_line(error))
    if emitter is None:
        yield lambda result: result
        return
    results = list[Result]()
    emitter.start()

    def ended(result: Result) -> Result:
        results.append(result)
        return result

    reason = "the driver was ended"
    try:
        yield ended
    except BaseException as error:
        reason = one_line(error)
        raise
    finally:
        with suppress(Exception):
            emitter.end(results[0] if results else reason)
