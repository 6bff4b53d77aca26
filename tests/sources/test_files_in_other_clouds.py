"""`Files` that lie on Azure or Google."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, InputError
from rekindle.sources import Files
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from tests.servers.azurite import ACCOUNT
from tests.sources.files_contract import FilesContract, ReadingContract

CLOUDS = ("azure", "google")
NEEDED = {"azure": "spark_on_azure", "google": "spark_on_google"}


@pytest.fixture(params=CLOUDS)
def folder(request: pytest.FixtureRequest) -> Store:
    """A folder in a container or bucket of its own."""
    server = request.getfixturevalue(request.param)
    if request.param == "azure":
        return open_store(f"abfs://{server.make_container()}@{ACCOUNT}.dfs.core.windows.net/in it")
    return open_store(f"gs://{server.make_bucket()}/in it")


@pytest.fixture
def spark_there(folder: Store, request: pytest.FixtureRequest) -> SparkSession:
    """The session, which reaches the same cloud."""
    return request.getfixturevalue(NEEDED[request.node.callspec.params["folder"]])


class TestFiles(FilesContract):
    """Those of a cloud."""


@pytest.mark.slow
class TestReading(ReadingContract):
    """Those of a cloud."""


def test_a_missing_container_is_reported(folder: Store) -> None:
    place = folder.location.replace("gs://", "gs://no").replace("abfs://", "abfs://no")
    with pytest.raises(InputError) as error:
        Files(f"{place}/in").list_files("history")
    assert error.value.code in ("FILE_UNREADABLE", "PATH_MISSING")


def test_the_account_of_az_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "weather")
    assert Files("az://readings/2025/*").paths == ("abfss://readings@weather.dfs.core.windows.net/2025/*",)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(DefinitionError, match="FILES_SCHEME_UNSUPPORTED"):
        Files("az://readings/2025")
