"""What a driver does with the files of its control folder, and in what order its answers become durable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ControlError, RekindleError, StorageError
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.control import ControlFolder
from rekindle.storage import layout
from rekindle.storage.bell import ring
from rekindle.storage.codec import encode
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.testing.fake_runner import HELD
from rekindle.testing.memory_store import MemoryStore
from tests.runtime.kit import HURRY, JOB, NEVER, World, ended, until


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


def test_a_checkpoint_has_every_batch_that_was_committed_before_it_was_asked_for(world: World) -> None:
    """Also when both happen just before the driver looks for requests."""
    world.rows.available, world.rows.ended = 6, False

    class Late(LocalStore):
        def names(self, folder: str) -> list[str]:
            if folder == layout.control(JOB) and world.rows.available == 6 and world.read() == 6:
                world.rows.available = 9
                until(lambda: world.read() == 9)
                leave(world, "a")
            return super().names(folder)

    world.store = Late(world.location)
    handle = world.start(**NEVER)
    assert answer_to(world, "a").checkpoint == 1
    assert world.sinks["out"].rows == list(range(9 - HELD))
    handle.cancel()


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
    assert handle.checkpoint().number == 1
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
    assert running.checkpoint().number >= 1


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


def test_a_request_is_answered_with_the_failure_of_its_driver(world: World) -> None:
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
        client.send(world.storage, ControlRequest(verb="stop", drain=True))


# -- what is left in the folder ---------------------------------------------------------------------------------------


def test_who_has_read_an_answer_leaves_nothing_behind(world: World, running: Any, tmp_path: Path) -> None:
    running.checkpoint()
    running.savepoint(str(tmp_path / "savepoints"))
    world.before["snapshot"] = refuse
    with pytest.raises(ControlError, match="STOP_FAILED"):
        running.stop()
    del world.before["snapshot"]
    assert world.storage.store.names(layout.control(JOB)) == []


def refuse() -> None:
    raise StorageError("OBJECT_CORRUPT", path="x", reason="injected")


class Listed(MemoryStore):
    """A store that notes what is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def names(self, folder: str) -> list[str]:
        self.listed.append(folder)
        return super().names(folder)


def test_a_look_at_the_control_folder_is_one_listing() -> None:
    store = Listed()
    folder = ControlFolder(JobStorage(store, JOB))
    for number in range(4):
        request = Request(id=f"{number}", run=1, verb="checkpoint", created_ms=number)
        store.create(layout.request(JOB, request.id), encode(request))
        found = folder.look(number)
        assert found is not None and [one.id for one in found.requests] == [request.id]
        folder.clean(number)
    assert store.listed == [layout.control(JOB)] * 4


class ClosedStore(MemoryStore):
    """A store in which some requests cannot be read."""

    def __init__(self, *closed: str, pace: int = 1) -> None:
        super().__init__()
        self.closed = {layout.request(JOB, one) for one in closed}
        self._pace = pace

    @property
    def pace(self) -> int:
        return self._pace

    def read(self, path: str) -> bytes:
        if path in self.closed:
            raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason=f"Permission denied ({path})")
        return super().read(path)


def test_a_request_that_cannot_be_read_holds_up_no_other_and_is_refused_in_the_end() -> None:
    store = ClosedStore("a", "b")
    folder = ControlFolder(JobStorage(store, JOB))
    for number, one in enumerate("abc"):
        request = Request(id=one, run=1, verb="stop", created_ms=number)
        store.create(layout.request(JOB, one), encode(request))

    found = folder.look(0)
    assert [one.id for one in found.requests] == ["c"] and not found.unreadable
    store.closed.discard(layout.request(JOB, "b"))
    assert [one.id for one in folder.look(29).requests] == ["b"]
    found = folder.look(30)
    assert found.requests == () and [*found.unreadable] == ["a"]
    assert not folder.look(31).unreadable, "it was heard"


def test_a_request_that_cannot_be_read_in_a_bucket_is_tried_again_without_another_ring() -> None:
    store = ClosedStore("a", pace=10)
    folder = ControlFolder(JobStorage(store, JOB))
    store.create(layout.request(JOB, "a"), encode(Request(id="a", run=1, verb="stop", created_ms=0)))
    ring(store, JOB, "a")

    assert folder.rung() and folder.look(0).requests == ()
    store.closed.clear()
    assert folder.rung() and [one.id for one in folder.look(1).requests] == ["a"]
    assert not folder.rung()


class Clock:
    """Ages of answers, without waiting."""

    def __init__(self, storage: JobStorage) -> None:
        self.folder = ControlFolder(storage)
        self.now_s = 0.0

    def pass_s(self, seconds: float, looks: int = 1) -> None:
        self.now_s += seconds
        for _ in range(looks):
            assert self.folder.look(self.now_s).requests == ()
            self.folder.clean(self.now_s)


@pytest.fixture
def answered() -> JobStorage:
    """A folder full of requests that were answered and that nobody waits for."""
    storage = JobStorage(MemoryStore(), JOB)
    for number in range(1_000):
        request = Request(id=f"{number:04}", run=1, verb="checkpoint", created_ms=number)
        storage.create(layout.request(JOB, request.id), request)
        storage.answer(Answer(id=request.id, job=JOB, state="RUNNING", answered_ms=number))
    return storage


def test_of_many_answers_that_no_one_reads_the_newest_are_kept_for_an_hour(answered: JobStorage) -> None:
    clock = Clock(answered)
    clock.pass_s(0)
    clock.pass_s(59, looks=20)
    assert len(answered.store.names(layout.control(JOB))) == 2_000
    clock.pass_s(1)
    assert len(answered.store.names(layout.control(JOB))) == 1_800, "a part at a time"
    clock.pass_s(1, looks=20)
    assert {name[:4] for name in answered.store.names(layout.control(JOB))} == {
        str(n).zfill(4) for n in range(900, 1_000)
    }
    clock.pass_s(3_600)
    assert answered.store.names(layout.control(JOB)) == []


def test_a_clean_up_that_is_cut_short_leaves_no_request_without_its_answer(answered: JobStorage) -> None:
    clock, deleted = Clock(answered), list[str]()

    class Died(Exception):
        pass

    def delete(path: str) -> None:
        if len(deleted) == 5:
            raise Died
        deleted.append(path)
        MemoryStore.delete(answered.store, path)  # type: ignore[arg-type]

    clock.pass_s(0)
    answered.store.delete = delete  # type: ignore[method-assign]
    with pytest.raises(Died):
        clock.pass_s(3_600)
    assert answered.control().requests == ()


def test_a_request_for_a_deleted_answer_says_so(world: World, running: Any) -> None:
    gone = Request(id="gone", run=1, verb="checkpoint", created_ms=1)
    with pytest.raises(ControlError, match="ANSWER_FORGOTTEN"):
        client.wait(client.looks(world.storage, ControlRequest(verb="checkpoint"), gone, 30, pauses=HURRY))


def test_what_its_own_process_asks_for_a_driver_hears_at_once(world: World) -> None:
    world.pauses = replace(HURRY, control_s=3_600)
    world.rows.available, world.rows.ended = 6, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 6)
    assert handle.checkpoint().number == 1
    handle.stop()
    assert ended(handle).state == "STOPPED"
