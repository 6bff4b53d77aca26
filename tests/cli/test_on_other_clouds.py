"""The verbs on a storage in a container of Azure, in a bucket of Google and in HDFS."""

from __future__ import annotations

import pytest

from tests.cli.kit import Command, see_a_job_there
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
    see_a_job_there(request.getfixturevalue(place))


def test_a_bucket_that_is_not_there_is_an_error_with_a_next_step(on_azure: str, on_google: str) -> None:
    assert Command(f"abfss://no-such-box@{ACCOUNT}.dfs.core.windows.net/x").error("list") == "STORAGE_UNAVAILABLE"
    assert Command("gs://no-such-bucket/x").error("list") == "STORAGE_UNAVAILABLE"
