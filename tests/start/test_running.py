"""What becomes of a job whose Spark has died while no other comes up. Needs no JVM: its engine is a stand-in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.config import Config
from rekindle.errors import DefinitionError, StorageError
from rekindle.runtime import client
from rekindle.start.running import Running
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import Status
from rekindle.storage.liveness import has_moved
from rekindle.testing.fake_engine import FakeEngine
from tests.runtime.kit import NEVER, QUICK, World, ended, until


class FewEngines:
    """`Engines` that make the one of the test, fail so many times, and then make it again."""

    def __init__(self, engine: FakeEngine, *errors: Exception) -> None:
        self._engine = engine
        self._errors = iter([None, *errors])
        self.made = self.forgotten = 0

    def make(self) -> FakeEngine:
        """See `Engines`."""
        error = next(self._errors, None)
        if error is not None:
            raise error
        self.made += 1
        return self._engine

    def forget_failed(self) -> None:
        """See `Engines`."""
        self.forgotten += 1


Start = Callable[..., tuple[rk.JobHandle, FewEngines]]

NOT_STARTED = DefinitionError("SPARK_NOT_STARTED", reason="Java gateway process exited before sending its port number")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def start(world: World) -> Start:
    """Start a job whose engine is replaceable, and let that die."""

    def begin(*errors: Exception, **settings: Any) -> tuple[rk.JobHandle, FewEngines]:
        engines = FewEngines(world.engine, *errors)
        world.engine.lifeline.replaceable = True
        config = {**QUICK, **NEVER, **settings}

        def launched(since: int | None = None, failures: int = 0) -> Any:
            return world.launch(since=since, engine_failures=failures, **config)

        first = launched()
        assert first.prepare(None) is None
        made = Running(first, engines, launched, Config.of(config))
        handle = rk.JobHandle(world.storage, driver=made, run=made.run)
        until(lambda: world.read() == world.rows.available)
        world.engine.lifeline.die("killed by a test")
        world.engine.lifeline.gone = False
        return handle, engines

    return begin


def test_a_session_that_does_not_come_up_is_tried_again_and_the_job_goes_on(world: World, start: Start) -> None:
    world.rows.available, world.rows.ended = 4, False
    away = StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away")
    handle, engines = start(NOT_STARTED, away, OSError("no memory"))
    until(lambda: (run := world.storage.latest_run()) is not None and run.run == 2 and engines.made == 2)
    until(lambda: handle.status().run == 2)
    status = handle.status()
    assert status.failure is not None and status.failure.code == "SPARK_DIED"
    assert "OSError: no memory" in status.failure.message and status.restarts == 4

    world.rows.ended = True

    assert ended(handle).state == "FINISHED"
    assert world.all_committed() and engines.forgotten == 3


def test_a_start_that_fails_in_a_new_session_leaves_no_result_and_is_tried_again(world: World, start: Start) -> None:
    world.rows.available, world.rows.ended = 4, False
    broken = [OSError("the server is away")]
    handle, _ = start()
    world.sinks["out"].before["open"] = lambda: broken and _raise(broken.pop())
    until(lambda: (run := world.storage.latest_run()) is not None and run.run == 3)

    world.rows.ended = True

    assert ended(handle).state == "FINISHED"
    assert world.storage.result(2) is None
    assert world.all_committed()


def test_a_start_that_takes_long_gives_signs_of_life_from_its_claim_on(world: World, start: Start) -> None:
    """From another machine it would look dead: another driver would take over, a request be called unanswered."""
    seen: list[Run | Status] = []

    def look() -> bool:
        found = world.storage.driver()
        if found is not None and (not seen or has_moved(found, seen[-1])):
            seen.append(found)
        return len(seen) == 4

    world.sinks["out"].before["open"] = lambda: len(seen) < 4 and until(look)
    world.rows.available = 4
    handle, _ = start()

    assert {(found.run, found.pid) for found in seen} == {(1, os.getpid())}
    assert [isinstance(found, Run) for found in seen] == [True] * 4, "before its first heartbeat"
    assert ended(handle).state == "FINISHED"


@pytest.mark.parametrize(
    ("errors", "attempts"),
    [([NOT_STARTED] * 9, "2"), ([DefinitionError("TASK_FUNCTION_FAILED", task="t", reason="r")], "unlimited")],
)
def test_the_tries_end_with_the_restart_strategy_and_with_a_mistake_in_the_job(
    world: World, start: Start, errors: list[Exception], attempts: str
) -> None:
    world.rows.available, world.rows.ended = 4, False

    handle, engines = start(*errors, **{"restart.attempts": attempts})

    result = ended(handle)
    assert result.state == "FAILED" and result.error is not None and result.error["code"] == "SPARK_DIED"
    assert engines.made == 1
    status = world.storage.status()
    assert status is not None and status.result == world.storage.result(1), "a list reads the heartbeat alone"


def test_one_who_asks_while_no_session_comes_up_is_answered(world: World, start: Start) -> None:
    world.rows.available, world.rows.ended = 4, False
    handle, engines = start(*[NOT_STARTED] * 100_000, **{"restart.attempts": "unlimited"})
    until(lambda: engines.forgotten > 2)

    sent = client.send(world.storage, client.ControlRequest(verb="cancel"))

    result = ended(handle)
    assert result.state == "FAILED" and result.error is not None and result.error["code"] == "SPARK_DIED"
    with pytest.raises(rk.RekindleError, match="SPARK_DIED"):
        client.wait(client.looks(world.storage, client.ControlRequest(verb="cancel"), sent, 10))  # type: ignore[arg-type]


def _raise(error: Exception) -> None:
    raise error
