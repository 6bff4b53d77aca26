"""The verbs on a storage in a container of Azure, in a bucket of Google and in HDFS."""

from __future__ import annotations

import pytest

from tests.cli.kit import Command, see_a_job_there
from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.gcs import GoogleServer
from tests.servers.places import place_on


@pytest.mark.parametrize("cloud", ["azure", "google", "hdfs"])
def test_a_job_there_is_listed_shown_inspected_and_forgotten(cloud: str, request: pytest.FixtureRequest) -> None:
    see_a_job_there(f"{place_on(cloud, request)}/state".replace("abfs:", "abfss:"))


def test_a_bucket_that_is_not_there_is_an_error_with_a_next_step(azure: AzureServer, google: GoogleServer) -> None:
    assert Command(f"abfss://no-such-box@{ACCOUNT}.dfs.core.windows.net/x").error("list") == "STORAGE_UNAVAILABLE"
    assert Command("gs://no-such-bucket/x").error("list") == "STORAGE_UNAVAILABLE"
