"""The events of a run, as a server gets them; and that no server can harm a job."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ControlError
from rekindle.openlineage.datasets import Dataset
from rekindle.openlineage.emitter import Emitter, SendingPauses, emitting, is_configured, named
from rekindle.redaction import Redaction
from rekindle.storage.documents.runs import Result
from tests.waiting import until

pytest.importorskip("openlineage.client")

from rekindle.openlineage.events import RunEvents, RunFacts  # it needs the client

HURRY = SendingPauses(look_s=0.01, running_s=0, again_s=0.01, leave_s=60)

FACTS = RunFacts(
    job=Dataset("prod", "bids"),
    identity="1a2b",
    run=3,
    mode="streaming",
    engine="4.3.0",
    inputs=(Dataset("file", "/a"), Dataset("kafka://k:9092", "t")),
    outputs=(Dataset("s3://lake", "out"),),
)


class Server:
    """A server of lineage, which keeps what it is sent."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        #: statuses of the next answers; then 201
        self.answers: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.answers.pop(0) if outer.answers else 201
                if status == 201:
                    outer.events.append(json.loads(body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def states(self) -> list[str]:
        return [event["eventType"] for event in self.events]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    made = Server()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENLINEAGE_URL", made.address)
    # The client writes variables of its own for what it finds.
    for name in ("TYPE", "URL"):
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__{name}", "x")
        monkeypatch.delenv(f"OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__{name}")
    yield made
    made.server.shutdown()
    made.server.server_close()


def make() -> RunEvents:
    return RunEvents(FACTS, Redaction())


def result(state: str, **changes: Any) -> Result:
    return Result(run=3, state=state, ended_ms=1_735_689_600_123, **changes)


def test_a_run_is_start_running_at_checkpoints_and_complete(server: Server) -> None:
    completed = [7]
    with emitting(make, lambda: completed[0], HURRY) as ended:
        until(lambda: server.states == ["START"])
        for number in (8, 9):
            completed[0] = number
            until(lambda number=number: server.states == ["START", *["RUNNING"] * (number - 7)])
        assert ended(result("STOPPED")).state == "STOPPED"

    assert server.states == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    for event in server.events:
        assert event["run"]["runId"] == str(uuid.UUID(event["run"]["runId"])) == server.events[0]["run"]["runId"]
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert event["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
        assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "bids")
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
        assert [(one["namespace"], one["name"]) for one in event["inputs"]] == [*FACTS.inputs]
        assert [(one["namespace"], one["name"]) for one in event["outputs"]] == [*FACTS.outputs]
        facets = (event["run"]["facets"]["processing_engine"], event["job"]["facets"]["jobType"])
        assert all(facet["_producer"] == event["producer"] and "_schemaURL" in facet for facet in facets)


@pytest.mark.parametrize(
    ("state", "said"),
    [("FINISHED", "COMPLETE"), ("DRAINED", "COMPLETE"), ("CANCELED", "ABORT"), ("FAILED", "FAIL")],
)
def test_how_a_run_has_ended(server: Server, state: str, said: str) -> None:
    error = {"code": "TASK_FAILED", "message": "no password=hunter22"} if state == "FAILED" else None
    with emitting(make, lambda: 0, HURRY) as ended:
        ended(result(state, error=error))

    assert server.states == ["START", said]
    facet = server.events[-1]["run"]["facets"].get("errorMessage")
    assert (facet and facet["message"]) == ("[TASK_FAILED] no password=***" if error else None)


def test_a_client_that_refuses_the_first_event_ends_no_job(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        def started(self, at: Any) -> Any:
            raise TypeError("a field that this client does not know")

    with emitting(Refusing, lambda: 0, HURRY) as ended:  # type: ignore[arg-type]
        assert ended(result("FINISHED")).state == "FINISHED"

    assert server.events == []
    assert "a field that this client does not know" in caplog.text


def test_a_driver_that_ends_by_an_error_has_failed(server: Server) -> None:
    with (
        pytest.raises(ControlError, match="DRIVER_FENCED"),
        emitting(make, lambda: 1 // 0, HURRY),
    ):
        raise ControlError("DRIVER_FENCED", run=3, job="bids", newer=4)

    assert server.states == ["START", "FAIL"]


def test_a_server_that_is_away_at_first_hears_of_the_start_before_the_end(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [400] * 5
    with emitting(make, lambda: 0, HURRY) as ended:
        until(lambda: server.states == ["START"])
        ended(result("FINISHED"))

    assert server.states == ["START", "COMPLETE"]
    assert caplog.text.count("was not sent") == 1


@pytest.mark.parametrize("when", ["before the first is sent", "while it is sent again"])
def test_a_run_that_ends_at_an_awkward_moment_begins_once(when: str) -> None:
    sent: list[str] = []
    tries = itertools.count()

    def end() -> None:
        with suppress(RuntimeError):  # it cannot wait for the thread that it is called in, or that has not begun
            made.end(result("FINISHED"))

    def send(event: Any) -> None:
        if next(tries) == 0 and when != "before the first is sent":
            raise OSError
        sent.append(event.eventType.value)
        if event.eventType.value == "START" and when != "before the first is sent":
            end()

    made = Emitter(send, make(), lambda: 0, HURRY)
    if when == "before the first is sent":
        end()
    made.start()
    until(lambda: sent[-1:] == ["COMPLETE"])
    assert sent == ["START", "COMPLETE"]


def test_a_checkpoint_completed_while_the_beginning_is_sent_is_reported() -> None:
    sent: list[str] = []
    completed = [7]

    def send(event: Any) -> None:
        sent.append(event.eventType.value)
        completed[0] = 8

    made = Emitter(send, make(), lambda: completed[0], HURRY)
    made.start()
    until(lambda: sent == ["START", "RUNNING"])
    made.end(result("FINISHED"))
    assert sent == ["START", "RUNNING", "COMPLETE"]


def test_a_server_that_hangs_or_is_not_there_holds_up_no_end(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    briefly = replace(HURRY, leave_s=0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{port}")
        with emitting(make, lambda: 0, briefly) as ended:
            ended(result("FINISHED"))
        # It came this far without an answer.
    with emitting(make, lambda: 0, briefly) as ended:  # nothing listens there any more
        assert ended(result("FINISHED")).state == "FINISHED"
    assert server.events == []


def test_nothing_is_sent_where_nothing_is_configured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_configured()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not is_configured()
    monkeypatch.delenv("OPENLINEAGE_DISABLED")
    monkeypatch.delenv("OPENLINEAGE_URL")
    assert not is_configured()
    with emitting(lambda: pytest.fail("not asked for"), lambda: 0) as ended:
        ended(result("FINISHED"))
    Path("openlineage.yml").write_text(f"transport:\n  type: http\n  url: {server.address}\n")
    assert is_configured()
    with emitting(make, lambda: 0, HURRY) as ended:
        ended(result("FINISHED"))
    assert server.states == ["START", "COMPLETE"]
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "prod")
    assert named("bids") == ("prod", "bids")


def test_a_configuration_that_cannot_be_used_is_said_and_ends_no_job(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENLINEAGE_URL")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "no_such_transport")
    with caplog.at_level(logging.WARNING, "rekindle"), emitting(make, lambda: 0, HURRY) as ended:
        assert ended(result("FINISHED")).state == "FINISHED"

    assert "its configuration cannot be used" in caplog.text
