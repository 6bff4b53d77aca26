"""What runs beside a job until it has ended: its log, and its events of OpenLineage. The engine is a stand-in."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from rekindle.beginning import begin
from rekindle.config import Config
from rekindle.errors import DefinitionError, JobError
from rekindle.logs import pieces
from rekindle.logs.pieces import LogPosition
from rekindle.storage.local import LocalStore
from tests.runtime.kit import NEVER, QUICK, World, ended, until
from tests.start.test_running import FewEngines


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_log_and_events_go_on_with_the_next_run_of_the_process(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("openlineage.client")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    caplog.set_level(logging.INFO, "rekindle")
    handlers = logging.getLogger("rekindle").handlers[:]
    world.engine.lifeline.replaceable = True
    world.rows.available, world.rows.ended = 4, False
    config = {**QUICK, **NEVER}

    def launched(since: int | None = None, failures: int = 0) -> Any:
        return world.launch(since=since, engine_failures=failures, **config)

    first = launched()
    assert first.prepare(None) is None
    handle = begin(
        world.definition(), first, FewEngines(world.engine), launched, Config.of(config),
        mode="streaming", spark_config={}, spark_log=lambda: None,
    )  # fmt: skip
    until(lambda: world.read() == 4)
    world.engine.lifeline.die("killed by a test")
    world.engine.lifeline.gone = False
    until(lambda: handle.status().run == 2)
    world.rows.ended = True
    assert ended(handle).state == "FINISHED"

    found = [(place.piece.run, line.message) for place, line in pieces.read(world.storage, LogPosition())]
    assert (1, "run 1 in streaming mode") in found
    assert (2, "run 2 in streaming mode") in found
    assert (2, "run 2 has ended: FINISHED") in found
    sent = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [event["eventType"] for event in (sent[0], sent[-1])] == ["START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in sent}) == 1
    assert sent[0]["outputs"]
    assert logging.getLogger("rekindle").handlers == handlers


def begun(world: World, assemble: Any) -> None:
    """Begin a job of which the engine makes the tasks so."""
    world.engine.assemble = assemble
    launch = world.launch(**NEVER)
    assert launch.prepare(None) is None
    begin(
        world.definition(), launch, FewEngines(world.engine), lambda *_: launch, Config.of({**QUICK, **NEVER}),
        mode="streaming", spark_config={}, spark_log=lambda: None,
    )  # fmt: skip


def test_the_log_of_a_run_that_cannot_start_says_why(world: World) -> None:
    def fails(*_: Any) -> Any:
        raise DefinitionError("TASK_FUNCTION_FAILED", task="count", reason="RuntimeError: boom")

    with pytest.raises(DefinitionError):
        begun(world, fails)

    [(place, line)] = [one for one in pieces.read(world.storage, LogPosition()) if one[1].level == "ERROR"]
    assert place.piece.run == 1
    assert line.message.endswith("[TASK_FUNCTION_FAILED] Building task 'count' failed: RuntimeError: boom")
    assert "in fails" in line.trace


def test_an_error_at_the_start_that_no_one_has_foreseen_has_a_code_a_reason_and_its_cause(world: World) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("division by zero\nand more lines")

    with pytest.raises(JobError) as raised:
        begun(world, fails)

    error = raised.value
    assert (error.code, error.parameters["reason"]) == ("START_FAILED", "ZeroDivisionError: division by zero")
    assert "rekindle logs job" in error.next_step
    assert isinstance(error.__cause__, ZeroDivisionError)
    result = world.storage.result(1)
    assert result is not None and (result.state, result.error) == ("FAILED", error.to_json())
    [(_, line)] = [one for one in pieces.read(world.storage, LogPosition()) if one[1].level == "ERROR"]
    assert "START_FAILED" in line.message and "in fails" in line.trace


def test_what_fails_at_the_start_because_the_engine_is_gone_is_recorded_as_that(world: World) -> None:
    def fails(*_: Any) -> Any:
        world.engine.lifeline.gone = True
        raise ConnectionRefusedError("no JVM")

    with pytest.raises(JobError, match=r"SPARK_DIED.*no JVM"):
        begun(world, fails)

    result = world.storage.result(1)
    assert result is not None and result.error is not None and result.error["code"] == "SPARK_DIED"


def test_an_error_before_the_claim_says_where_its_traceback_is(world: World) -> None:
    def fails() -> None:
        raise OSError("no such host")

    world.engine.before["check_sees"] = fails
    with pytest.raises(JobError, match=r"START_FAILED.*OSError: no such host") as raised:
        begun(world, world.engine.assemble)

    assert "job.run()" in raised.value.next_step
    assert world.storage.latest_run() is None


def test_an_error_before_there_is_an_engine_has_a_code_too(world: World) -> None:
    class Broken(LocalStore):
        def names(self, folder: str) -> list[str]:
            raise ValueError("no such luck")

    world.store = Broken(world.location)
    with pytest.raises(JobError, match=r"START_FAILED.*ValueError: no such luck") as raised:
        world.launch().prepare(None)

    assert "job.run()" in raised.value.next_step


def test_a_run_that_is_interrupted_while_it_starts_is_recorded_as_canceled(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    caplog.set_level(logging.INFO, "rekindle")
    with pytest.raises(KeyboardInterrupt):
        begun(world, interrupted)

    result = world.storage.result(1)
    assert result is not None
    assert (result.state, result.notes) == ("CANCELED", ("It was interrupted while it was starting.",))
    [*_, (_, line)] = pieces.read(world.storage, LogPosition())
    assert (line.level, line.message) == ("INFO", "The start was interrupted.")
