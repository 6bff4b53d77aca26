"""Flink's REST, as a client of Flink that others wrote reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flink_rest_client.v1.client import FlinkRestClientV1

from rekindle.storage.forgetting import forget_job
from tests.ui.kit import Counting, http
from tests.ui.world import HOSTILE, World


@pytest.fixture
def client(address: str) -> FlinkRestClientV1:
    host, _, port = address.removeprefix("http://").partition(":")
    return FlinkRestClientV1(host=host, port=port)


@pytest.fixture
def ids(client: FlinkRestClientV1) -> dict[str, str]:
    return {job["name"]: job["jid"] for job in client.jobs.overview()}


def test_the_cluster_is_the_storage(client: FlinkRestClientV1, world: World) -> None:
    found = client.overview()

    assert found["jobs-running"] + found["jobs-failed"] + found["jobs-finished"] == 9
    assert (found["jobs-failed"], found["jobs-finished"]) == (2, 2)
    assert client.config()["features"]["web-cancel"] is False


def test_jobs_have_flinks_states(client: FlinkRestClientV1, ids: dict[str, str]) -> None:
    states = {job["name"]: job["state"] for job in client.jobs.overview()}

    assert states.pop("silent") in ("RUNNING", "RECONCILING")
    assert states == {
        "back-pressured": "RUNNING",
        "failed": "FAILED",
        "failing": "RUNNING",
        "finished": "FINISHED",
        "healthy": "RUNNING",
        "just-started": "RUNNING",
        "lost": "FAILED",
        "stopped": "FINISHED",
    }
    assert sorted(client.jobs.job_ids()) == sorted(ids.values())
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids.values())


def test_a_job_has_its_tasks_and_a_plan(client: FlinkRestClientV1, ids: dict[str, str]) -> None:
    job = client.jobs.get(ids["healthy"])
    plan = client.jobs.get_plan(ids["healthy"])

    assert [(one["name"], one["parallelism"], one["status"]) for one in job["vertices"]] == [
        ("Source: history -> Source: live -> clean -> Sink: rows", 2, "RUNNING"),
        ("hourly -> Sink: counts", 1, "RUNNING"),
    ]
    clean, hourly = plan["nodes"]
    assert clean["inputs"] == []
    assert [one["id"] for one in hourly["inputs"]] == [clean["id"]]
    assert client.jobs.get_vertex_ids(ids["healthy"]) == [clean["id"], hourly["id"]]
    assert job["vertices"][0]["metrics"]["read-records"] == 2 * 1_234_567 + 1


def test_checkpoints_and_their_subtasks_are_shown(client: FlinkRestClientV1, ids: dict[str, str]) -> None:
    jobs, job = client.jobs, ids["failing"]

    found = jobs.get_checkpoints(job)
    details = jobs.get_checkpoint_details(job, 39, show_subtasks=True)

    assert found["counts"] == {"restored": 0, "total": 40, "in_progress": 0, "completed": 30, "failed": 10}
    assert found["latest"]["completed"]["id"] == 39
    assert HOSTILE in found["latest"]["failed"]["failure_message"]
    assert jobs.get_checkpoint_ids(job)[:2] == [40, 39]
    assert found["summary"]["end_to_end_duration"]["p50"] > 0
    assert sorted(one["num_subtasks"] for one in details["tasks"].values()) == [1, 2]
    assert jobs.get_checkpointing_configuration(job)["interval"] == 30_000
    assert jobs.get_checkpointing_configuration(job)["mode"] == "exactly_once"


def test_a_task_shows_watermarks_backpressure_and_metrics(client: FlinkRestClientV1, ids: dict[str, str]) -> None:
    job = ids["back-pressured"]
    clean, hourly = client.jobs.get_vertex_ids(job)
    vertex = client.jobs.get_vertex(job, clean)

    assert [one["id"] for one in vertex.watermarks()] == ["0.currentInputWatermark", "1.currentInputWatermark"]
    assert vertex.backpressure()["backpressureLevel"] == "high"
    assert client.jobs.get_vertex(job, hourly).backpressure()["backpressureLevel"] == "ok"
    assert vertex.metrics()["0.backPressuredTimeMsPerSecond"] == "900"
    assert vertex.details()["subtasks"][1]["subtask"] == 1
    assert vertex.subtasks.subtask_ids() == [0, 1]
    assert vertex.subtasks.metrics(["numRecordsIn"], ["sum"])["numRecordsIn"]["sum"] == 2 * 1_234_567 + 1
    assert vertex.subtasktimes()["subtasks"][0]["subtask"] == 0
    assert vertex.taskmanagers()["taskmanagers"][0]["status"] == "RUNNING"
    assert vertex.subtasks.get(1)["status"] == "RUNNING"


def test_errors_are_exceptions_with_their_traces(address: str, ids: dict[str, str]) -> None:
    found = http.get(f"{address}/v1/jobs/{ids['failing']}/exceptions").json()

    assert found["root-exception"].startswith("Traceback (most recent call last)")
    assert found["exceptionHistory"]["entries"][0]["taskName"] == "hourly/0"
    assert (
        http.get(f"{address}/v1/jobs/{ids['failed']}/exceptions").json()["root-exception"].startswith("[TASK_FAILED]")
    )


def test_metrics_of_jobs_are_added_up(client: FlinkRestClientV1, ids: dict[str, str]) -> None:
    found = client.jobs.metrics(["numRestarts"], ["sum", "max"], [ids["failing"], ids["healthy"]])

    assert found == {"numRestarts": {"sum": 12, "max": 12}}


def test_numbers_are_those_of_the_other_interfaces(address: str, ids: dict[str, str]) -> None:
    page = http.get(f"{address}/api/v1/jobs/failing").json()["overview"]
    flink = http.get(f"{address}/v1/jobs/{ids['failing']}/checkpoints").json()
    metrics = http.get(f"{address}/metrics").text

    assert flink["counts"]["completed"] == page["checkpoints_completed"]
    assert flink["latest"]["completed"]["end_to_end_duration"] == page["latest_checkpoint_duration_ms"]
    assert f'job_name="failing"}} {page["latest_checkpoint_duration_ms"]}.0\n' in metrics


def test_a_question_about_one_job_reads_no_other(tmp_path: Path, serve: Callable[..., str]) -> None:
    world = World(str(tmp_path)).many(3)
    store = Counting(world.store.location)
    address = serve([store])
    ids = {job["name"]: job["jid"] for job in http.get(f"{address}/v1/jobs/overview").json()["jobs"]}
    http.get(f"{address}/v1/jobs/{ids['job-001']}")
    store.was_read.clear()

    for name in ("job-001", "job-002"):
        http.get(f"{address}/v1/jobs/{ids[name]}/exceptions").raise_for_status()

    assert not [path for path in store.was_read if path.startswith("job-000/")]
    forget_job(world.jobs["job-002"].storage, 0)
    assert http.get(f"{address}/v1/jobs/{ids['job-002']}").status_code == 404


@pytest.mark.parametrize("path", ["/jobs/nothing", "/jobs/nothing/checkpoints", "/nothing"])
def test_what_there_is_not_is_an_error_of_flinks_form(address: str, path: str) -> None:
    answer = http.get(f"{address}/v1{path}")

    assert answer.status_code == 404
    assert answer.json()["errors"][0].startswith("[JOB_ID_UNKNOWN]" if path.startswith("/jobs") else "[")
