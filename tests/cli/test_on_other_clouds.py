"""The verbs on a storage in a container of Azure, in a bucket of Google and in HDFS."""

from __future__ import annotations

import pytest

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.cli.kit import GONE, Command, beat, complete, end, start
from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.gcs import GoogleServer
from tests.servers.hdfs import HdfsServer


@pytest.fixture
def on_azure(azure: AzureServer) -> str:
    return f"abfss://{azure.make_container()}@{ACCOUNT}.dfs.core.windows.net/state"


@pytest.fixture
def on_google(google: GoogleServer) -> str:
    return f"gs://{google.make_bucket()}/state"


@pytest.fixture
def on_hdfs(hdfs: HdfsServer) -> str:
    return f"{hdfs.make_folder()}/state"


@pytest.mark.parametrize("place", ["on_azure", "on_google", "on_hdfs"])
def test_a_job_there_is_listed_shown_inspected_and_forgotten(place: str, request: pytest.FixtureRequest) -> None:
    command = Command(request.getfixturevalue(place))
    job = JobStorage(open_store(command.storage), "bids")
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


def test_a_bucket_that_is_not_there_is_an_error_with_a_next_step(on_azure: str, on_google: str) -> None:
    assert Command(f"abfss://no-such-box@{ACCOUNT}.dfs.core.windows.net/x").error("list") == "STORAGE_UNAVAILABLE"
    assert Command("gs://no-such-bucket/x").error("list") == "STORAGE_UNAVAILABLE"
