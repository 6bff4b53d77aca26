"""Files that need a server which takes long to start are dealt out to one worker."""

from __future__ import annotations

import pytest

from tests.servers.grouping import GROUPS, TOGETHER


def test_each_file_that_needs_such_a_server_is_in_its_group(request: pytest.FixtureRequest) -> None:
    """Of all tests that this run has collected; `make check` collects all that it runs."""
    root = request.config.rootpath
    found = {
        (item.path.relative_to(root).as_posix(), fixture)
        for item in request.session.items
        if not {mark.name for mark in item.iter_markers()} & {"slow", "crash"}
        for fixture in TOGETHER.keys() & getattr(item, "fixturenames", ())
    }
    assert {(file, fixture) for file, fixture in found if GROUPS.get(file) != fixture} == set()


def test_each_file_of_a_group_is_there(request: pytest.FixtureRequest) -> None:
    assert [file for file in GROUPS if not (request.config.rootpath / file).is_file()] == []
