"""What a driver does with the files of its control folder, and in what order its answers become durable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ControlError, RekindleError, StorageError
from rekindle.runtime import client
from rekindle.runtime.client import Wish
from rekindle.storage import layout
from rekindle.storage.codec import encode
from rekindle.storage.documents import Answer, Request
from tests.runtime.kit import JOB, NEVER, World, ended, until


def leave(world: World, request_id: str, verb: str = "checkpoint", run: int = 1, **fields: Any) -> None:
    """Write a request by hand."""
    request = Request(id=request_id, run=run, verb=verb, created_ms=1, **fields)
    world.storage.create(layout.request(JOB, request_id), request)


def answer_to(world: World, request_id: str) -> Answer:
    until(lambda: world.storage.answer_to(request_id) is not None)
    answer = world.storage.answer_to(request_id)
    assert answer is not None
    return answer


def code_of(answer: Answer) -> str | None:
    return answer.error["code"] if answer.error else None


@pytest.fixture
def running(world: World) -> Any:
    world.rows.available, world.rows.ended = 6, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 6)
    yield handle
    handle.cancel()
    ended(handle)


def test_each_verb_does_what_it_says(world: World, running: Any, tmp_path: Path) -> None:
    leave(world, "a")
    assert answer_to(world, "a").checkpoint == 1
    leave(world, "b", "savepoint", savepoint=str(tmp_path / "savepoints"))
    assert Path(answer_to(world, "b").savepoint or "", "manifest.json").exists()
    leave(world, "c", "stop")
    assert answer_to(world, "c").state == "STOPPED"


@pytest.mark.parametrize("verb", ["start", "", "Stop", "drain", "forget"])
def test_an_unknown_verb_is_answered_with_an_error_and_nothing_is_done(world: World, running: Any, verb: str) -> None:
    leave(world, "a", verb)

    answer = answer_to(world, "a")

    assert code_of(answer) == "VERB_UNKNOWN"
    assert answer.error is not None and "checkpoint, savepoint, stop, cancel" in answer.error["next_step"]
    assert world.manifests() == []
    assert running.status().state == "RUNNING"


def test_a_request_meant_for_an_earlier_run_is_answered_as_stale_and_not_carried_out(world: World) -> None:
    world.rows.available, world.rows.ended = 6, False
    handle = world.start(**NEVER)
    handle.cancel()
    ended(handle)
    leave(world, "late", "stop", run=1)
    leave(world, "early", "cancel", run=3)

    handle = world.start(**NEVER)

    assert code_of(answer_to(world, "late")) == code_of(answer_to(world, "early")) == "REQUEST_STALE"
    assert handle.checkpoint() == 1
    assert handle.status().state == "RUNNING"
    handle.cancel()


def test_requests_that_cannot_be_read_are_answered_with_the_reason(world: World, running: Any) -> None:
    control = layout.control(JOB)
    world.storage.store.create(f"{control}/broken.request.json", b'{"id": "bro')
    world.storage.store.create(f"{control}/newer.request.json", b'{"id": "newer", "format": 99}')
    liar = encode(Request(id="me", run=1, verb="stop", created_ms=1))
    world.storage.store.create(f"{control}/liar.request.json", liar)

    assert code_of(answer_to(world, "broken")) == code_of(answer_to(world, "liar")) == "OBJECT_CORRUPT"
    assert code_of(answer_to(world, "newer")) == "FORMAT_NEWER"
    assert running.checkpoint() >= 1


def test_a_request_is_heard_once_however_often_it_is_read(world: World, running: Any) -> None:
    leave(world, "a")
    answer_to(world, "a")
    world.storage.store.delete(layout.answer(JOB, "a"))

    running.checkpoint()

    assert world.storage.answer_to("a") is None
    assert len(world.manifests()) == 2


@pytest.mark.parametrize(
    ("verb", "first"), [("checkpoint", "committed.create"), ("stop", "result.create"), ("cancel", "result.create")]
)
def test_what_an_answer_says_is_durable_before_the_answer_is(world: World, verb: str, first: str) -> None:
    world.rows.available, world.rows.ended = 6, False
    heard: list[str] = []
    handle = world.start(heard.append, **NEVER)
    until(lambda: world.read() == 6)

    getattr(handle, verb)()
    if verb == "checkpoint":
        handle.cancel()
    ended(handle)

    assert heard.index(f"{first}/after") < heard.index("answer.create/before")


def test_who_asks_is_told_of_a_driver_that_failed_instead_of_answering(world: World) -> None:
    world.rows.available, world.rows.ended = 6, False

    def fail() -> None:
        raise StorageError("OBJECT_CORRUPT", path="x", reason="injected")

    handle = world.start(**NEVER, **{"restart.attempts": "0"})
    until(lambda: world.read() == 6)
    world.before["suspend"] = fail

    with pytest.raises(RekindleError) as caught:
        handle.stop()

    assert caught.value.code == (ended(handle).error or {})["code"]
    with pytest.raises(ControlError, match="JOB_NOT_RUNNING"):
        handle.checkpoint()


def test_asking_again_for_what_has_happened_is_harmless(world: World) -> None:
    world.rows.available, world.rows.ended = 6, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 6)
    first = handle.stop()
    ended(handle)

    assert handle.stop().checkpoint == first.checkpoint
    assert handle.cancel().state == "STOPPED"
    with pytest.raises(ControlError, match="JOB_NOT_RUNNING"):
        client.send(world.storage, Wish(verb="stop", drain=True))
