"""Events and commands in plain words, as scenario scripts have them.

Theory of operation
-------------------

Each event has one phrase, or several: the first that can tell all of it is used. A phrase is read and spoken from the
same text, so that whatever is said can be read back:

- ``{field}`` stands for a field, ``[…]`` may be left out;
- ``{field!}`` says that the field is true, by the words around it being there.

Commands are only spoken.

Places are numbers of batches, as everywhere in the protocol: *b/0 up to 2* means the first two batches of b/0, which
have the numbers 0 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any

from rekindle.config import duration_ms
from rekindle.errors.conditions import CONDITIONS
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e

_JOB_STARTED = (
    "the job starts[ at {now_ms}][, checkpoint {latest_checkpoint} being the newest][ and committed{committed!}]"
    "[, number {next_checkpoint} the next][, a drain having begun{draining!}]"
    "[, {engine_failures} engines having died][, to read what is available now{available_now!}][: {tasks}]"
)

EVENTS: dict[type[e.Event], tuple[str, ...]] = {
    e.JobStarted: (_JOB_STARTED,),
    e.Ticked: ("the clock shows {now_ms}",),
    e.TaskStarted: ("{task} started[, in backlog{backlog!}]",),
    e.BatchRecorded: ("{task} recorded batch {batch}[, having read {read}][, in backlog{backlog!}]",),
    e.SourcesEnded: ("{task}'s sources ended",),
    e.CaughtUp: ("{task} caught up at batch {batch}[, having read {read}]",),
    e.TaskSuspended: ("{task} was held[ after batch {batch}]",),
    e.TaskFinished: ("{task} finished[ after batch {batch}][, drained{drained!}][, leaving {notes}]",),
    e.TaskClosed: ("{task} closed",),
    e.TaskFailed: ("{task} failed[ for good{permanent!}][ with {error}]: {reason}",),
    e.SnapshotTaken: (
        "snapshot of {task} for checkpoint {checkpoint} taken[ after batch {batch}][, with union state{uses_union!}]",
    ),
    e.SnapshotDeclined: ("snapshot of {task} for checkpoint {checkpoint} declined: {detail}",),
    e.ManifestWritten: ("manifest {checkpoint} written",),
    e.ManifestFailed: ("manifest {checkpoint} could not be written: {detail}",),
    e.TransactionsCommitted: ("transactions of checkpoint {checkpoint} committed",),
    e.CommitFailed: (
        (
            "transactions of checkpoint {checkpoint} could not be committed"
            "[ for good{permanent!}][ with {error}]: {detail}"
        ),
    ),
    e.SavepointSealed: ("savepoint of checkpoint {checkpoint} sealed in {path}[ with {size_bytes} bytes]",),
    e.SavepointFailed: ("savepoint of checkpoint {checkpoint} could not be made: {detail}",),
    e.CheckpointRequested: (
        "{request} asks for a checkpoint",
        "{request} asks for a savepoint in {directory}",
        "{request} asks for an unaligned{unaligned!} savepoint in {directory}",
    ),
    e.StopRequested: (
        "{request} asks to stop[, with a savepoint in {directory}]",
        "{request} asks to stop unaligned{unaligned!}[, with a savepoint in {directory}]",
        "{request} asks to drain{drain!}[, with a savepoint in {directory}]",
        "{request} asks to drain{drain!} unaligned{unaligned!}[, with a savepoint in {directory}]",
    ),
    e.CancelRequested: ("{request} asks to cancel",),
    e.ResultRecorded: ("the result is recorded",),
    e.EngineDied: ("the engine died[ and can be replaced{replaceable!}]: {reason}",),
    e.DriverFenced: ("run {newer_run} has taken over",),
}
"""Every event in words."""

RESTORED_TASK = (
    "{task} stood after batch {batch}[, committed up to {committed}][, having read {read}]"
    "[ and had finished, as a checkpoint says{closed!}][ and had finished, as no checkpoint says yet{ended!}]"
    "[, by a drain{drained!}][, leaving {notes}]"
)
"""The phrase for what the storage says of a task."""


def say_event(event: e.Event) -> str:
    """Return an event in words."""
    given = _given(event)
    phrase = next(one for one in EVENTS[type(event)] if _tells(one, given))
    return _say(phrase, given)


def read_event(words: str) -> tuple[type[e.Event], dict[str, Any]] | None:
    """Read the class of an event and those of its fields that the words tell; None where they are no event."""
    for kind, phrases in EVENTS.items():
        for phrase in phrases:
            given = _read(phrase, words)
            if given is not None:
                return kind, given
    return None


# --- phrases ----------------------------------------------------------------------------------------------------------

_PIECE = re.compile(r"(\[[^\[\]]*\]|\{\w+!?\})")


def _given(thing: e.Event | e.RestoredTask) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    given = {}
    for item in fields(thing):
        value = getattr(thing, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if value != default:
            given[item.name] = value
    return given


def _names(phrase: str) -> set[str]:
    return set(re.findall(r"\{(\w+)!?\}", phrase))


def _tells(phrase: str, given: Mapping[str, Any]) -> bool:
    """Return True if all of `given` has a place in the phrase, and nothing that the phrase insists on is missing."""
    return _names(phrase) >= given.keys() >= _names(re.sub(r"\[[^\[\]]*\]", "", phrase))


def _say(phrase: str, given: Mapping[str, Any]) -> str:
    said = []
    for piece in _PIECE.split(phrase):
        if piece.startswith("["):
            said.append(_say(piece[1:-1], given) if _names(piece) <= given.keys() else "")
        elif piece.startswith("{"):
            said.append("" if piece.endswith("!}") else _FIELDS[piece[1:-1]].say(given[piece[1:-1]]))
        else:
            said.append(piece)
    return "".join(said)


def _read(phrase: str, words: str) -> dict[str, Any] | None:
    match = _pattern(phrase).fullmatch(words)
    if match is None:
        return None
    found = {name: text for name, text in match.groupdict().items() if text is not None}
    return {name: _FIELDS[name].read(text) if text else True for name, text in found.items()}


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile(_expression(phrase))


def _expression(phrase: str) -> str:
    parts = []
    for piece in _PIECE.split(phrase):
        if piece.startswith("["):
            parts.append(f"(?:{_expression(piece[1:-1])})?")
        elif piece.endswith("!}"):
            parts.append(f"(?P<{piece[1:-2]}>)")
        elif piece.startswith("{"):
            parts.append(f"(?P<{piece[1:-1]}>{_FIELDS[piece[1:-1]].pattern})")
        else:
            parts.append(re.escape(piece))
    return "".join(parts)


# --- fields -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    """The spelling of a field: its pattern, and how it is read and said."""

    pattern: str
    read: Callable[[str], Any]
    say: Callable[[Any], str]


def subtask(text: str) -> SubtaskId:
    """Read the subtask that is written ``task/0``."""
    task, _, number = text.rpartition("/")
    return SubtaskId(task, int(number))


def duration(span_ms: int) -> str:
    """Return a time span in words: ``5 seconds``."""
    count, unit = (span_ms // 1_000, "second") if span_ms % 1_000 == 0 else (span_ms, "millisecond")
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _read_places(text: str) -> dict[SubtaskId, int]:
    pairs = (pair.split(" up to ") for pair in text.split(" and "))
    return {subtask(producer): int(place) for producer, place in pairs}


def _say_places(read: Mapping[SubtaskId, int]) -> str:
    return " and ".join(f"{producer} up to {place}" for producer, place in read.items())


def _read_tasks(text: str) -> dict[SubtaskId, e.RestoredTask]:
    facts = {}
    for words in text.split("; "):
        given = _read(RESTORED_TASK, words)
        if given is None:
            raise ValueError(f"{words!r} is not understood; it has to be like: {shape(RESTORED_TASK)}")
        task = given.pop("task")
        facts[task] = e.RestoredTask(**given)
    return facts


def _say_tasks(facts: Mapping[SubtaskId, e.RestoredTask]) -> str:
    return "; ".join(
        _say(RESTORED_TASK, {"task": task, "batch": fact.batch, **_given(fact)}) for task, fact in facts.items()
    )


def _read_error(text: str) -> tuple[str, dict[str, object]]:
    code, *parameters = text.split(" ")
    return code, {name: value for name, _, value in (one.partition("=") for one in parameters)}


def _say_error(error: tuple[str, Mapping[str, object]]) -> str:
    code, parameters = error
    return " ".join([code, *(f"{name}={value}" for name, value in parameters.items())])


def shape(phrase: str) -> str:
    """Return a phrase as a person reads it."""
    return re.sub(r"\{\w+!\}", "", phrase).replace("{", "<").replace("}", ">")


_SUBTASK = r"[\w.\-]+/\d+"
_NUMBER = _Field(r"-?\d+", int, str)
_TEXT = _Field(r"\S.*", str, str)
_WORD = _Field(r"\S+", str, str)

_FIELDS: dict[str, _Field] = {
    "task": _Field(_SUBTASK, subtask, str),
    "batch": _NUMBER,
    "committed": _NUMBER,
    "checkpoint": _NUMBER,
    "latest_checkpoint": _NUMBER,
    "next_checkpoint": _NUMBER,
    "engine_failures": _NUMBER,
    "newer_run": _NUMBER,
    "size_bytes": _NUMBER,
    "now_ms": _Field(r"\d+ \w+", lambda text: duration_ms("time", text), duration),
    "read": _Field(rf"{_SUBTASK} up to \d+(?: and {_SUBTASK} up to \d+)*", _read_places, _say_places),
    "tasks": _Field(r"\S.*", _read_tasks, _say_tasks),
    "error": _Field(r"[A-Z_]+(?: \w+=[^\s:]+)*", _read_error, _say_error),
    "notes": _Field(r"\S.*?", lambda text: tuple(text.split(" and also ")), " and also ".join),
    "reason": _TEXT,
    "detail": _TEXT,
    "path": _WORD,
    "directory": _WORD,
    "request": _WORD,
}


# --- commands ---------------------------------------------------------------------------------------------------------


def say_command(command: c.Command) -> str:
    """Return a command in words."""
    return COMMANDS[type(command)](command)


def explained(error: tuple[str, Mapping[str, object]]) -> str:
    """Return an error as its user reads it, with its code."""
    code, parameters = error
    return f"{CONDITIONS[code].message.format(**parameters)} [{code}]"


def _take_snapshot(command: c.TakeSnapshot) -> str:
    place = f"after batch {command.batch}" if command.batch >= 0 else "before its first batch"
    ranges = [f"{producer} from {start} to {end}" for producer, (start, end) in command.in_flight.items()]
    in_flight = f", in flight: {', '.join(ranges)}" if ranges else ""
    return f"take snapshot of {command.task} {place} for checkpoint {command.checkpoint}{in_flight}"


def _write_manifest(command: c.WriteManifest) -> str:
    finished = ", ".join(map(str, command.finished))
    had = f", {finished} had finished" if finished else ""
    named = [f"{task} {first} to {last}" for task, (first, last) in command.transactions.items()]
    to_commit = f", to commit: {', '.join(named)}" if named else ""
    begun = f"{command.kind.value}, begun at {duration(command.triggered_ms)}"
    return f"write manifest {command.checkpoint} ({begun}{had}{to_commit})"


def _record_result(command: c.RecordResult) -> str:
    return f"record that the job is {command.state}{_outcome(command)}"


def _answer(command: c.AnswerRequest) -> str:
    return f"answer {command.request}: {'no' if command.error else 'done'}{_outcome(command)}"


def _outcome(command: c.RecordResult | c.AnswerRequest) -> str:
    parts = [f"checkpoint {command.checkpoint}"] if command.checkpoint is not None else []
    parts += [f"savepoint {command.savepoint}"] if command.savepoint is not None else []
    parts += [*command.notes, *([explained(command.error)] if command.error else [])]
    return "".join(f", {part}" for part in parts)


COMMANDS: dict[type[c.Command], Callable[[Any], str]] = {
    c.StartTask: lambda one: f"start {one.task}",
    c.StopSources: lambda one: f"stop the sources of {one.task}",
    c.AllowReading: lambda one: f"let {one.task} read {one.producer} up to {one.upto}",
    c.SuspendTask: lambda one: f"hold {one.task}",
    c.FinishTask: lambda one: f"{'drain' if one.drain else 'finish'} {one.task}",
    c.CloseTask: lambda one: f"close {one.task}",
    c.KillTask: lambda one: f"kill {one.task}",
    c.TakeSnapshot: _take_snapshot,
    c.WriteManifest: _write_manifest,
    c.CommitTransactions: lambda one: f"commit checkpoint {one.permit.checkpoint}",
    c.SealSavepoint: lambda one: f"copy checkpoint {one.checkpoint} to {one.directory}",
    c.AbortCheckpoint: lambda one: f"abort checkpoint {one.checkpoint}: {one.reason}",
    c.DiscardOlder: lambda one: f"keep {_newest(one.keep)}{_pinned(one.pinned)}, discard older ones",
    c.RecordResult: _record_result,
    c.AnswerRequest: _answer,
    c.ReportFailure: lambda one: f"report {explained(one.error)}",
    c.FailOver: lambda one: f"fail over after engine {one.failures}, in {one.delay_ms} ms: {one.reason}",
    c.Exit: lambda one: "exit",
}
"""Every command in words."""


def _pinned(numbers: tuple[int, ...]) -> str:
    return f" and checkpoint {', '.join(map(str, numbers))}" if numbers else ""


def _newest(count: int) -> str:
    return "the newest checkpoint" if count == 1 else f"the newest {count} checkpoints"
