"""What is broken in one job, or away, hides no other job."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rekindle.monitoring.monitors import Monitors
from rekindle.storage import layout
from rekindle.ui.api import PREFIX, ROUTES
from rekindle.ui.security import Policy
from rekindle.ui.server import application
from tests.jobs.kit import until
from tests.ui.kit import http
from tests.ui.world import World


def test_one_damaged_job_hides_no_other(tmp_path, serve) -> None:
    world = World(str(tmp_path))
    world.healthy("good")
    world.healthy("bad")
    with open(f"{world.store.location}/{layout.run('bad', 2)}", "w", encoding="utf-8") as file:
        file.write("{")

    found = {job["job"]: job for job in http.get(f"{serve([world.store])}/api/v1/jobs").json()}

    assert found["good"]["state"] == "RUNNING"
    assert (found["bad"]["state"], found["bad"]["error"]["code"]) == ("UNREADABLE", "OBJECT_CORRUPT")


def test_of_a_job_that_cannot_be_read_any_more_no_figure_is_exported_but_its_state(tmp_path: Path) -> None:
    world = World(str(tmp_path))
    world.healthy("bad")
    client = TestClient(application(Monitors([world.store]), Policy()), base_url="http://127.0.0.1")
    before = client.get("/metrics").text
    assert "rekindle_job_rows_in{" in before
    (tmp_path / layout.run("bad", 2)).write_text("{")

    monitors = Monitors([world.store])
    client = TestClient(application(monitors, Policy()), base_url="http://127.0.0.1")
    found = client.get("/metrics").text

    of_job = {line.partition("{")[0] for line in found.splitlines() if 'job_name="bad"' in line}
    assert of_job == {"rekindle_job_state"}


BROKEN = {
    "cut off": b'{"format": 1, "run',
    "not text": b"\xff\xfe\0{}",
    "without end": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "of another kind": b"[]",
    "without fields": b'{"format": 1}',
    "newer": b'{"format": 99}',
    "numbers": rb"\1: -99999999999999",
}
"""What may stand where a document stood; of the last one, its numbers."""


@pytest.mark.parametrize("how", BROKEN)
def test_whatever_is_broken_in_one_job_no_answer_about_another_is(tmp_path: Path, how: str) -> None:
    world = World(str(tmp_path), checkpoints=4)
    world.healthy("good")
    world.failing("bad")
    documents = [file for file in (tmp_path / "bad").rglob("*") if file.is_file()]
    assert len(documents) > 10
    for document in documents:
        whole = document.read_bytes()
        numbers = re.sub(rb'("\w+"):\s*\d+', BROKEN[how], whole)
        document.write_bytes(numbers if how == "numbers" else BROKEN[how])
        app = application(Monitors([world.store]), Policy())
        # One loop for all requests: each would start one, and a thread, of its own.
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            for path in ("/api/v1/jobs", "/api/v1/storages", "/api/v1/recent", "/metrics", "/v1/jobs/overview"):
                assert client.get(path).status_code == 200, (document, path)
            for route in ROUTES:
                path = PREFIX + route.path.replace("{id}", "4")
                assert client.get(path.replace("{job}", "good")).status_code == 200 or "contents" in path
                assert client.get(path.replace("{job}", "bad")).status_code in (200, 404, 409, 503), (document, path)
            assert [job["state"] for job in client.get("/api/v1/jobs").json() if job["job"] == "good"] == ["RUNNING"]
        document.write_bytes(whole)


def test_a_folder_that_may_not_be_looked_into_hides_no_other_job(tmp_path: Path, serve: Callable[..., str]) -> None:
    world = World(str(tmp_path))
    world.healthy("good")
    world.healthy("bad")
    identity = tmp_path / layout.identity("bad")
    identity.unlink()
    identity.symlink_to(identity)  # root may look into all, but not through this

    found = {job["job"]: job for job in http.get(f"{serve([world.store])}/api/v1/jobs").json()}

    assert found["good"]["state"] == "RUNNING"
    assert (found["bad"]["state"], found["bad"]["error"]["code"]) == ("UNREADABLE", "STORAGE_UNAVAILABLE")


def test_a_storage_that_is_away_hides_no_job_of_another_and_is_said(tmp_path: Path, serve: Callable[..., str]) -> None:
    there, away = World(str(tmp_path / "there")), World(str(tmp_path / "away"))
    there.healthy("job")
    away.healthy("job")
    address = serve([there.store, away.store])
    assert len(http.get(f"{address}/v1/jobs/overview").json()["jobs"]) == 2
    (tmp_path / "away").rename(tmp_path / "elsewhere")

    def told() -> list[str | None]:
        return [one["error"] and one["error"]["code"] for one in http.get(f"{address}/api/v1/storages").json()]

    until(lambda: told() == [None, "STORAGE_MISSING"])
    for path in ("/api/v1/jobs", "/api/v1/recent"):
        assert [one["id"] for one in http.get(address + path).json()] == ["0~job"]
    assert len(http.get(f"{address}/v1/jobs/overview").json()["jobs"]) == 1
    assert http.get(f"{address}/api/v1/jobs/1~job").status_code == 404
    measured = http.get(f"{address}/metrics").text
    assert f'rekindle_storage_up{{storage="{away.store.location}"}} 0.0' in measured
    assert f'rekindle_storage_up{{storage="{there.store.location}"}} 1.0' in measured

    (tmp_path / "elsewhere").rename(tmp_path / "away")
    until(lambda: told() == [None, None])
