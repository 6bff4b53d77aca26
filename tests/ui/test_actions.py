"""Actions: what a driver is asked for, and what comes of its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rekindle.errors import error_from
from rekindle.storage import layout
from rekindle.storage.documents.control import Answer, Request
from tests.runtime.kit import until
from tests.ui.kit import Driver, good, http
from tests.ui.world import World

TOKEN = "correct horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def driver(tmp_path) -> Iterator[Callable[..., Driver]]:
    world = World(str(tmp_path))
    found: list[Driver] = []

    def start(answer: Callable[[Request], Answer | None]) -> Driver:
        found.append(Driver(world, "job", answer))
        return found[-1]

    yield start
    for one in found:
        one.end()


@pytest.mark.parametrize(
    ("verb", "body", "asked", "state"),
    [
        ("checkpoint", {}, ("checkpoint", False, None), "RUNNING"),
        ("savepoint", {"directory": "/saves"}, ("savepoint", False, "/saves"), "RUNNING"),
        ("stop", {}, ("stop", False, None), "STOPPED"),
        ("stop", {"directory": "/saves"}, ("stop", False, "/saves"), "STOPPED"),
        ("drain", {}, ("stop", True, None), "DRAINED"),
        ("cancel", {}, ("cancel", False, None), "CANCELED"),
    ],
)
def test_an_action_asks_the_driver_and_returns_its_answer(driver, serve, verb, body, asked, state) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    answer = http.post(f"{address}/api/v1/jobs/job/{verb}", headers=BEARER, json=body)

    assert answer.status_code == 200, answer.text
    assert [(one.verb, one.drain, one.savepoint) for one in job.requests] == [asked]
    found = answer.json()
    assert (found["done"], found["state"], found["checkpoint"], found["notes"]) == (True, state, 41, ["a note"])


def test_a_savepoint_lies_in_the_storage_where_no_folder_is_named(driver, serve) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    http.post(f"{address}/api/v1/jobs/job/savepoint", headers=BEARER)

    assert [one.savepoint for one in job.requests] == [f"{job.storage.store.location}/{layout.SAVEPOINTS}"]


def test_an_action_that_takes_long_is_asked_for_later(driver, serve) -> None:
    held = threading.Event()

    def answer(request: Request) -> Answer:
        held.wait(60)
        return good(request)

    job = driver(answer)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    begun = http.post(f"{address}/api/v1/jobs/job/checkpoint", headers=BEARER, json={"wait": 0})
    place = f"{address}/api/v1/jobs/job/requests/{begun.json()['request']}"
    early = http.get(place).json()
    held.set()
    for _ in range(600):
        late = http.get(place).json()
        if late["done"]:
            break
        threading.Event().wait(0.05)

    assert (begun.status_code, begun.json()["done"], early["done"]) == (202, False, False)
    assert (late["done"], late["checkpoint"]) == (True, 41)


def test_readers_are_answered_while_more_actions_wait_than_the_server_has_threads(driver, serve) -> None:
    held = threading.Event()
    job = driver(lambda request: good(request) if held.is_set() else None)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    def stop() -> bool:
        return http.post(f"{address}/api/v1/jobs/job/stop", headers=BEARER, json={"wait": 60}, timeout=90).json()[
            "done"
        ]

    with ThreadPoolExecutor(50) as stopping:
        stops = [stopping.submit(stop) for _ in range(50)]
        until(lambda: len(job.requests) == 50)
        seen = http.get(f"{address}/api/v1/jobs", timeout=30).json()
        named = [one.name for one in threading.enumerate()]
        held.set()
        for request in job.requests:
            job.storage.answer(good(request))
        done = [one.result() for one in stops]

    assert [one["job"] for one in seen] == ["job"]
    assert not [name for name in named if name.startswith("rekindle-ui")]
    assert done == [True] * 50


def test_a_request_is_known_by_its_own_job_only(driver, serve) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)
    made = http.post(f"{address}/api/v1/jobs/job/checkpoint", headers=BEARER).json()["request"]

    answer = http.get(f"{address}/api/v1/jobs/other/requests/{made}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "REQUEST_UNKNOWN")


@pytest.mark.parametrize(
    ("directory", "code"),
    [("", "BODY_INVALID"), ("a\0b", "BODY_INVALID"), ("nosuch://a/b", "STORAGE_SCHEME_UNSUPPORTED")],
)
def test_a_job_is_not_stopped_without_the_savepoint_that_was_asked_for(
    driver, serve, directory: str, code: str
) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)
    (found,) = http.get(f"{address}/v1/jobs").json()["jobs"]

    answer = http.post(f"{address}/api/v1/jobs/job/stop", headers=BEARER, json={"directory": directory})
    of_flink = http.post(f"{address}/v1/jobs/{found['id']}/stop", headers=BEARER, json={"targetDirectory": directory})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert (of_flink.status_code, code in of_flink.text) == (400, True)
    assert job.requests == []


@pytest.mark.parametrize("path", ["/api/v1/jobs/job/stop", "/v1/jobs/{id}/stop"])
def test_a_body_that_is_too_long_is_not_read(driver, serve, path: str) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)
    (found,) = http.get(f"{address}/v1/jobs").json()["jobs"]

    answer = http.post(address + path.format(id=found["id"]), headers=BEARER, content=b" " * 65_537)

    assert answer.status_code == 400
    assert "longer than 65536 bytes" in answer.text
    assert job.requests == []


def test_what_the_driver_refuses_is_refused(driver, serve) -> None:
    error = error_from("CANCELED_MEANWHILE", {"job": "job"}).to_json()
    job = driver(lambda request: Answer(id=request.id, job="job", state="RUNNING", answered_ms=1, error=error))
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    answer = http.post(f"{address}/api/v1/jobs/job/stop", headers=BEARER)

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CANCELED_MEANWHILE")


def test_a_job_that_does_not_run_is_not_asked(tmp_path, serve) -> None:
    world = World(str(tmp_path))
    world.failed("over")
    address = serve([world.store], allow_actions=True, token=TOKEN)

    answer = http.post(f"{address}/api/v1/jobs/over/stop", headers=BEARER)

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "JOB_NOT_RUNNING")


@pytest.mark.parametrize(
    "body", ["{", '{"directory": 7}', "[]", '{"savepoint": "/saves"}', '{"drain": true}', '{"direktory": null}']
)
def test_a_body_that_is_not_understood_asks_for_nothing(driver, serve, body: str) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    answer = http.post(f"{address}/api/v1/jobs/job/stop", headers=BEARER, content=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BODY_INVALID")
    assert job.requests == []


@pytest.mark.parametrize("verb", ["checkpoint", "cancel"])
def test_an_option_that_a_verb_has_not_is_refused_unless_it_says_nothing(driver, serve, verb: str) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)

    refused = http.post(f"{address}/api/v1/jobs/job/{verb}", headers=BEARER, json={"directory": "/saves"})
    usual = {"directory": None, "unaligned": False, "wait": 20}
    asked = http.post(f"{address}/api/v1/jobs/job/{verb}", headers=BEARER, json=usual)

    assert (refused.status_code, asked.status_code) == (400, 200)
    assert f"{verb} has no option 'directory'" in refused.json()["error"]["message"]
    assert len(job.requests) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/savepoints", {"cancel-job": True, "target-directory": "/saves"}), ("PATCH", "?mode=stop", None)],
)
def test_what_flink_would_end_with_a_savepoint_is_not_done_in_part(driver, serve, method, path, body) -> None:
    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token=TOKEN)
    line = http.get(f"{address}/v1/jobs/overview").json()["jobs"][0]

    answer = http.request(method, f"{address}/v1/jobs/{line['jid']}{path}", headers=BEARER, json=body)

    assert answer.status_code == 400
    assert "POST /jobs/{job}/stop" in answer.text
    assert job.requests == []


def test_a_flink_client_triggers_a_checkpoint_and_cancels(driver, serve) -> None:
    from flink_rest_client.v1.client import FlinkRestClientV1

    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token="secret")
    host, _, port = address.removeprefix("http://").partition(":")
    jobs = FlinkRestClientV1(host=f"flink:secret@{host}", port=port).jobs
    (job_id,) = jobs.job_ids()

    place = f"{address}/v1/jobs/{job_id}/checkpoints"
    begun = http.post(place, headers={"Authorization": "Bearer secret"}, json={"checkpointType": "FULL"})
    assert begun.status_code == 202
    until(lambda: http.get(f"{place}/{begun.json()['request-id']}").json()["status"]["id"] == "COMPLETED")
    made = http.get(f"{place}/{begun.json()['request-id']}").json()
    assert jobs.terminate(job_id) is True
    until(lambda: len(job.requests) == 2)

    assert made["operation"] == {"location": None, "checkpointId": 41}
    assert [one.verb for one in job.requests] == ["checkpoint", "cancel"]


@pytest.mark.parametrize(("method", "path"), [("POST", "/checkpoints"), ("PATCH", "")])
def test_flinks_verbs_need_the_token_and_leave(driver, serve, method: str, path: str) -> None:
    job = driver(good)
    reading, acting = serve([job.storage.store]), serve([job.storage.store], allow_actions=True, token="secret")
    (found,) = http.get(f"{reading}/v1/jobs").json()["jobs"]

    refused = [http.request(method, f"{one}/v1/jobs/{found['id']}{path}").status_code for one in (reading, acting)]

    assert refused == [403, 401]
    assert job.requests == []


def test_a_flink_client_triggers_savepoints_and_stops(driver, serve) -> None:
    from flink_rest_client.v1.client import FlinkRestClientV1

    job = driver(good)
    address = serve([job.storage.store], allow_actions=True, token="secret")
    host, _, port = address.removeprefix("http://").partition(":")
    jobs = FlinkRestClientV1(host=f"flink:secret@{host}", port=port).jobs
    (job_id,) = jobs.job_ids()

    savepoint = jobs.create_savepoint(job_id, "/saves")
    made = _completed(savepoint)
    stopped = _completed(jobs.stop(job_id, "/saves", drain=True))

    assert made["operation"]["location"] == stopped["operation"]["location"] == "/saves/job-41"
    assert [(one.verb, one.drain) for one in job.requests] == [("savepoint", False), ("stop", True)]


def _completed(trigger) -> dict:
    for _ in range(600):
        status = trigger.status
        if status["status"]["id"] == "COMPLETED":
            return status
        threading.Event().wait(0.05)
    raise AssertionError("it has not completed")
