"""What every adapter of a bucket must do beyond the contract of a store, on a server that a relay may come before."""

from __future__ import annotations

import pytest

from rekindle.errors import StorageError
from rekindle.storage.objects import ObjectStore
from rekindle.storage.open import open_store
from rekindle.storage.port import Entry, NotFound
from tests.servers.relay import Relay
from tests.storage.contract import StoreContract
from tests.storage.faults_contract import FaultyServerContract


class BucketContract(FaultyServerContract, StoreContract):
    """What holds in each cloud."""

    root: str
    relay: Relay

    @pytest.fixture
    def store(self, root: str) -> ObjectStore:
        return opened(f"{root}/state/of jobs")

    def test_a_bucket_of_its_own_is_a_storage_too(self, root: str) -> None:
        store = opened(root)
        store.create("a/b", b"")
        assert (store.location, store.names("")) == (root.replace("s3a:", "s3:"), ["a"])
        assert store.uri("a ü") == f"{root}/a%20ü"
        assert [entry.path for entry in store.walk("")] == ["a/b"]
        store.delete_tree("a")
        assert list(store.walk("")) == []

    def test_it_sees_nothing_beside_its_prefix(self, root: str, store: ObjectStore) -> None:
        opened(f"{root}/state/of jobs!").create("x", b"")
        opened(root).create("state/y", b"")
        store.create("a", b"one")
        assert (store.names(""), list(store.walk(""))) == (["a"], [Entry("a", 3)])
        store.delete_trees("", ["a", "x", "y"])
        assert [entry.path for entry in opened(root).walk("")] == ["state/of jobs!/x", "state/y"]

    def test_a_create_whose_answer_was_lost_knows_its_own_object(self, store: ObjectStore, relay: Relay) -> None:
        relay.lose_answers(1)
        assert store.create("a", b"mine") is True
        assert relay.lost == 1
        relay.lose_answers(1)
        assert store.create("a", b"not mine") is False
        assert relay.lost == 1
        relay.lose_answers(1)
        store.replace("a", b"new")
        assert (relay.lost, store.read("a")) == (1, b"new")

    def test_a_server_that_is_away_is_an_error_and_not_an_empty_storage(self, store: ObjectStore, relay: Relay) -> None:
        store.create("a", b"one")
        relay.away = True
        for act in (lambda: store.read("a"), lambda: store.exists("b"), lambda: store.names("")):
            with pytest.raises(StorageError) as caught:
                act()
            assert caught.value.code == "STORAGE_UNAVAILABLE"
        relay.away = False
        assert (store.read("a"), store.names("")) == (b"one", ["a"])

    def test_a_server_that_does_not_know_the_condition_isrefused(
        self, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = store._put
        monkeypatch.setattr(store, "_put", lambda path, data, mode, **more: put(path, data, **more))
        with pytest.raises(StorageError) as caught:
            store.check()
        assert caught.value.code == "STORAGE_NO_CREATE"

    def test_a_bucket_that_is_not_there_is_an_error_and_not_empty(self, root: str) -> None:
        container, at, rest = root.partition("//")[2].partition("@")
        store = opened(root.replace(container, "no-such-bucket") + "/x")
        for act in (store.check, lambda: store.read("a"), lambda: store.names(""), lambda: list(store.walk(""))):
            with pytest.raises(StorageError, match=r"(?i)container|bucket") as caught:
                act()
            assert caught.value.code == "STORAGE_UNAVAILABLE"
        assert at == "@" or rest == ""

    def test_an_object_that_is_replaced_while_it_is_read_is_an_error_and_no_mixture(self, store: ObjectStore) -> None:
        store.create("a", b"1" * (4 << 20))
        with store.open("a") as file:
            assert file.read(1) == b"1"
            store.replace("a", b"2" * (4 << 20))
            file.seek(3 << 20)
            with pytest.raises(StorageError):
                file.read(1)

    def test_a_copy_into_another_prefix_of_the_bucket_is_made_by_the_server(
        self, root: str, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a/b", b"one")
        other = opened(f"{root}/elsewhere")
        monkeypatch.setattr(store, "open", refuse)
        assert other.copy_from(store, "a/b", "c") == 3
        assert other.read("c") == b"one"
        with pytest.raises(NotFound, match="a/none"):
            other.copy_from(store, "a/none", "c")

    @pytest.mark.parametrize("name", ["a\\b", "a\tb", "a\x7f"])
    def test_a_name_that_a_server_would_change_isrefused(self, store: ObjectStore, name: str) -> None:
        with pytest.raises(StorageError, match="backslash or a control character"):
            store.create(name, b"")


def opened(uri: str) -> ObjectStore:
    store = open_store(uri)
    assert isinstance(store, ObjectStore)
    return store


def refuse(path: str) -> bytes:
    raise AssertionError(f"{path} is read")
