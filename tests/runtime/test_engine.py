"""What a driver does when the engine of its queries dies, and when it looks as if something else had gone wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import ControlError
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.runtime import client
from rekindle.storage import layout
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.runtime.kit import NEVER, TASK, World, ended, until


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_whose_engine_dies_fails_with_a_code_where_there_is_no_other(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)

    world.engine.lifeline.die("killed by a test")

    result = ended(handle)
    assert result.state == "FAILED" and result.error is not None
    assert (result.error["code"], result.error["parameters"]) == ("SPARK_DIED", {"reason": "killed by a test"})


def test_a_run_that_is_left_to_another_has_no_result(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    world.engine.lifeline.replaceable = True
    driver, storage = world.driver(**NEVER)
    world.post(e.EngineDied(reason="killed", replaceable=True))

    over = driver.run()

    assert isinstance(over, c.FailOver) and over.failures == 1
    assert storage.result(1) is None


def test_what_fails_for_good_while_the_engine_dies_is_tried_again(world: World) -> None:
    world.rows.available = 10
    world.engine.lifeline.gone = True
    driver, _ = world.driver(**NEVER)
    world.post(e.TaskFailed(task=SubtaskId(TASK, 0), reason="a file has vanished", permanent=True))

    ending = driver.run()

    assert not isinstance(ending, c.FailOver) and ending.state == "FINISHED"


def test_a_request_is_answered_by_the_run_that_continues_in_the_same_process(tmp_path: Path) -> None:
    storage = JobStorage(LocalStore(str(tmp_path)), "job")
    first = Run(run=1, started_ms=0, lineage=1, **client_process())
    storage.fence.claim(first)
    request = client.send(storage, client.ControlRequest(verb="stop"))
    storage.fence.claim(replace(first, run=2, since=1))

    with pytest.raises(ControlError, match="REQUEST_TIMED_OUT"):
        client.wait(client.looks(storage, client.ControlRequest(verb="stop"), request, timeout_s=0.05))  # type: ignore[arg-type]

    storage.fence.claim(replace(first, run=3))
    with pytest.raises(ControlError, match="REQUEST_STALE"):
        client.wait(client.looks(storage, client.ControlRequest(verb="stop"), request))  # type: ignore[arg-type]
    assert storage.store.exists(layout.run("job", 3))


def client_process() -> dict[str, object]:
    """This process, as a run names it."""
    from rekindle.storage.liveness import this_process

    return dict(this_process()._asdict())
