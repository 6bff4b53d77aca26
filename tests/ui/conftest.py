"""A world of jobs, and servers over it, for the tests of what is served."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

from rekindle.monitoring.monitors import Monitors
from rekindle.storage.port import Store
from rekindle.ui.security import Policy
from rekindle.ui.server import application, listen
from tests.ui.world import World


@contextmanager
def served(stores: list[Store], policy: Policy) -> Iterator[str]:
    """A real server; yields its address."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application(Monitors(stores), policy, "1.2.3"), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


# It ends with these tests: others break the store itself, in every thread, and the jobs would beat no more.
@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(str(tmp_path_factory.mktemp("world"))).everything()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1):
            world.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    yield world
    over.set()
    thread.join()


@pytest.fixture(scope="package")
def address(world: World) -> Iterator[str]:
    """A server that only reads."""
    with served([world.store], Policy()) as address:
        yield address


@pytest.fixture
def servers(address: str) -> list[str]:
    """The servers that a test is about; those that it starts are added."""
    return [address]


@pytest.fixture
def serve(servers: list[str]) -> Iterator[Callable[..., str]]:
    """Start a server that ends with the test."""
    with ExitStack() as stack:

        def start(stores: list[Store], **policy: Any) -> str:
            servers.append(stack.enter_context(served(stores, Policy(**policy))))
            return servers[-1]

        yield start
