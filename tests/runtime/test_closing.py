"""`close()` ends each attempt of a task, however that ends, and holds nothing up."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from rekindle.runtime.closing import close_sinks
from rekindle.runtime.worker import Worker
from rekindle.testing.fake_sink import FakeSink
from tests.runtime.kit import NEVER, OFTEN, Faulty, World, ended, until


@pytest.fixture
def calls(world: World) -> dict[str, list[str]]:
    """Sink → what it was asked for, in order."""
    noted: dict[str, list[str]] = {uid: [] for uid in world.sinks}
    for uid, sink in world.sinks.items():
        for name in ("prepare", "commit", "finish", "close"):
            sink.before[name] = lambda name=name, uid=uid: noted[uid].append(name)
    return noted


@pytest.fixture
def hanging(world: World, leaving_soon: None) -> Iterator[threading.Event]:
    """The first sink's `close` does not return until this is set."""
    world.pauses = replace(world.pauses, close_s=0.05)
    released = threading.Event()
    world.sinks["out"].before["close"] = lambda: released.wait(60)
    yield released
    released.set()


def closes(calls: dict[str, list[str]]) -> list[int]:
    return [noted.count("close") for noted in calls.values()]


def test_a_job_that_ends_by_itself_closes_each_sink_once_after_its_last_commit(
    world: World, calls: dict[str, list[str]]
) -> None:
    world.rows.available = 9
    assert world.run(**NEVER).state == "FINISHED"
    assert closes(calls) == [1, 1]
    assert all(noted[-2:] == ["commit", "close"] for noted in calls.values())


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_that_is_stopped_closes_each_sink_once(world: World, calls: dict[str, list[str]], drain: bool) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 9)
    handle.stop(drain=drain)
    assert ended(handle).state == ("DRAINED" if drain else "STOPPED")
    assert closes(calls) == [1, 1]
    assert all(noted[-2:] == ["commit", "close"] for noted in calls.values())


def test_a_job_that_is_canceled_closes_each_sink_once(world: World, calls: dict[str, list[str]]) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 9)
    handle.cancel()
    assert ended(handle).state == "CANCELED"
    assert closes(calls) == [1, 1]


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_a_job_that_was_ended_writes_nothing_more_once_the_call_returns(world: World, how: str) -> None:
    world.rows.available, world.rows.ended = 9, False
    written, slow = threading.Event(), threading.Event()

    def steps(name: str) -> None:
        if name == "result.create/after":
            written.set()
        if name == "status.replace/before" and written.is_set():
            slow.wait(0.2)  # as in a bucket

    handle = world.start(steps, **NEVER)
    until(lambda: world.read() == 9)
    handle.cancel() if how == "cancel" else handle.stop()
    assert not handle.is_running()


class CtrlCError(Exception):
    """As a Ctrl-C raises."""


def test_a_wait_that_is_interrupted_leaves_a_handle_that_works(world: World) -> None:
    """Python 3.11 takes a thread for dead whose `join` was interrupted."""
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)

    def interrupt(*_: object) -> None:
        raise CtrlCError

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(CtrlCError):
            handle.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert handle.is_running()
    assert handle.wait(0) is None
    assert handle.checkpoint().number == 1
    assert handle.stop().state == "STOPPED"


@pytest.mark.parametrize("order", ["start", "batch", "finish"])
def test_each_attempt_that_fails_is_closed_before_the_next_one_begins(
    world: World, calls: dict[str, list[str]], order: str
) -> None:
    world.rows.available = 9
    world.before[order] = failing = Faulty(3)
    starts: list[list[int]] = []

    def begun() -> None:
        starts.append(closes(calls))
        if order == "start":
            failing()

    world.before["start"] = begun
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()
    assert closes(calls) == [4, 4], "three that failed, and the one that did not"
    assert starts == [[number, number] for number in range(len(starts))]


