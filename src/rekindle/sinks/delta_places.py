"""The options with which delta-rs reaches a table: on this machine, or in a bucket of S3, Azure or Google.

delta-rs looks for credentials in the environment itself, by the names that other clients of these clouds look for too.
Besides, it needs the address of a private server, where such a name gives one, and on Azure the account, which is in
the address of the table.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlsplit

from rekindle.storage.addresses import hadoop_scheme, is_s3

_AZURE = ("abfs", "abfss", "az")
_GOOGLE = "gs"


def why_not(address: str) -> str | None:
    """Return why a table at this address cannot be written; None where it can."""
    scheme = hadoop_scheme(address)
    if not (scheme is None or is_s3(address) or scheme in (*_AZURE, _GOOGLE)):
        return f"a table in a store of the kind {scheme!r} is not supported yet"
    if scheme == _GOOGLE and "GOOGLE_BEARER_TOKEN" in os.environ and not os.environ.get("GOOGLE_BASE_URL"):
        return "delta-rs does not use GOOGLE_BEARER_TOKEN; name the file of a service account in GOOGLE_SERVICE_ACCOUNT"
    return None


def reached(uri: str) -> dict[str, Any]:
    """Return the arguments of a `DeltaTable` for the table at `uri` (`Store.location`)."""
    options: dict[str, str] = {}
    if is_s3(uri):
        options = _server("endpoint", os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))
    elif urlsplit(uri).scheme in _AZURE:
        account = (urlsplit(uri).hostname or "").partition(".")[0]
        options = {"account_name": account, **_server("endpoint", os.environ.get("AZURE_STORAGE_ENDPOINT"))}
    elif urlsplit(uri).scheme == _GOOGLE:
        options = _google_server(os.environ.get("GOOGLE_BASE_URL"))
    return {"table_uri": uri, "storage_options": options or None}


def _server(name: str, address: str | None) -> dict[str, str]:
    return {name: address, "allow_http": "true"} if address else {}


def _google_server(address: str | None) -> dict[str, str]:
    """Return what leads to a server that is none of Google's: its address is a part of an account's key there.

    It gets no credentials: with `disable_oauth` no token is fetched, and a key that is empty signs nothing.
    """
    if not address:
        return {}
    key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {"google_service_account_key": json.dumps(key)}
