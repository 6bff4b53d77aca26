"""Sinks that write to servers take their time: of the contract's longest tests only the telling one is run each time.

The longest are those that go through all moments of a call. Drivers that overlap have `test_rivals`, without Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from tests.servers.postgres import PostgresServer

TELLING = "test_a_commit_that_crashed_at_any_moment_is_finished_by_the_next_driver"

OVERLAPPING = "test_drivers_that_are_overtaken"

_NUMBERS = itertools.count()


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        on_a_server = getattr(getattr(item, "cls", None), "on_a_server", False)
        contract = getattr(item, "cls", None)
        if contract is not None and item.name.startswith(OVERLAPPING) and contract.__name__ != "TestJsonLines":
            item.add_marker(pytest.mark.slow)
        if on_a_server and "at_any_moment" in item.name and item.name != TELLING:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterable[str]:
    """A database of the test's own, with a name that has to be quoted."""
    name = f'test "{next(_NUMBERS)}'
    quoted = name.replace('"', '""')
    postgres.query(f'CREATE DATABASE "{quoted}"')
    yield name
    for (gid,) in postgres.query("SELECT gid FROM pg_prepared_xacts", database=name):
        postgres.query(f"ROLLBACK PREPARED '{gid}'", database=name)
    postgres.query(f'DROP DATABASE "{quoted}" WITH (FORCE)')
