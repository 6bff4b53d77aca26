"""The verbs on a storage in a bucket."""

from __future__ import annotations

import pytest

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.cli.kit import GONE, Command, beat, complete, end, start
from tests.servers.s3 import S3Server


@pytest.fixture
def command(s3: S3Server) -> Command:
    return Command(f"s3://{s3.make_bucket()}/state")


@pytest.fixture
def job(command: Command) -> JobStorage:
    return JobStorage(open_store(command.storage), "bids")


def test_a_job_in_a_bucket_is_listed_shown_inspected_and_forgotten(command: Command, job: JobStorage) -> None:
    start(job, **GONE)
    beat(job, **GONE)
    complete(job, 7)
    end(job, "STOPPED", checkpoint=7)

    assert [(one["job"], one["state"]) for one in command.json("list")] == [("bids", "STOPPED")]
    assert command.json("status", "bids")["checkpoints"]["latest"] == 7
    [checkpoint] = command.json("checkpoints", "bids")
    assert checkpoint["path"] == f"{command.storage}/bids/checkpoints/000000007"
    assert command("inspect", checkpoint["path"]).exit_code == 0
    assert command("forget", "bids", "--yes").exit_code == 0
    assert command.json("list") == []
    assert list(job.store.walk("")) == []


def test_a_bucket_that_is_not_there_is_an_error_with_a_next_step(s3: S3Server) -> None:
    assert Command("s3://no-such-bucket/state").error("list") == "STORAGE_UNAVAILABLE"
