"""checkpoint, savepoint, stop and cancel, with a driver that answers, refuses, hangs, dies or is replaced."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import ControlError
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.pauses import Pauses
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Committed, SubtaskSnapshot
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore
from tests.cli.kit import GONE, Command, Reply, answer, beat, complete, end, start

Drive = Callable[[Reply], list[Request]]


def test_checkpoint_prints_what_the_driver_answers(command: Command, job: JobStorage, drive: Drive) -> None:
    start(job)
    seen = drive(lambda request: answer(request, checkpoint=8))

    assert command.json("checkpoint", "bids") == {
        "job": "bids",
        "state": "RUNNING",
        "checkpoint": 8,
        "savepoint": None,
    }
    assert [(request.verb, request.run) for request in seen] == [("checkpoint", 1)]
    assert command("checkpoint", "bids").stdout == "bids  RUNNING\n  checkpoint  8\n"


def test_a_savepoint_goes_to_an_absolute_place_also_when_none_is_given(
    command: Command, job: JobStorage, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start(job)
    seen = drive(lambda request: answer(request, checkpoint=8, savepoint=request.savepoint))

    assert command.json("savepoint", "bids", "mine")["savepoint"] == str(tmp_path / "mine")
    unnamed = command.json("savepoint", "bids", "--unaligned")["savepoint"]

    assert unnamed == f"{command.storage}/_savepoints"
    assert [request.unaligned for request in seen] == [False, True]


def test_stop_asks_for_what_its_options_say_and_tells_the_notes(
    command: Command, job: JobStorage, drive: Drive, tmp_path: Path
) -> None:
    start(job)
    seen = drive(lambda request: answer(request, "DRAINED", checkpoint=9, savepoint=request.savepoint, notes=("left",)))

    result = command("stop", "bids", "--drain", "--savepoint", str(tmp_path / "s"))

    assert result.exit_code == 0
    assert result.stdout == f"bids  DRAINED\n  checkpoint  9\n  savepoint   {tmp_path / 's'}\n"
    assert result.stderr == "note: left\n"
    assert (seen[0].verb, seen[0].drain, seen[0].savepoint) == ("stop", True, str(tmp_path / "s"))


def test_the_drivers_refusal_is_printed_as_it_was_raised(command: Command, job: JobStorage, drive: Drive) -> None:
    start(job)
    error = ControlError("STOP_REFUSED", job="bids", state="STOPPING").to_json()
    typed = f"Wait for it: rekindle status --storage {command.storage} bids"
    drive(lambda request: answer(request, "STOPPING", error=error))

    assert command.error("stop", "bids") == "STOP_REFUSED"
    assert command.json("stop", "bids", code=1) == {"error": {**error, "next_step": typed}}


def test_a_savepoint_is_refused_in_the_folder_of_its_job_which_forget_deletes(
    command: Command, job: JobStorage, tmp_path: Path
) -> None:
    start(job)
    (tmp_path / "link").symlink_to(command.storage)
    for inside in (f"{command.storage}/bids", f"{command.storage}/bids/saves", str(tmp_path / "link" / "bids")):
        assert command.error("savepoint", "bids", inside) == "SAVEPOINT_FAILED"
        assert command.error("stop", "bids", "--savepoint", inside) == "SAVEPOINT_FAILED"
    assert job.store.names(layout.control("bids")) == []
    end(job, "STOPPED")
    assert command.error("savepoint", "bids", f"{command.storage}/bids") == "SAVEPOINT_FAILED"
    assert command.error("savepoint", "bids", f"{command.storage}/bids-saves") == "SAVEPOINT_WITHOUT_CHECKPOINT"


def test_a_savepoint_of_a_job_that_does_not_run_needs_a_checkpoint_that_is_committed(
    command: Command, job: JobStorage
) -> None:
    assert command.error("savepoint", "bids") == "JOB_UNKNOWN"
    start(job, **GONE)
    assert command.error("savepoint", "bids") == "SAVEPOINT_WITHOUT_CHECKPOINT"
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    assert command.error("savepoint", "bids") == "SAVEPOINT_WITHOUT_CHECKPOINT"
    complete(job, 7)
    assert command.error("savepoint", "bids") == "CHECKPOINT_NOT_COMMITTED"
    assert job.store.names("_savepoints") == []


@pytest.mark.parametrize("verb", ["checkpoint", "stop", "cancel"])
def test_no_request_is_made_when_no_driver_runs(verb: str, command: Command, job: JobStorage) -> None:
    assert command.error(verb, "bids") == "JOB_UNKNOWN"
    start(job, **GONE)
    assert command.error(verb, "bids") == "JOB_NOT_RUNNING"
    end(job, "FAILED")
    assert command.error(verb, "bids") == "JOB_NOT_RUNNING"
    assert job.control().requests == ()


@pytest.mark.parametrize(
    ("arguments", "state", "code"),
    [
        (["stop"], "STOPPED", 0),
        (["stop"], "FINISHED", 0),
        (["stop"], "DRAINED", 0),
        (["stop"], "CANCELED", 1),
        (["stop", "--drain"], "DRAINED", 0),
        (["stop", "--drain"], "STOPPED", 1),
        (["cancel"], "CANCELED", 0),
        (["cancel"], "STOPPED", 0),
        (["checkpoint"], "STOPPED", 1),
    ],
)
def test_asking_twice_is_harmless_where_what_was_asked_is_done(
    arguments: list[str], state: str, code: int, command: Command, job: JobStorage
) -> None:
    start(job)
    end(job, state, checkpoint=9)

    document = command.json(*arguments, "bids", code=code)

    if code == 0:
        assert document == {"job": "bids", "state": state, "checkpoint": 9, "savepoint": None}
    else:
        assert document["error"]["code"] == "JOB_NOT_RUNNING"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("STOPPED", "Start it: rekindle run"),
        ("CANCELED", "Start it: rekindle run"),
        ("LOST", "it resumes: rekindle run"),
        ("FAILED", "See why: rekindle status"),
        ("FINISHED", "It is complete"),
        ("DRAINED", "--allow-drained"),
    ],
)
def test_what_to_do_with_a_job_that_does_not_run_depends_on_how_it_ended(
    state: str, words: str, command: Command, job: JobStorage
) -> None:
    start(job, **GONE)
    if state != "LOST":
        end(job, state)

    error = command.json("checkpoint", "bids", code=1)["error"]

    assert (error["code"], error["parameters"]["state"]) == ("JOB_NOT_RUNNING", state)
    assert words in error["next_step"]


def test_a_stop_can_be_asked_not_to_wait_and_a_drain_cannot(command: Command, job: JobStorage, drive: Drive) -> None:
    start(job)
    seen = drive(lambda request: answer(request, "STOPPED", savepoint=request.savepoint))

    assert command("stop", "bids", "--savepoint", "/s", "--unaligned").exit_code == 0
    assert (seen[0].verb, seen[0].savepoint, seen[0].unaligned) == ("stop", "/s", True)
    assert command("stop", "bids", "--drain", "--unaligned").exit_code == 2


@pytest.mark.parametrize("made", [None, "/elsewhere/bids-000000009-3e222f", "/saves/bids-000000009-3e222f"])
def test_a_stopped_job_cannot_give_the_savepoint_it_was_not_asked_for(
    made: str | None, command: Command, job: JobStorage
) -> None:
    start(job)
    end(job, "STOPPED", savepoint=made)

    assert command.error("stop", "bids", "--savepoint", "/s") == "JOB_NOT_RUNNING"


def test_a_stop_that_is_repeated_names_the_savepoint_that_it_has_made(command: Command, job: JobStorage) -> None:
    start(job)
    end(job, "STOPPED", savepoint="/s/bids-000000009-3e222f")

    assert command.json("stop", "bids", "--savepoint", "/s/")["savepoint"] == "/s/bids-000000009-3e222f"


def test_a_request_that_is_not_answered_in_time_stands(command: Command, job: JobStorage) -> None:
    start(job)

    assert command.error("stop", "bids", "--timeout", "0.1") == "REQUEST_TIMED_OUT"
    assert [request.verb for request in job.control().requests] == ["stop"]


def test_a_cancel_that_the_driver_does_not_answer_says_which_process_to_end(command: Command, job: JobStorage) -> None:
    run = start(job)

    told = command.json("cancel", "bids", "--timeout", "0.1", code=1)["error"]

    assert told["code"] == command.error("cancel", "bids", "--timeout", "0") == "CANCEL_TIMED_OUT"
    assert told["parameters"] == {"seconds": "0.1", "job": "bids", "pid": run.pid, "host": run.host}
    assert f"kill -9 {run.pid}" in told["next_step"]
    assert {request.verb for request in job.control().requests} == {"cancel"}
    request = client.send(job, ControlRequest(verb="cancel"))
    assert isinstance(request, Request)
    with pytest.raises(ControlError, match="CANCEL_TIMED_OUT"):
        client.wait(client.looks(job, ControlRequest(verb="cancel"), request, pauses=Pauses(cancel_s=0.1)))


def test_detached_returns_at_once_with_the_requests_id(command: Command, job: JobStorage) -> None:
    start(job)

    printed = command("stop", "bids", "--detached").stdout.strip()
    document = command.json("stop", "bids", "--detached")

    assert {request.id for request in job.control().requests} == {printed, document["request"]}


def test_a_cancel_is_answered_while_a_stop_hangs(command: Command, job: JobStorage, drive: Drive) -> None:
    start(job)

    def reply(request: Request) -> Answer | None:
        if request.verb == "stop":
            return None
        end(job, "CANCELED")
        return answer(request, "CANCELED")

    drive(reply)
    wanted = ControlRequest(verb="stop")
    request = client.send(job, wanted)
    assert isinstance(request, Request)
    with ThreadPoolExecutor() as threads:
        stop = threads.submit(client.wait, client.looks(job, wanted, request, 60))

        assert command.json("cancel", "bids")["state"] == "CANCELED"
        assert getattr(stop.exception(), "code", None) == "CANCELED_MEANWHILE"


ENDS: dict[str, tuple[str, Callable[[JobStorage], object]]] = {
    "its driver died": ("JOB_NOT_RUNNING", lambda job: beat(job, **GONE)),
    "a newer run took over": ("REQUEST_STALE", start),
    "it was canceled": ("CANCELED_MEANWHILE", lambda job: end(job, "CANCELED")),
    "it finished": ("JOB_NOT_RUNNING", lambda job: end(job, "FINISHED")),
    "it failed": (
        "QUERY_DIED",
        lambda job: end(job, "FAILED", error={"code": "QUERY_DIED", "parameters": {"task": "t", "reason": "r"}}),
    ),
}


@pytest.mark.parametrize("what_happens", ENDS)
def test_a_verb_that_waits_notices_that_no_driver_will_answer(
    what_happens: str, command: Command, job: JobStorage, drive: Drive
) -> None:
    code, happen = ENDS[what_happens]
    start(job)

    def reply(request: Request) -> None:
        happen(job)

    drive(reply)

    assert command.json("checkpoint", "bids", code=1)["error"]["code"] == code


def test_a_stop_is_done_when_the_job_has_ended_by_itself_meanwhile(
    command: Command, job: JobStorage, drive: Drive
) -> None:
    start(job)

    def reply(request: Request) -> None:
        end(job, "FINISHED", checkpoint=9)

    drive(reply)

    assert command.json("stop", "bids")["state"] == "FINISHED"


def test_a_job_that_was_killed_on_another_machine_gets_a_savepoint_of_its_last_checkpoint(
    command: Command, job: JobStorage, impatient: None
) -> None:
    run = start(job, host="elsewhere")
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    manifest = replace(complete(job, 1), tasks={"hourly": {0: SubtaskSnapshot(batch=-1)}})
    job.replace(layout.manifest(layout.checkpoint("bids", 1)), manifest)
    beat(job, host="elsewhere")
    job.create(layout.committed(layout.checkpoint("bids", 1)), Committed(checkpoint=1, run=run.run, committed_ms=0))

    said = command.json("savepoint", "bids")
    assert (said["state"], said["checkpoint"]) == ("LOST", 1)


def test_a_driver_on_another_machine_is_given_up_when_its_heartbeat_stands_still(impatient: None) -> None:
    job = JobStorage(MemoryStore(), "bids")
    start(job, host="elsewhere")
    beat(job, host="elsewhere")
    wanted = ControlRequest(verb="stop")
    request = client.send(job, wanted)
    assert isinstance(request, Request)

    with pytest.raises(ControlError) as caught:
        client.wait(client.looks(job, wanted, request))

    assert caught.value.code == "JOB_NOT_RUNNING"
    assert caught.value.parameters["state"] == "LOST"


def test_ids_of_requests_sort_by_time_and_differ() -> None:
    ids = [client.new_id(now_ms) for now_ms in (9, 9, 10, 1_735_689_600_000)]

    assert [one.split("-")[0] for one in sorted(ids)] == [one.split("-")[0] for one in ids]
    assert len(set(ids)) == 4
