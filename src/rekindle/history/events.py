"""The log of events of one run: what is worth a row, and how it reads.

A periodic checkpoint that completes is no event: the log of checkpoints has it, and rows about what went wrong would
soon be pushed out by it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rekindle.errors import RekindleError, storable
from rekindle.history.log import EVENTS
from rekindle.history.writer import LogWriter
from rekindle.ids import SubtaskId
from rekindle.redaction import hide
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.control import Request
from rekindle.storage.documents.history import EventError, HistoryEvent, Severity
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import Status
from rekindle.storage.run_documents import RunDocuments

KINDS: Mapping[str, str] = {
    "run_started": "a driver has begun its run",
    "task_failed": "a subtask has failed, with its error and where it was raised",
    "task_restarted": "a subtask that had failed runs again",
    "caught_up": "a subtask is done with what was there when the run began; the run stops once all are",
    "task_finished": "a subtask has read everything and flushed its state",
    "restarted": "all tasks are started again, because too many checkpoints have failed, or because Spark died",
    "checkpoint_completed": "a checkpoint that was not periodic is complete",
    "checkpoint_failed": "a checkpoint has failed, with the reason",
    "commit_failed": "a sink could not commit; it is tried again",
    "savepoint_completed": "a savepoint is complete, with its path",
    "savepoint_failed": "a savepoint could not be made",
    "stop_requested": "someone asked the job to stop, or to drain",
    "cancel_requested": "someone asked the job to end at once",
    "fenced": "another run has taken over from one without a result: its driver died, or can no longer write",
    "run_ended": "a run has ended, with its state",
}
"""Kind of an event → what has happened."""

MESSAGE_LETTERS = 2_000
TRACE_LETTERS = 16_000
"""Letters of the longest message, and of the longest trace: what is longer is cut."""

_MOST_RUNS = 20
"""Earlier runs without a row in the log that are looked up at most: those whose start has failed have written none."""

_HARMLESS = ("CHECKPOINT_SUBSUMED", "JOB_ENDED")
"""Reasons of failed checkpoints that no one has to look at."""

_REQUESTS = {"stop": "stop_requested", "cancel": "cancel_requested"}

_LOG = logging.getLogger(__name__)
_LEVELS: Mapping[Severity, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_DIGITS = re.compile(r"\d+")


class TaskEvents:
    """The events of the subtasks of one run: what is reported twice, or goes as it should, is no event.

    Args:
        add: adds an event to the log.
    """

    def __init__(self, add: Callable[..., None]) -> None:
        self._add = add
        #: subtasks that have failed and do not run again yet
        self._failed: set[SubtaskId] = set()
        self._finished: set[SubtaskId] = set()
        self._caught_up: set[SubtaskId] = set()
        #: of each subtask the last trace, without its numbers: the same one is not kept twice in a row
        self._traces: dict[SubtaskId, str] = {}

    def failed(self, task: SubtaskId, error: RekindleError, trace: str) -> None:
        """Note that a subtask has failed."""
        self._failed.add(task)
        same, self._traces[task] = self._traces.get(task), _DIGITS.sub("", trace)
        found = _error(error.to_json(), "" if same == self._traces[task] else trace)
        self._add("task_failed", error.message, "error", task=task, error=found)

    def started(self, task: SubtaskId) -> None:
        """Note that a subtask runs: an event where it had failed."""
        if task in self._failed:
            self._failed.discard(task)
            self._add("task_restarted", f"{task} runs again", task=task)

    def caught_up(self, task: SubtaskId) -> None:
        """Note that a subtask has read what was there; that may be reported twice."""
        if task not in self._caught_up:
            self._caught_up.add(task)
            self._add("caught_up", f"{task} has read what was there", task=task)

    def finished(self, task: SubtaskId, notes: tuple[str, ...]) -> None:
        """Note that a subtask has ended; that may be reported twice."""
        if task not in self._finished:
            self._finished.add(task)
            self._add("task_finished", "; ".join((f"{task} has finished", *notes)), task=task)


class EventLog:
    """The events of one run.

    Args:
        last: the last status that an earlier run has written.
    """

    def __init__(self, storage: RunDocuments, run: Run, last: Status | None, clock: Callable[[], int]) -> None:
        self._storage = storage
        self._run = run
        self._last = last
        self._clock = clock
        self.writer = LogWriter(storage, EVENTS, run.run, self._before)
        self.tasks = TaskEvents(self._add)
        self._ended = False

    def started(self) -> None:
        """Note that the driver has begun."""
        self._note(_started(self._run))

    def ended(self, result: Result) -> None:
        """Note how the run has ended, which is durable by now; whatever follows is no event of it."""
        if not self._ended:
            self._note(_ended(result))
        self._ended = True

    def asked(self, request: Request) -> None:
        """Note that something was asked for."""
        if request.verb in _REQUESTS:
            what = "drain" if request.drain else request.verb
            self._add(
                _REQUESTS[request.verb],
                f"asked to {what}" + (", with a savepoint" if request.savepoint else ""),
                by=request.by or None,
            )

    def restarted(self, error: RekindleError) -> None:
        """Note that all tasks are started again."""
        self._add("restarted", error.message, "error", error=_error(error.to_json()))

    def checkpoint_completed(self, manifest: Manifest) -> None:
        """Note that a checkpoint is complete: an event unless it is periodic."""
        number = manifest.checkpoint
        if manifest.kind == "periodic":
            _LOG.info("checkpoint %d is complete", number, extra={"job": self._storage.job})
        else:
            self._add("checkpoint_completed", f"checkpoint {number}, {manifest.kind}, is complete", checkpoint=number)

    def checkpoint_failed(self, checkpoint: int, reason: str) -> None:
        """Note that a checkpoint has failed."""
        severity: Severity = "info" if reason.startswith(_HARMLESS) else "warning"
        self._add("checkpoint_failed", reason, severity, checkpoint=checkpoint)

    def commit_failed(self, checkpoint: int, error: RekindleError) -> None:
        """Note that a sink could not commit."""
        self._add("commit_failed", error.message, "error", checkpoint=checkpoint, error=_error(error.to_json()))

    def savepoint_completed(self, checkpoint: int, path: str) -> None:
        """Note that a savepoint is whole."""
        self._add("savepoint_completed", f"savepoint of checkpoint {checkpoint}", checkpoint=checkpoint, path=path)

    def savepoint_failed(self, checkpoint: int, detail: str) -> None:
        """Note that a savepoint could not be made."""
        self._add("savepoint_failed", detail, "error", checkpoint=checkpoint)

    def _add(
        self, kind: str, message: str, severity: Severity = "info", *, task: SubtaskId | None = None, **more: Any
    ) -> None:
        assert kind in KINDS, f"{kind} is not documented"
        if not self._ended:
            self._note(
                HistoryEvent(
                    time_ms=self._clock(),
                    run=self._run.run,
                    kind=kind,
                    severity=severity,
                    message=_cut(message, MESSAGE_LETTERS),
                    task=None if task is None else str(task),
                    **more,
                )
            )

    def _note(self, event: HistoryEvent) -> None:
        """Keep an event, and log it: a reader of the log finds it among what else was logged at that time."""
        self.writer.add(event)
        code, trace = ("", "") if event.error is None else (f"[{event.error.code}] ", event.error.trace)
        subject = f"Task {event.task}: " if event.task is not None else ""
        more = {"job": self._storage.job, "event": event.kind, "trace": trace}
        _LOG.log(_LEVELS[event.severity], "%s%s%s", subject, code, event.message, extra=more)

    def _before(self, rows: list[HistoryEvent]) -> list[HistoryEvent]:
        """Return what earlier runs could not write: how the last one in the log ended, and all of the runs after it."""
        newest = rows[-1].run if rows else 0
        found: list[HistoryEvent] = []
        if newest and not any(row.run == newest and row.kind in ("fenced", "run_ended") for row in rows):
            found.append(self._end_of(newest))
        for number in range(max(newest + 1, self._run.run - _MOST_RUNS), self._run.run):
            run = self._storage.run(number)
            if run is not None:
                found += (_started(run), self._end_of(number))
        return found

    def _end_of(self, number: int) -> HistoryEvent:
        result = self._storage.result(number)
        if result is not None:
            return _ended(result)
        return _fenced(number, self._storage.run(number + 1) or self._run, self._last)


def _started(run: Run) -> HistoryEvent:
    parts = [f"run {run.run} in {run.mode} mode"]
    parts += ["of what is available now"] if run.available_now else []
    parts += [f"from {run.restore_from}"] if run.restore_from else []
    return HistoryEvent(
        time_ms=run.started_ms,
        run=run.run,
        kind="run_started",
        message=_cut(", ".join(parts), MESSAGE_LETTERS),
        by=f"process {run.pid} on {run.host}",
    )


def _fenced(number: int, newer: Run, last: Status | None) -> HistoryEvent:
    """Return the event of a run without a result that was taken over: its driver, dead or only away, writes no more."""
    message = f"run {newer.run} has taken over from run {number}, which had recorded no result"
    if last is not None and last.run == number:
        message += f"; it was last heard of {max(newer.started_ms - last.written_ms, 0) / 1000:,.0f} s before"
    return HistoryEvent(
        time_ms=newer.started_ms,
        run=number,
        kind="fenced",
        severity="error",
        message=message,
        by=f"process {newer.pid} on {newer.host}",
    )


def _ended(result: Result) -> HistoryEvent:
    message = "; ".join((f"run {result.run} has ended: {result.state}", *result.notes))
    return HistoryEvent(
        time_ms=result.ended_ms,
        run=result.run,
        kind="run_ended",
        severity="error" if result.state == "FAILED" else "info",
        message=_cut(message, MESSAGE_LETTERS),
        checkpoint=result.checkpoint,
        path=result.savepoint,
        error=None if result.error is None else _error(result.error),
    )


def _error(error: Mapping[str, Any], trace: str = "") -> EventError:
    return EventError(
        code=error["code"],
        message=_cut(error["message"], MESSAGE_LETTERS),
        next_step=error.get("next_step", ""),
        parameters=dict(_parameters(error.get("parameters", {}))),
        trace=_cut(hide(trace), TRACE_LETTERS),
    )


def _parameters(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        yield name, value if isinstance(value, int | float | bool | None) else _cut(str(value), MESSAGE_LETTERS)


def _cut(text: str, letters: int) -> str:
    """Return a text, of a longer one the beginning and the end: of a trace both say something."""
    text = storable(text)
    if len(text) <= letters:
        return text
    half = (letters - 5) // 2
    return f"{text[:half]}\n...\n{text[-half:]}"
