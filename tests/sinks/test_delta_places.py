"""Where delta-rs is led to by an address and the environment."""

from __future__ import annotations

import pytest

from rekindle.sinks.delta_places import is_reached, reached
from rekindle.storage.open import open_store


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def test_by_itself_it_finds_what_is_on_this_machine_and_on_s3() -> None:
    for uri in ("/data/t", "s3://bucket/t"):
        assert reached(uri) == {"table_uri": uri, "storage_options": None}


def test_on_azure_the_account_is_that_of_the_address_also_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    for address in ("abfss://box@mine.dfs.core.windows.net/t", "az://box/t"):
        found = reached(open_store(address).location)
        assert found["storage_options"] == {"account_name": "mine"}
        assert found["table_uri"].endswith("/t")


def test_a_server_of_ones_own_may_speak_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one:9000")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://two:10000/mine")
    assert reached("s3://bucket/t")["storage_options"] == {"endpoint": "http://one:9000", "allow_http": "true"}
    azure = reached("abfs://box@mine.dfs.core.windows.net/t")["storage_options"]
    assert azure == {"account_name": "mine", "endpoint": "http://two:10000/mine", "allow_http": "true"}


@pytest.mark.parametrize("address", ["hdfs://one:8020/t", "gs://box/t"])
def test_where_it_was_not_tried_it_does_not_write(address: str) -> None:
    assert not is_reached(address)
    assert is_reached("/data/t") and is_reached("s3a://bucket/t") and is_reached("az://box/t")
