"""The contract of a store on the emulators of Azure and Google, and what is different there."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rekindle.errors import StorageError
from rekindle.storage.objects import ObjectStore
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound
from rekindle.storage.said import what_was_said
from tests.servers.azurite import ACCOUNT, KEY, AzureServer
from tests.servers.gcs import TOKEN, GoogleServer
from tests.servers.relay import Relay, relay_to
from tests.storage.bucket_contract import BucketContract, opened

HOST = f"{ACCOUNT}.dfs.core.windows.net"
SECRETS = (KEY, TOKEN, "d3Jvbmc=", "hunter2")


class TestOnAzure(BucketContract):
    many = 1_000  # of 6,000 Azurite takes longer to delete 256 at once than a request may

    @pytest.fixture
    def root(self, azure: AzureServer) -> str:
        return f"abfss://{azure.make_container()}@{HOST}"

    @pytest.fixture
    def relay(self, azure: AzureServer, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
        with relay_to(azure.port) as relay:
            monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{relay.port}/{ACCOUNT}")
            yield relay

    def test_the_account_of_a_short_address_is_that_of_the_environment(self, azure: AzureServer) -> None:
        container = azure.make_container()
        store = opened(f"az://{container}/a b")
        store.create("x", b"one")
        assert store.location == f"abfss://{container}@{HOST}/a b"
        assert open_store(store.location).read("x") == b"one"

    def test_objects_that_stand_for_folders_are_not_listed_and_go_with_their_folder(
        self, azure: AzureServer, store: ObjectStore, root: str
    ) -> None:
        container = root.partition("//")[2].partition("@")[0]
        for name in ("f", "f/empty", "f/full"):
            azure.put(container, f"state/of%20jobs/{name}", hdi_isfolder="true")
        store.create("f/full/x", b"")
        assert [entry.path for entry in store.walk("f")] == ["f/full/x"]
        assert store.names("f") == ["empty", "full"]
        with pytest.raises(NotFound):
            store.read("f/empty")
        store.delete_tree("f")
        assert [*opened(root).walk(""), *opened(root).names("")] == []

    @pytest.mark.parametrize(
        "credential",
        [{"AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}, {"AZURE_STORAGE_SAS_TOKEN": "sv=2023-11-03&sig=hunter2"}],
    )
    def test_credentials_that_are_refused_are_an_error_that_tells_none_of_them(
        self, root: str, credential: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
        for name, value in credential.items():
            monkeypatch.setenv(name, value)
        store = opened(f"{root}/x")
        acts: list[Callable[[], Any]] = [store.check, lambda: store.read("a"), lambda: store.names("")]
        codes = []
        for act in acts:
            with pytest.raises(StorageError) as caught:
                act()
            codes.append(caught.value.code)
            told = "".join(traceback.format_exception(caught.value))
            assert not any(word in told for word in SECRETS)
        assert codes == ["STORAGE_READ_ONLY", "STORAGE_UNAVAILABLE", "STORAGE_UNAVAILABLE"]


class TestOnGoogle(BucketContract):
    many = 1_100  # 10,000 were not listed and deleted within three minutes

    @pytest.fixture
    def root(self, google: GoogleServer) -> str:
        return f"gs://{google.make_bucket()}"

    @pytest.fixture
    def relay(self, google: GoogleServer, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
        with relay_to(google.port) as relay:
            monkeypatch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{relay.port}")
            yield relay

    def test_it_lists_more_than_the_server_tells_at_once(self, google: GoogleServer, root: str) -> None:
        bucket = root.removeprefix("gs://")
        for number in range(1_100):
            google.put(bucket, f"many/{number:04d}", b"x")
        assert opened(root).names("many") == [f"{number:04d}" for number in range(1_100)]

    def test_objects_that_stand_for_folders_are_not_listed(
        self, google: GoogleServer, store: ObjectStore, root: str
    ) -> None:
        bucket = root.removeprefix("gs://")
        for name in ("f/", "f/empty/", "f/full/"):
            google.put(bucket, f"state/of jobs/{name}")
        store.create("f/full/x", b"")
        assert [entry.path for entry in store.walk("f")] == ["f/full/x"]
        assert store.names("f") == ["empty", "full"]
        store.delete_tree("f")
        assert list(store.walk("")) == []

    def test_objects_that_stand_for_folders_are_deleted_with_their_folders(
        self, google: GoogleServer, store: ObjectStore, root: str
    ) -> None:
        bucket = root.removeprefix("gs://")
        for name in ("f/", "f/empty/", "f/full/", "f/full/of ä%20/", "g/", "g/kept/", "g/gone/", "g/gone/below/"):
            google.put(bucket, f"state/of jobs/{name}")
        store.create("f/full/of ä%20/x", b"x")
        store.delete_trees("g", ["gone"])
        store.delete_tree("f")
        assert google.names(bucket) == ["state/of jobs/g/", "state/of jobs/g/kept/"]


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("gs://bucket.of.mine/", "gs://bucket.of.mine"),
        ("gs://bucket/a b//c%20/", "gs://bucket/a b/c%20"),
        ("abfss://box@account.dfs.core.windows.net/a//b/", "abfss://box@account.dfs.core.windows.net/a/b"),
        ("abfs://box@account.blob.core.windows.net", "abfs://box@account.dfs.core.windows.net"),
        ("abfss://box@account.dfs.core.chinacloudapi.cn/a", "abfss://box@account.dfs.core.chinacloudapi.cn/a"),
        ("az://box/a", "abfss://box@mine.dfs.core.windows.net/a"),
    ],
)
def test_an_address_is_a_bucket_and_a_prefix(uri: str, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    assert open_store(uri).location == location
    assert open_store(location).location == location


@pytest.mark.parametrize(
    "uri",
    [
        "gs://",
        "gs:///x",
        "gs://user:secret@bucket/x",
        "abfss://box/x",
        "abfss://user:secret@account.dfs.core.windows.net/x",
        "abfss://box@user:secret@account.dfs.core.windows.net/x",
        "abfss://box@account.dfs.core.windows.net:secret/x",
        "abfss://box@account.dfs.core.windows.net?sig=secret/x",
        "az://secret@box/x",
    ],
)
def test_an_address_without_a_bucket_or_with_credentials_is_refused_and_not_shown(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    with pytest.raises(StorageError) as caught:
        open_store(uri)
    assert caught.value.code == "STORAGE_UNAVAILABLE"
    assert "secret" not in str(caught.value)


def test_a_short_address_without_an_account_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StorageError, match="AZURE_STORAGE_ACCOUNT_NAME is not set"):
        open_store("az://box/x")


@pytest.mark.parametrize("root", ["gs://bucket", "abfss://box@account.dfs.core.windows.net"])
def test_a_prefix_that_leads_elsewhere_is_refused(root: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(f"{root}/a/../b")
    assert caught.value.code == "PATH_OUTSIDE"


@pytest.mark.parametrize(
    ("uri", "extra"), [("gs://bucket/x", "gcs"), ("abfss://box@account.dfs.core.windows.net", "azure")]
)
def test_a_library_that_is_missing_is_named(uri: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", f"other than of any test before, for {extra}")
    with pytest.raises(StorageError) as caught:
        open_store(uri).read("a")
    assert caught.value.code == "STORAGE_LIBRARY_MISSING"
    assert f"rekindle[{extra}]" in caught.value.next_step


def test_what_a_server_has_said_is_one_line_without_what_signs_a_request() -> None:
    text = "Error performing GET https://a.example/b/c?sv=1&sig=hunter2 in 1s - refused:\n  why\n\nDebug source:\n more"
    assert what_was_said(text) == "Error performing GET https://a.example/b/c in 1s - refused: why"
    xml = "... <Error>\n<Code>Why</Code>\n<Message>It is so.\nRequestId:1</Message></Error>"
    assert what_was_said(xml) == "Why: It is so."
