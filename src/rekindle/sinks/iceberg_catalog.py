"""Load a catalog of Iceberg by its name.

pyiceberg waits without end for a REST catalog that takes a request and does not answer it, so that a job would run on
and never complete a checkpoint again. Ours stops waiting: a start is refused then, and a batch or a commit is tried
again, as after any other failure of the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.utils.config import Config, merge_config
from requests import Session

WAITS_S = (20.0, 120.0)
"""Seconds until there is a connection, and then until each piece of an answer."""


def load(name: str, properties: Mapping[str, str], waits_s: tuple[float, float] = WAITS_S) -> Catalog:
    """Return the catalog that pyiceberg's configuration and these properties describe, as `load_catalog` does."""
    said = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
    if "py-catalog-impl" in properties or not _is_rest(said):
        return load_catalog(name, **properties)
    return _AnsweringCatalog(name, waits_s, said)


def _is_rest(said: Mapping[str, Any]) -> bool:
    address, kind = str(said.get("uri", "")), said.get("type")
    return bool(address) and (str(kind).lower() == "rest" if kind else address.startswith("http"))


class _AnsweringCatalog(RestCatalog):
    def __init__(self, name: str, waits_s: tuple[float, float], said: Mapping[str, Any]) -> None:
        self._waits_s = waits_s
        super().__init__(name, **said)

    def _config_headers(self, session: Session) -> None:
        """Set up a session before its first request, which may ask for a token."""
        session.request = partial(session.request, timeout=self._waits_s)  # type: ignore[method-assign]
        super()._config_headers(session)
