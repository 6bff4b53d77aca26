"""Sinks that write to servers take their time: of the contract's longest tests only the telling one is run each time.

The longest are those that go through all moments of a call. Drivers that overlap have `test_rivals`, without Spark.
"""

from __future__ import annotations

import pytest

TELLING = "test_a_commit_that_crashed_at_any_moment_is_finished_by_the_next_driver"

OVERLAPPING = "test_drivers_that_are_overtaken"


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        on_a_server = getattr(getattr(item, "cls", None), "on_a_server", False)
        contract = getattr(item, "cls", None)
        if contract is not None and item.name.startswith(OVERLAPPING) and contract.__name__ != "TestJsonLines":
            item.add_marker(pytest.mark.slow)
        if on_a_server and "at_any_moment" in item.name and item.name != TELLING:
            item.add_marker(pytest.mark.slow)
