"""A cluster of HDFS that lets in none but who has a ticket of Kerberos."""

from __future__ import annotations

import traceback

import pytest

import rekindle as rk
from rekindle.errors import StorageError
from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.port import Entry
from tests.cli.kit import GONE, Command, beat, complete, start
from tests.servers.kerberos import SecureHdfs
from tests.storage.contract import ODD, StoreContract, race_of_sixteen
from tests.waiting import until


@pytest.fixture
def place(secure_hdfs: SecureHdfs) -> str:
    return secure_hdfs.make_folder()


@pytest.fixture
def store(place: str) -> HdfsStore:
    found = open_store(f"{place}/of jobs")
    assert isinstance(found, HdfsStore)
    return found


@pytest.mark.slow
class TestOnSecureHdfs(StoreContract):
    """All of the contract: the cluster's cookies end every two seconds meanwhile."""

    many = 1_000
    rounds, replaced = 5, 30
    odd = tuple(name for name in ODD if ":" not in name)


def test_what_was_created_is_read_listed_replaced_moved_and_deleted(store: HdfsStore) -> None:
    store.check()
    assert (store.create("f/a b", b"one"), store.create("f/a b", b"two")) == (True, False)
    assert store.read("f/a b") == store.open("f/a b").read() == b"one"
    store.replace("f/a b", b"three")
    store.copy("f/a b", "g/c")
    store.move("f/a b", "g/d")
    assert list(store.walk("")) == [Entry("g/c", 5), Entry("g/d", 5)]
    store.delete_tree("g")
    assert store.names("") == ["f"]


def test_of_sixteen_concurrent_creates_one_wins(store: HdfsStore) -> None:
    race_of_sixteen(store)


def test_a_ticket_that_is_missing_or_has_ended_is_an_error_and_a_new_one_is_taken(
    store: HdfsStore, place: str, secure_hdfs: SecureHdfs
) -> None:
    """As a driver meets it whose ticket another program renews."""
    command, job = Command(f"{place}/of jobs"), JobStorage(store, "bids")
    start(job, **GONE)
    beat(job, **GONE)
    complete(job, 7)
    assert command.json("status", "bids")["checkpoints"]["latest"] == 7

    secure_hdfs.cache.unlink()
    until(lambda: "No Kerberos credentials available" in _said(store), 60)  # once the cookie has ended
    assert command.error("status", "bids") == "KERBEROS_TICKET_NEEDED"
    with pytest.raises(StorageError) as caught:
        rk.Files(f"{place}/in").list_files("history")
    assert caught.value.code == "KERBEROS_TICKET_NEEDED"
    assert "kinit" in caught.value.next_step

    secure_hdfs.kdc.get_ticket(secure_hdfs.cache, ticket_lifetime="3s")
    assert _said(store) == ""
    until(lambda: "KERBEROS_TICKET_NEEDED" in _said(store), 60)
    assert "expired" in _said(store)

    secure_hdfs.kdc.get_ticket(secure_hdfs.cache)
    assert _said(store) == ""
    assert command.json("status", "bids")["checkpoints"]["latest"] == 7


def test_a_keytab_does_without_kinit(
    store: HdfsStore, secure_hdfs: SecureHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"one")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{secure_hdfs.kdc.folder / 'of the keytab'}")
    assert _said(store)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{secure_hdfs.kdc.keytab}")
    assert store.read("a") == b"one"


def test_a_server_that_refuses_the_ticket_is_an_error(
    store: HdfsStore, secure_hdfs: SecureHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", secure_hdfs.configured("without", hadoop_security_authentication="simple"))
    assert "HADOOP_CONF_DIR" in _said(open_store(store.location))


def test_what_a_data_node_is_shown_is_in_no_error(store: HdfsStore) -> None:
    store.create("a", b"one")
    address = store._client._data_node("GET", "OPEN", store._path("a"), {})
    assert "delegation=" in address
    token = address.partition("delegation=")[2].partition("&")[0]
    away = address.replace(address.split("/")[2], "127.0.0.1:1")
    with pytest.raises(OSError, match="refused") as caught:
        store._client._sent("GET", away)
    assert token not in "".join(traceback.format_exception(caught.value))


def _said(store: HdfsStore) -> str:
    """What a look at the storage is refused with; nothing where it is let in."""
    try:
        store.names("")
    except StorageError as error:
        return str(error) if error.code == "KERBEROS_TICKET_NEEDED" else f"another error: {error}"
    return ""
