"""Catalogs of Iceberg that are loaded by name, above all one that takes a request and does not answer."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from requests.exceptions import RequestException, Timeout

from rekindle.sinks.iceberg_catalog import load
from tests.servers.fake import Asked, Said, fake_server

SHORT = (1.0, 0.2)
"""Seconds that are waited for a connection, and for an answer."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("how", [{"type": "rest"}, {"type": "REST"}, {}])
def test_a_rest_catalog_that_does_not_answer_is_waited_for_no_longer(silent: str, how: dict[str, str]) -> None:
    with pytest.raises(Timeout):
        load("shop", {**how, "uri": silent, "token": "x"}, SHORT)


def test_one_that_falls_silent_later_is_waited_for_no_longer() -> None:
    silence = threading.Event()

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("/config"):
            return Said(200, json.dumps({"defaults": {}, "overrides": {}}))
        silence.wait(60)
        return Said(204)

    with fake_server(answer) as server:
        catalog = load("shop", {"uri": server.url, "token": "x"}, SHORT)
        try:
            with pytest.raises(Timeout):
                catalog.load_table("db.bids")
            with pytest.raises(Timeout):
                catalog.create_namespace("db")
        finally:
            silence.set()
    assert isinstance(catalog, RestCatalog)


def test_what_asks_for_a_token_stops_waiting_too(silent: str) -> None:
    with pytest.raises(Timeout):
        load("shop", {"uri": "http://127.0.0.1:1", "credential": "me:secret", "oauth2-server-uri": silent}, SHORT)


def test_a_catalog_of_pyicebergs_configuration_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  kept:\n    uri: http://127.0.0.1:1\n    token: x\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(RequestException, match="refused"):
        load("kept", {}, SHORT)


def test_other_catalogs_are_those_of_pyiceberg(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    assert type(load("local", {"uri": uri, "warehouse": str(tmp_path)})) is SqlCatalog
    named: dict[str, Any] = {"py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog", "uri": uri}
    assert type(load("local", named)) is SqlCatalog


@pytest.mark.parametrize("properties", [{}, {"type": "rest"}, {"uri": "gopher://one"}, {"type": "stone"}])
def test_what_describes_no_catalog_is_refused_as_pyiceberg_does(properties: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError)) as theirs:
        load_catalog("nowhere", **properties)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value))):
        load("nowhere", properties)
