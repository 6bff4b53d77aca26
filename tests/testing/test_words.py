"""Every event and every command has its words; what is said of an event can be read back."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.reasons import CheckpointKind
from rekindle.testing import words as w

A, B = SubtaskId("a", 0), SubtaskId("b.c-d", 12)

_BASES = (c.Command, c.TaskCommand)
COMMANDS = [kind for kind in vars(c).values() if isinstance(kind, type) and issubclass(kind, c.Command)]

_numbers = st.integers(min_value=-1, max_value=99)
_places = st.dictionaries(st.sampled_from([A, B]), st.integers(min_value=0, max_value=9), max_size=2)
_restored = st.builds(
    e.RestoredTask,
    closed=st.booleans(),
    ended=st.booleans(),
    drained=st.booleans(),
    notes=st.sampled_from([(), ("half unread",), ("half unread", "a timer left")]),
    batch=_numbers,
    committed=_numbers,
    read=_places,
)
_VALUES: dict[str, st.SearchStrategy[object]] = {
    "task": st.sampled_from([A, B]),
    "tasks": st.dictionaries(st.sampled_from([A, B]), _restored, max_size=2),
    "read": _places,
    "batch": _numbers,
    "checkpoint": _numbers,
    "latest_checkpoint": st.none() | _numbers,
    "next_checkpoint": _numbers,
    "newer_run": _numbers,
    "engine_failures": _numbers,
    "size_bytes": _numbers,
    "now_ms": st.integers(min_value=0, max_value=10**7),
    "notes": st.sampled_from([(), ("half unread",), ("half unread", "a timer left")]),
    "error": st.sampled_from([None, ("FILE_VANISHED", {"source": "s", "path": "/in/1"}), ("JOB_DRAINED", {})]),
    "directory": st.sampled_from(["/save", "s3://bucket/save"]),
    "path": st.sampled_from(["/save/1"]),
    "request": st.sampled_from(["ann", "r-1"]),
    "reason": st.sampled_from(["the query died: no memory", "x"]),
    "detail": st.sampled_from(["it is full, and away", "x"]),
}


@st.composite
def _events(draw: st.DrawFn) -> e.Event:
    kind = draw(st.sampled_from(e.ALL))
    values = {}
    for item in fields(kind):
        if not item.compare:
            continue  # for people: no rule of the protocol rests on it
        if item.default is MISSING or draw(st.booleans()):
            values[item.name] = draw(st.booleans() if item.type == "bool" else _VALUES[item.name])
    if kind is e.CheckpointRequested and not values.get("directory"):
        values["unaligned"] = False  # it is said of savepoints only
    return kind(**values)


def test_every_event_has_its_words() -> None:
    assert set(w.EVENTS) == set(e.ALL)


def test_every_command_has_its_words() -> None:
    assert set(w.COMMANDS) == set(COMMANDS) - set(_BASES)


@given(_events())
def test_what_is_said_of_an_event_is_read_back(event: e.Event) -> None:
    said = w.say_event(event)
    understood = w.read_event(said)
    assert understood is not None, said
    kind, told = understood
    assert kind(**told) == event, said


@given(_events())
def test_no_words_mean_two_events(event: e.Event) -> None:
    said = w.say_event(event)
    meant = [kind for kind, phrases in w.EVENTS.items() for one in phrases if w._read(one, said) is not None]
    assert set(meant) == {type(event)}


def test_what_is_no_event_is_not_understood() -> None:
    assert w.read_event("a/0 sneezed") is None


def test_a_fact_of_the_storage_that_is_not_understood_is_quoted_with_how_it_has_to_be() -> None:
    with pytest.raises(ValueError, match=r"'a/0 sneezed' is not understood; .* <task> stood after batch <batch>"):
        w.read_event("the job starts: a/0 sneezed")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (c.StartTask(task=A), "start a/0"),
        (c.StopSources(task=A), "stop the sources of a/0"),
        (c.AllowReading(task=A, producer=B, upto=4), "let a/0 read b.c-d/12 up to 4"),
        (c.SuspendTask(task=A), "hold a/0"),
        (c.FinishTask(task=A, drain=False), "finish a/0"),
        (c.FinishTask(task=A, drain=True), "drain a/0"),
        (c.CloseTask(task=A), "close a/0"),
        (c.KillTask(task=A), "kill a/0"),
        (
            c.TakeSnapshot(task=A, checkpoint=1, batch=-1),
            "take snapshot of a/0 before its first batch for checkpoint 1",
        ),
        (
            c.TakeSnapshot(task=A, checkpoint=1, batch=3, in_flight={B: (2, 5)}),
            "take snapshot of a/0 after batch 3 for checkpoint 1, in flight: b.c-d/12 from 2 to 5",
        ),
        (
            c.WriteManifest(checkpoint=1, kind=CheckpointKind.STOP, triggered_ms=500, finished=(A, B)),
            "write manifest 1 (stop, begun at 500 milliseconds, a/0, b.c-d/12 had finished)",
        ),
        (
            c.WriteManifest(
                checkpoint=1, kind=CheckpointKind.FINAL, triggered_ms=0, finished=(), transactions={A: (0, 3)}
            ),
            "write manifest 1 (final, begun at 0 seconds, to commit: a/0 0 to 3)",
        ),
        (c.CommitTransactions(permit=CommitPermit(3)), "commit checkpoint 3"),
        (c.SealSavepoint(checkpoint=1, directory="/save"), "copy checkpoint 1 to /save"),
        (c.AbortCheckpoint(checkpoint=1, reason="JOB_ENDED: x"), "abort checkpoint 1: JOB_ENDED: x"),
        (c.DiscardOlder(keep=1), "keep the newest checkpoint, discard older ones"),
        (c.DiscardOlder(keep=3), "keep the newest 3 checkpoints, discard older ones"),
        (
            c.RecordResult(state="STOPPED", checkpoint=1, savepoint="/save/1", notes=("half unread",)),
            "record that the job is STOPPED, checkpoint 1, savepoint /save/1, half unread",
        ),
        (c.AnswerRequest(request="ann"), "answer ann: done"),
        (
            c.AnswerRequest(request="ann", error=("STOP_REFUSED", {"job": "bids", "state": "STOPPING"})),
            "answer ann: no, The job 'bids' is already STOPPING. [STOP_REFUSED]",
        ),
        (c.Exit(), "exit"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_commands_in_words(command: c.Command, said: str) -> None:
    assert w.say_command(command) == said