def test_a_job_that_fails_closes_each_of_its_attempts(world: World, calls: dict[str, list[str]]) -> None:
    world.rows.available = 9
    world.before["batch"] = Faulty(1000)
    assert world.run(**NEVER, **{"restart.attempts": "2"}).state == "FAILED"
    assert closes(calls) == [3, 3]


def test_no_sink_is_closed_between_two_attempts_while_it_commits(world: World, calls: dict[str, list[str]]) -> None:
    world.rows.available, world.rows.ended = 9, False
    sink, committing, asked = world.sinks["out"], threading.Event(), threading.Event()

    def commit() -> None:
        calls["out"].append("commit begins")
        asked.set()
        committing.wait(10)
        calls["out"].append("commit ends")

    sink.before["commit"] = commit
    handle = world.start(**OFTEN)
    assert asked.wait(30)
    world.before["batch"] = failing = Faulty(1)
    world.rows.available = 18
    until(lambda: failing.calls > 0)
    committing.set()
    world.rows.ended = True
    assert ended(handle).state == "FINISHED"
    assert world.all_committed()
    assert closes(calls)[0] == 2
    commits = [(one, after) for one, after in pairwise(calls["out"]) if one == "commit begins"]
    assert commits and all(after in ("commit ends", "prepare") for _, after in commits)


@pytest.mark.parametrize("how", ["end", "cancel", "stop", "restart"])
def test_a_close_that_hangs_holds_nothing_up_and_keeps_no_other_sink_open(
    world: World, calls: dict[str, list[str]], hanging: threading.Event, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    world.rows.available, world.rows.ended = 9, how in ("end", "restart")
    if how == "restart":
        world.before["finish"] = Faulty(1)
    handle = world.start(**NEVER)
    with caplog.at_level(logging.WARNING, "rekindle"):
        if how in ("cancel", "stop"):
            until(lambda: world.read() == 9)
            handle.cancel() if how == "cancel" else handle.stop()
        states = {"end": "FINISHED", "restart": "FINISHED", "cancel": "CANCELED", "stop": "STOPPED"}
        assert ended(handle).state == states[how]
        until(lambda: "Sink out is still closing" in caplog.text)
    assert not hanging.is_set()
    assert calls["second"].count("close") == (2 if how == "restart" else 1)
    assert world.all_committed() == (how in ("end", "restart"))


@pytest.mark.parametrize("how", ["end", "restart"])
def test_a_close_that_raises_is_logged_and_fails_nothing(
    world: World, calls: dict[str, list[str]], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    world.rows.available = 9
    world.sinks["out"].before["close"] = broken = Faulty(1000)
    if how == "restart":
        world.before["finish"] = Faulty(1)
    with caplog.at_level(logging.WARNING, "rekindle"):
        assert world.run(**NEVER).state == "FINISHED"
    assert broken.calls == calls["second"].count("close") == (2 if how == "restart" else 1)
    assert "Sink out could not be closed: RuntimeError: broken on order" in caplog.text
    assert world.all_committed()


def test_sinks_are_closed_side_by_side_within_one_time() -> None:
    released = threading.Event()
    sinks = {f"{number}": FakeSink() for number in range(3)}
    for sink in sinks.values():
        sink.before["close"] = lambda: released.wait(60)
    close_sinks(sinks, 0.05)
    assert not released.is_set()
    released.set()


def test_what_a_worker_has_not_begun_in_time_is_never_done() -> None:
    worker, first, done = Worker("test"), threading.Event(), list[str]()
    worker.submit(lambda: first.wait(30) and None)
    assert not worker.ask(lambda: done.append("late"), 0.01)
    first.set()
    assert worker.ask(lambda: done.append("in time"), 30)
    assert done == ["in time"]


def test_what_a_worker_has_begun_is_waited_for() -> None:
    worker, over, done = Worker("test"), threading.Event(), list[str]()

    def order() -> None:
        """Last for longer than it may take to begin, which is much where the machine is loaded."""
        over.wait(1.2)
        done.append("done")

    assert worker.ask(order, 1.0) and done == ["done"]
