"""A cluster of HDFS with two name nodes, which answer to tickets of Kerberos, and to HTTPS alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.cli.kit import GONE, Command, beat, complete, start
from tests.servers.name_nodes import NameNodes
from tests.storage.contract import ODD, StoreContract, race_of_sixteen

pytestmark = pytest.mark.slow


@pytest.fixture
def place(name_nodes: NameNodes) -> str:
    return name_nodes.make_folder()


@pytest.fixture
def store(place: str) -> HdfsStore:
    found = open_store(f"{place}/of jobs")
    assert isinstance(found, HdfsStore)
    return found


class TestOnNameNodes(StoreContract):
    many = 1_000
    rounds, replaced = 5, 30
    odd = tuple(name for name in ODD if ":" not in name)


def test_what_is_written_while_name_nodes_take_turns_is_there_once(store: HdfsStore, name_nodes: NameNodes) -> None:
    """Also where the answer to a create is lost in a turn, so that it is asked for again."""
    turns, names = 6, [f"f/{number:03d}" for number in range(60)]

    def write() -> list[bool]:
        won = []
        for name in names:
            won.append(store.create(name, name.encode() * 1_000))
            store.replace("newest", name.encode())
        return won

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        for turn in range(turns):
            name_nodes.make_active((turn + 1) % 2)
        assert written.result() == [True] * len(names)
    assert store.names("f") == [name.removeprefix("f/") for name in names]
    assert all(store.read(name) == name.encode() * 1_000 for name in names)
    assert store.read("newest") == names[-1].encode()


def test_of_sixteen_concurrent_creates_one_wins_while_name_nodes_take_turns(
    store: HdfsStore, name_nodes: NameNodes
) -> None:
    with ThreadPoolExecutor(1) as pool:
        raced = pool.submit(race_of_sixteen, store, 10)
        for turn in range(4):
            name_nodes.make_active((turn + 1) % 2)
        raced.result()


def test_commands_ask_the_name_node_that_is_active(store: HdfsStore, place: str, name_nodes: NameNodes) -> None:
    command, job = Command(f"{place}/of jobs"), JobStorage(store, "bids")
    start(job, **GONE)
    beat(job, **GONE)
    complete(job, 7)
    for active in (1, 0):
        name_nodes.make_active(active)
        assert command.json("status", "bids")["checkpoints"]["latest"] == 7
