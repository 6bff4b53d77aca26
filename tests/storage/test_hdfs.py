"""The contract of a store on a real HDFS, what is different there, and how a cluster is found."""

from __future__ import annotations

import json
import ssl
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import StorageError
from rekindle.storage.hadoop import find_cluster
from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from tests.servers.fake import FakeServer, Said, fake_server
from tests.servers.hdfs import HdfsServer
from tests.servers.ports import free_ports
from tests.servers.relay import Relay, relay_to
from tests.storage.contract import ODD, StoreContract
from tests.storage.faults_contract import FaultyServerContract


class TestOnHdfs(FaultyServerContract, StoreContract):
    many = 1_000
    rounds, replaced = 5, 30  # each is three requests
    odd = tuple(name for name in ODD if ":" not in name)

    @pytest.fixture
    def store(self, hdfs: HdfsServer) -> HdfsStore:
        return _opened(f"{hdfs.make_folder()}/of jobs")

    @pytest.fixture
    def relay(self, hdfs: HdfsServer, store: HdfsStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
        with relay_to(hdfs.http_port) as relay:
            settings = {"dfs_namenode_http__address": f"127.0.0.1:{relay.port}"}
            monkeypatch.setenv("HADOOP_CONF_DIR", hdfs.configured("through a relay", **settings))
            yield relay

    def anew(self, store: Store) -> HdfsStore:
        return _opened(store.location)

    def test_an_answer_that_breaks_off_is_asked_for_again(self, store: Store, relay: Relay) -> None:
        """What data nodes send does not pass here."""
        store, names = self.anew(store), [f"{number}" for number in range(5)]
        for name in names:
            store.create(f"f/{name}", b"")
        relay.cut_answers(1, of_at_least=1_000)
        assert store.names("f") == names
        assert relay.done

    def test_the_root_of_the_cluster_is_a_storage_too(self, hdfs: HdfsServer) -> None:
        store = _opened("hdfs:///")
        assert (store.location, store.uri("a ü")) == (f"hdfs://{hdfs.authority}", f"hdfs://{hdfs.authority}/a%20ü")
        assert "user" in store.names("")

    @pytest.mark.parametrize("operation", ["CREATE", "RENAME"])
    def test_what_is_sent_again_as_its_answer_was_lost_does_no_harm(
        self, store: HdfsStore, relay: Relay, operation: str
    ) -> None:
        store = _opened(store.location)
        relay.lose_answers(1, of=f"op={operation}")
        assert store.create("a", b"mine") is True
        assert relay.lost == 1
        relay.lose_answers(1, of=f"op={operation}")
        assert store.create("a", b"not mine") is False
        assert relay.lost == 1
        relay.lose_answers(1, of=f"op={operation}")
        store.replace("a", b"new")
        assert relay.lost == 1
        relay.lose_answers(1, of=f"op={operation}")
        store.copy("a", "b")
        store.move("b", "c")
        assert (relay.lost, store.names(""), store.read("c")) == (1, ["a", "c"], b"new")
        assert list(store.unfinished("")) == []

    def test_a_name_node_that_is_away_is_an_error_and_not_an_empty_storage(
        self, store: HdfsStore, relay: Relay
    ) -> None:
        store = _opened(store.location)
        store.create("a", b"one")
        relay.away = True
        with pytest.raises(StorageError) as caught:
            store.names("b")
        assert caught.value.code == "STORAGE_UNAVAILABLE"
        relay.away = False
        assert (store.read("a"), store.names("")) == (b"one", ["a"])

    def test_of_several_name_nodes_the_one_that_answers_is_asked(
        self, hdfs: HdfsServer, store: HdfsStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nodes = {
            "dfs_ha_namenodes_live": "nn1, nn2",
            "dfs_namenode_http__address_live_nn1": f"127.0.0.1:{free_ports(1)[0]}",
            "dfs_namenode_http__address_live_nn2": f"127.0.0.1:{hdfs.http_port}",
        }
        monkeypatch.setenv("HADOOP_CONF_DIR", hdfs.configured("of two", **nodes))
        twin = _opened(store.location.replace(hdfs.authority, "live"))
        assert twin.create("a", b"one")
        assert store.read("a") == b"one"
        assert twin.spark_path("a").startswith("hdfs://live/user/")

    def test_what_a_dead_writer_left_is_found_and_is_no_object(self, store: HdfsStore) -> None:
        store.create("f/a", b"one")
        store._client.write(store._path("f/.tmp-0123456789abcdef"), lambda: iter((b"half",)))
        assert (store.names("f"), [entry.path for entry in store.walk("")]) == (["a"], ["f/a"])
        assert [tuple(entry) for entry in store.unfinished("")] == [("f/.tmp-0123456789abcdef", 4)]

    def test_what_another_user_may_not_write_is_said(
        self, store: HdfsStore, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a", b"one")
        monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
        other = _opened(store.location)
        assert other.read("a") == b"one"
        for act in (lambda: other.create("b", b""), lambda: other.replace("a", b""), lambda: other.delete("a")):
            with pytest.raises(StorageError, match="Permission denied") as caught:
                act()
            assert caught.value.code == "STORAGE_READ_ONLY"

    def test_a_name_with_a_colon_is_refused(self, store: HdfsStore) -> None:
        with pytest.raises(StorageError):
            store.create("a:b", b"")
        assert store.names("") == []


def _opened(address: str) -> HdfsStore:
    store = open_store(address)
    assert isinstance(store, HdfsStore)
    return store


def _configured(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: dict[str, Any]) -> None:
    for name, said in files.items():
        properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in said.items())
        (folder / f"{name}-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


HA = {"dfs.ha.namenodes.lake": "a,b", "dfs.namenode.http-address.lake.a": "one:50070"}


@pytest.mark.parametrize(
    ("address", "core", "hdfs", "servers"),
    [
        ("hdfs://one:8020/x", {}, {}, ("http://one:9870",)),
        ("hdfs://one/x", {}, {"dfs.http.policy": "HTTPS_ONLY"}, ("https://one:9871",)),
        ("hdfs:///x", {"fs.defaultFS": "hdfs://one:8020"}, {"dfs.namenode.http-address": "0:1"}, ("http://0:1",)),
        (
            "hdfs://one:8020/x",
            {"fs.defaultFS": "hdfs://one:8020"},
            {"dfs.namenode.http-address": "${bind}:50070", "bind": "0.0.0.0"},
            ("http://one:50070",),
        ),
        (
            "hdfs://two:8020/x",
            {"fs.defaultFS": "hdfs://one"},
            {"dfs.namenode.http-address": "x:1"},
            ("http://two:9870",),
        ),
        (
            "hdfs://lake/x",
            {"fs.defaultFS": "hdfs://lake"},
            {**HA, "dfs.namenode.rpc-address.lake.b": "two:8020"},
            ("http://one:50070", "http://two:9870"),
        ),
    ],
)
def test_name_nodes_are_those_of_hadoop_s_own_configuration(
    address: str,
    core: dict[str, Any],
    hdfs: dict[str, Any],
    servers: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _configured(tmp_path, monkeypatch, core=core, hdfs=hdfs)
    found = find_cluster(address)
    assert found is not None
    assert (found[0].servers, found[1]) == (servers, "/x")


def test_without_a_configuration_the_host_of_the_address_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_USER_NAME", "me")
    found = find_cluster("hdfs://one:8020//a//b/")
    assert found is not None
    assert found[1] == "/a/b"
    assert (found[0].servers, found[0].user, found[0].kerberos) == (("http://one:9870",), "me", False)
    assert find_cluster("s3://bucket/x") is None


@pytest.mark.parametrize("address", ["hdfs:///x", "hdfs://me:hunter2@one:8020/x", "hdfs://one:8020:9/x", "hdfs://"])
def test_an_address_without_a_host_or_with_a_password_is_refused_and_not_shown(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(StorageError) as caught:
        find_cluster(address)
    assert caught.value.code == "STORAGE_UNAVAILABLE"
    assert "hunter2" not in str(caught.value)
    names_none = address in ("hdfs:///x", "hdfs://")
    assert ("no fs.defaultFS of HDFS in HADOOP_CONF_DIR, which is not set" in caught.value.message) == names_none


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(StorageError, match=r"core-site\.xml"):
        find_cluster("hdfs://one/x")


def test_kerberos_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _configured(tmp_path, monkeypatch, core={"hadoop.security.authentication": "Kerberos"})
    monkeypatch.setitem(sys.modules, "gssapi", None)
    store = open_store("hdfs://one:8020/x")
    with pytest.raises(StorageError) as caught:
        store.read("a")
    assert caught.value.code == "STORAGE_LIBRARY_MISSING"
    assert caught.value.parameters["library"] == "gssapi"
    assert "rekindle[hdfs,kerberos]" in caught.value.next_step


def test_a_cluster_that_asks_for_a_ticket_where_the_configuration_does_not_say_so_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_server(lambda asked: Said(401, headers=(("WWW-Authenticate", "Negotiate"),))) as name_node:
        _configured(tmp_path, monkeypatch, **_led_to(name_node))
        with pytest.raises(StorageError, match=r"hadoop\.security\.authentication") as caught:
            open_store("hdfs:///x").read("a")
        assert caught.value.code == "KERBEROS_TICKET_NEEDED"
        assert len(name_node.asked) == 1


def test_what_a_data_node_is_shown_is_in_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    location = f"http://127.0.0.1:{port}/webhdfs/v1/x/a?op=OPEN&delegation=hunter2&offset=0"
    with fake_server(lambda asked: Said(200, json.dumps({"Location": location}))) as name_node:
        _configured(tmp_path, monkeypatch, **_led_to(name_node))
        store = open_store("hdfs:///x")
        assert isinstance(store, HdfsStore)
        address = store._client._data_node("GET", "OPEN", "/x/a", {})
        assert address == location
        with pytest.raises(OSError, match="refused") as caught:
            store._client._sent("GET", address)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_name_node_with_a_certificate_of_its_own_authority_is_asked_where_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(_certificate())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with fake_server(lambda asked: Said(200, json.dumps({"FileStatus": {"type": "FILE"}})), tls) as name_node:
        address = {"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": f"127.0.0.1:{name_node.port}"}
        _configured(tmp_path, monkeypatch, core={"fs.defaultFS": "hdfs://one:8020"}, hdfs=address)
        with pytest.raises(StorageError, match="certificate verify failed") as caught:
            open_store("hdfs:///x").exists("a")
        assert caught.value.code == "STORAGE_UNAVAILABLE"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert open_store("hdfs:///x").exists("a")


def _certificate() -> bytes:
    """A key and a certificate that it has signed itself."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text + made.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _led_to(name_node: FakeServer) -> dict[str, Any]:
    core = {"fs.defaultFS": "hdfs://127.0.0.1:8020", "dfs.namenode.http-address": f"127.0.0.1:{name_node.port}"}
    return {"core": core}
