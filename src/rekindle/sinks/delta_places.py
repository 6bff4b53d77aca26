"""The options with which delta-rs reaches a table: on this machine, or in a bucket of S3 or Azure.

delta-rs looks for credentials in the environment itself, by the names that other clients of these clouds look for too.
Besides, it needs the address of a private server, where such a name gives one, and on Azure the account, which is in
the address of the table.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from rekindle.storage.addresses import hadoop_scheme, is_s3

_AZURE = ("abfs", "abfss", "az")


def is_reached(address: str) -> bool:
    """Return True if a table at this address was tried, and so may be written."""
    scheme = hadoop_scheme(address)
    return scheme is None or is_s3(address) or scheme in _AZURE


def reached(uri: str) -> dict[str, Any]:
    """Return the arguments of a `DeltaTable` for the table at `uri` (`Store.location`)."""
    options: dict[str, str] = {}
    if is_s3(uri):
        options = _server("endpoint", os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))
    elif urlsplit(uri).scheme in _AZURE:
        account = (urlsplit(uri).hostname or "").partition(".")[0]
        options = {"account_name": account, **_server("endpoint", os.environ.get("AZURE_STORAGE_ENDPOINT"))}
    return {"table_uri": uri, "storage_options": options or None}


def _server(name: str, address: str | None) -> dict[str, str]:
    return {name: address, "allow_http": "true"} if address else {}
