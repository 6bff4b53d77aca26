"""Where delta-rs is led to by an address and the environment."""

from __future__ import annotations

import json

import pytest

from rekindle.sinks.delta_places import reached, why_not
from rekindle.storage.open import open_store

SERVERS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SERVERS, "GOOGLE_BEARER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_by_itself_it_finds_what_is_on_this_machine_on_s3_and_on_google() -> None:
    for uri in ("/data/t", "s3://bucket/t", "gs://bucket/t"):
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
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://three:4443")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "of another client")
    (key,) = reached("gs://bucket/t")["storage_options"].values()
    assert json.loads(key)["gcs_base_url"] == "http://three:4443"
    assert why_not("gs://bucket/t") is None


def test_where_it_was_not_tried_it_does_not_write() -> None:
    assert "'hdfs' is not supported" in str(why_not("hdfs://one:8020/t"))
    for address in ("/data/t", "s3a://bucket/t", "az://box/t", "gs://box/t"):
        assert why_not(address) is None


def test_a_token_that_it_would_not_show_to_google_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "a secret")
    reason = str(why_not("gs://box/t"))
    assert "GOOGLE_SERVICE_ACCOUNT" in reason and "a secret" not in reason
    assert why_not("s3://box/t") is None
