"""HDFS through a gateway (HttpFS): what it does not know is noticed.

HttpFS leaves out the option of a rename that says whether it may overwrite, and so does what stands before the cluster
here. By hand the same was seen on HttpFS 3.4.2 itself.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from rekindle.errors import StorageError
from rekindle.runtime.client import ControlRequest, send
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.port import Entry, Store
from tests.cli.kit import Command, beat, complete, end, start
from tests.servers.fake import Asked, Said, fake_server
from tests.servers.hdfs import HdfsServer
from tests.storage.contract import race_of_sixteen


@pytest.fixture
def place(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def handed_on(asked: Asked) -> Said:
        query = {name: value for name, value in asked.query.items() if name != "renameoptions"}
        server = http.client.HTTPConnection("127.0.0.1", hdfs.http_port)
        server.request(asked.method, f"{quote(asked.path)}?{urlencode(query)}")
        answer = server.getresponse()
        said = Said(answer.status, answer.read().decode())
        server.close()
        return said

    with fake_server(handed_on) as gateway:
        settings = {"dfs_namenode_http__address": f"127.0.0.1:{gateway.port}"}
        monkeypatch.setenv("HADOOP_CONF_DIR", hdfs.configured("through a gateway", **settings))
        yield hdfs.make_folder()


@pytest.fixture
def store(place: str) -> Store:
    return open_store(place)


def test_of_sixteen_creates_one_wins(store: Store) -> None:
    race_of_sixteen(store)
    assert list(store.unfinished("")) == []


def test_what_would_replace_a_file_is_refused_and_so_is_a_driver(store: Store) -> None:
    store.create("a", b"one")
    store.copy("a", "b")
    for act in (lambda: store.replace("a", b"two"), lambda: store.move("b", "a"), store.check):
        with pytest.raises(StorageError) as caught:
            act()
        assert caught.value.code == "STORAGE_NO_REPLACE"
    store.move("b", "c")
    assert list(store.walk("")) == [Entry("a", 3), Entry("c", 3)]
    assert (store.read("a"), list(store.unfinished(""))) == (b"one", [])


def test_a_job_is_looked_at_stopped_and_forgotten(
    store: Store, place: str, monkeypatch: pytest.MonkeyPatch, hdfs: HdfsServer
) -> None:
    command, job = Command(place), JobStorage(store, "bids")
    with monkeypatch.context() as of_the_driver:
        of_the_driver.setenv("HADOOP_CONF_DIR", hdfs.environment["HADOOP_CONF_DIR"])
        beside = JobStorage(open_store(place), "bids")
        start(beside)
        beat(beside)
        complete(beside, 7)
        sent = send(job, ControlRequest(verb="stop"))
        assert beside.control(frozenset()).requests == (sent,)
        end(beside, "STOPPED", checkpoint=7)
    assert command.json("status", "bids")["checkpoints"]["latest"] == 7
    assert [one["job"] for one in command.json("list")] == ["bids"]
    assert command("forget", "bids", "--yes").exit_code == 0
    assert list(job.store.walk("")) == []
