"""The verbs on a storage in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.storage.open import open_store
from tests.cli.kit import Command, see_a_job_there
from tests.servers.s3 import S3Server
from tests.ui.kit import http, serving
from tests.ui.world import World


@pytest.fixture
def command(s3: S3Server) -> Command:
    return Command(f"s3://{s3.make_bucket()}/state")


def test_a_job_in_a_bucket_is_listed_shown_inspected_and_forgotten(command: Command) -> None:
    see_a_job_there(command.storage)


def test_pages_rest_and_metrics_show_the_jobs_of_a_bucket(command: Command, tmp_path: Path) -> None:
    world, store = World(str(tmp_path), checkpoints=19), open_store(command.storage)
    world.failed("orders")
    for entry in world.store.walk(""):
        store.create(entry.path, world.store.read(entry.path))

    with serving(command.storage) as address:
        (line,) = http.get(f"{address}api/v1/jobs").json()
        place = f"{address}api/v1/jobs/orders"
        newest = http.get(f"{place}/checkpoints").json()["latest_completed"]
        inside = http.get(f"{place}/checkpoints/{newest['id']}/contents").json()
        log = http.get(f"{place}/logs?limit=1").json()
        (flink,) = http.get(f"{address}v1/jobs/overview").json()["jobs"]
        metrics = http.get(f"{address}metrics").text
        page = http.get(address)

    assert (line["job"], line["state"], line["error"]["code"]) == ("orders", "FAILED", "TASK_FAILED")
    assert inside["path"] == f"{command.storage}/orders/checkpoints/{newest['id']:09d}"
    assert [(one["uid"], one["batch"]) for one in inside["subtasks"]][-1] == ("hourly", newest["id"])
    assert log[0]["level"] == "ERROR"
    assert flink["state"] == "FAILED"
    assert f'rekindle_storage_up{{storage="{command.storage}"}} 1.0' in metrics
    assert page.status_code == 200 and "<title>" in page.text


def test_a_bucket_that_is_not_there_is_an_error_with_a_next_step(s3: S3Server) -> None:
    assert Command("s3://no-such-bucket/state").error("list") == "STORAGE_UNAVAILABLE"
