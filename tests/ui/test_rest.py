"""What `/api/v1` answers: by its own description, and the same as the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from rekindle.cli.verbs import rekindle
from rekindle.storage import layout
from rekindle.ui.api import PREFIX, ROUTES, Route
from tests.ui.kit import http
from tests.ui.world import HOSTILE, World

STATES = {
    "back-pressured": "RUNNING",
    "failed": "FAILED",
    "failing": "RUNNING",
    "finished": "FINISHED",
    "healthy": "RUNNING",
    "just-started": "RUNNING",
    "lost": "LOST",
    "stopped": "STOPPED",
}


@pytest.fixture(scope="package")
def document(address: str) -> dict:
    return http.get(f"{address}/openapi.json").json()


# One job has the checkpoint that is asked for.
CASES = [
    (route, job)
    for route in ROUTES
    for job in (["healthy"] if "{id}" in route.path else ["healthy", "failing", "failed", "lost", "just-started"])
]


@pytest.mark.parametrize(("route", "job"), CASES, ids=[f"{job}{route.path}" for route, job in CASES])
def test_every_answer_is_as_it_is_described(address: str, document: dict, route: Route, job: str) -> None:
    number = "38" if "savepoint" in route.path else "40"  # no savepoint was made of the first of them
    answer = http.get(address + PREFIX + route.path.format(job=job, id=number))

    described = document["paths"][PREFIX + route.path]["get"]["responses"]
    missing = "savepoint" in route.path and "{id}" in route.path
    assert answer.status_code == (404 if missing else 200), answer.text
    schema = described["default" if missing else "200"]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


def test_the_list_has_the_state_of_each_job(address: str) -> None:
    found = {job["job"]: job["state"] for job in http.get(f"{address}/api/v1/jobs").json()}

    assert found.pop("silent") in ("RUNNING", "SILENT")  # it says so at the second look
    assert found == STATES


def test_numbers_are_those_of_the_command_line(address: str, world: World) -> None:
    said = CliRunner().invoke(rekindle, ["status", "failing", "--storage", world.store.location, "--json"])
    shell = json.loads(said.stdout)
    page = http.get(f"{address}/api/v1/jobs/failing").json()["overview"]
    checkpoints = http.get(f"{address}/api/v1/jobs/failing/checkpoints").json()

    assert (page["run"], page["restarts"]) == (shell["run"], shell["restarts"]) == (2, 7)
    assert page["error"]["code"] == shell["failure"]["code"] == "TASK_FAILED"
    assert page["latest_checkpoint"] == shell["checkpoints"]["latest"] == checkpoints["latest_completed"]["id"] == 39
    assert page["checkpoints_failed"] == shell["checkpoints"]["failed"] == checkpoints["counts"]["failed"] == 10
    assert checkpoints["counts"]["completed"] == shell["checkpoints"]["completed"] == 30


def test_checkpoints_are_listed_as_the_command_line_lists_them(address: str, world: World) -> None:
    said = CliRunner().invoke(rekindle, ["checkpoints", "failing", "--storage", world.store.location, "--json"])
    page = http.get(f"{address}/api/v1/jobs/failing/checkpoints?limit=1000").json()["history"]

    assert [(row["id"], row["status"]) for row in page] == [
        (row["id"], row["status"]) for row in json.loads(said.stdout)
    ]
    assert [row["id"] for row in page if row["kept"]] == [39, 38, 37]


def test_a_checkpoint_has_its_subtasks(address: str) -> None:
    found = http.get(f"{address}/api/v1/jobs/healthy/checkpoints/7").json()

    assert found["overview"]["acknowledged"] == found["overview"]["subtasks"] == 3
    assert [(one["uid"], one["subtask"]) for one in found["record"]["subtasks"]] == [
        ("clean", 0), ("clean", 1), ("hourly", 0),
    ]  # fmt: skip
    assert found["overview"]["commit_ms"] == 47


def test_the_graph_has_what_the_job_consists_of_with_figures_on_its_edges(address: str) -> None:
    found = http.get(f"{address}/api/v1/jobs/healthy/graph").json()

    assert {vertex["id"] for vertex in found["vertices"]} == {
        "source:history", "source:live", "task:clean", "task:hourly", "sink:rows", "sink:counts",
    }  # fmt: skip
    edges = {(edge["source"], edge["target"]): edge["rows_per_second"] for edge in found["edges"]}
    assert edges == {
        ("source:history", "task:clean"): 1_800,
        ("source:live", "task:clean"): 700,
        ("task:clean", "task:hourly"): 2_500,
        ("task:clean", "sink:rows"): 800,
        ("task:hourly", "sink:counts"): 20,
    }
    unread = {(edge["source"], edge["target"]): edge["unread_bytes"] for edge in found["edges"] if edge["unread_bytes"]}
    assert unread == {("task:clean", "task:hourly"): 8_192}, "of both its subtasks"


def test_a_graph_is_known_of_a_run_that_described_nothing(tmp_path) -> None:
    from rekindle.monitoring.monitor import Monitor

    world = World(str(tmp_path))
    written = world.healthy("old")
    run = written.storage.latest_run()
    path = world.store.location + "/" + layout.run("old", 2)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"run": 2, "started_ms": run.started_ms, "host": run.host, "pid": run.pid, "lineage": 1, "format": 1,
                   "process_started": run.process_started}, file)  # fmt: skip

    found = Monitor(world.store).graph("old")

    assert {vertex.id for vertex in found.vertices} == {
        "source:history", "source:live", "task:clean", "task:hourly", "sink:rows", "sink:counts",
    }  # fmt: skip
    assert {(edge.source, edge.target) for edge in found.edges if edge.kind == "channel"} == {
        ("task:clean", "task:hourly")
    }


def test_events_are_asked_for_by_run_and_number(address: str) -> None:
    events = f"{address}/api/v1/jobs/failing/events"

    first = http.get(events, params={"run": 1}).json()
    later = http.get(events, params={"after": first[-1]["number"]}).json()
    last = http.get(events, params={"limit": 1}).json()

    assert {row["event"]["run"] for row in first} == {1}
    assert [row["number"] for row in later] == list(range(first[-1]["number"] + 1, last[0]["number"] + 1))
    assert HOSTILE in last[0]["event"]["error"]["trace"]  # as it is: pages show it as text


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/jobs/nothing", 404, "JOB_UNKNOWN"),
        ("/api/v1/jobs/..%2F..%2Fetc", 404, "ADDRESS_UNKNOWN"),
        ("/api/v1/jobs/%3Cscript%3E", 404, "JOB_UNKNOWN"),
        ("/api/v1/jobs/healthy/checkpoints/4711", 404, "CHECKPOINT_NOT_KNOWN"),
        ("/api/v1/jobs/healthy/checkpoints/seven", 400, "VALUE_INVALID"),
        ("/api/v1/jobs/healthy/rates?since=yesterday", 400, "VALUE_INVALID"),
        ("/api/v1/jobs/healthy/events?run=4711", 404, "RUN_UNKNOWN"),
        ("/api/v1/jobs/healthy/logs?run=4711", 404, "RUN_UNKNOWN"),
        ("/api/v1/nothing", 404, "ADDRESS_UNKNOWN"),
    ],
)
def test_what_there_is_not_is_an_error_with_a_code(address: str, path: str, status: int, code: str) -> None:
    answer = http.get(address + path)

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.headers["content-type"] == "application/json"


def test_jobs_of_several_storages_are_distinguished(tmp_path, serve) -> None:
    stores = []
    for name in ("one", "two"):
        world = World(str(tmp_path / name))
        world.healthy("same")
        stores.append(world.store)
    address = serve(stores)

    ids = [job["id"] for job in http.get(f"{address}/api/v1/jobs").json()]
    second = http.get(f"{address}/api/v1/jobs/1~same").json()["overview"]

    assert ids == ["0~same", "1~same"]
    assert (second["storage"], second["job"]) == (1, "same")
    assert [one["location"] for one in http.get(f"{address}/api/v1/storages").json()] == [
        store.location for store in stores
    ]
    assert http.get(f"{address}/api/v1/jobs/2~same").status_code == 404
    assert len({job["jid"] for job in http.get(f"{address}/v1/jobs/overview").json()["jobs"]}) == 2


def test_what_a_job_read_of_late_is_in_slots_of_its_last_ten_minutes(tmp_path: Path, serve: Callable[..., str]) -> None:
    world = World(str(tmp_path))
    world.healthy("job")
    world.lost("lost")
    world.store.replace(layout.history_segment("job", "rates", 2, 1, 60), b"{")
    (found,) = http.get(f"{serve([world.store])}/api/v1/recent").json()

    assert found["id"] == "job"
    values = found["rows_in_per_second"]
    assert len(values) == 30
    assert [value for value in values if value is not None][-1] == 2_500, "two subtasks that read sources, 1,250 each"
    assert sum(value is not None for value in values) > 25
