"""The proof of who asks a name node, by Kerberos (SPNEGO, RFC 4559): the ticket of the process, through MIT's library.

The library takes the ticket from the cache that `kinit` fills, or gets one itself for the keytab that
``KRB5_CLIENT_KTNAME`` names. It looks each time: so a ticket that was renewed is taken without a restart. Tickets and
what is made of them are in no document, log or error.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests

from rekindle.errors import StorageError
from rekindle.storage.hadoop import Unreachable

_SPNEGO = "1.3.6.1.5.5.2"

Proof = Callable[[requests.PreparedRequest], requests.PreparedRequest]
"""A function that adds to a request the proof of who sends it."""


def proof_of(uri: str) -> Proof:
    """Return what shows a server the ticket of this process.

    Raises:
        ModuleNotFoundError: Python's side of MIT's library is not installed.
    """
    import gssapi
    from gssapi.raw.misc import GSSError

    spnego = gssapi.OID.from_int_seq(_SPNEGO)

    def prove(request: requests.PreparedRequest) -> requests.PreparedRequest:
        try:
            server = gssapi.Name(f"HTTP@{urlsplit(str(request.url)).hostname}", gssapi.NameType.hostbased_service)
            shown = gssapi.SecurityContext(name=server, mech=spnego, usage="initiate").step()
        except GSSError as error:
            check_ticket()
            # There is one: so what gives or knows tickets is away, or does not know the server.
            raise Unreachable(_said(error)) from None
        request.headers["Authorization"] = f"Negotiate {base64.b64encode(shown or b'').decode()}"
        return request

    def check_ticket() -> None:
        try:
            # Of several mechanisms the library would only say that none serves.
            _ = gssapi.Credentials(usage="initiate", mechs=[gssapi.MechType.kerberos]).lifetime
        except GSSError as error:
            raise StorageError("KERBEROS_TICKET_NEEDED", uri=uri, reason=_said(error)) from None

    return prove


def no_proof(uri: str) -> Proof:
    """Return what refuses, where Hadoop's configuration says nothing of Kerberos and a server asks for it."""

    def refuse(_: requests.PreparedRequest) -> requests.PreparedRequest:
        reason = (
            "the server wants to know who asks, and hadoop.security.authentication is not kerberos in HADOOP_CONF_DIR"
        )
        raise StorageError("KERBEROS_TICKET_NEEDED", uri=uri, reason=reason)

    return refuse


def _said(error: Any) -> str:
    """Return what Kerberos says of an error; where it says nothing, what its framework does."""
    for code, of_framework in ((error.min_code, False), (error.maj_code, True)):
        said = " ".join(error.get_all_statuses(code, of_framework)).strip(" \0")
        if said and said != "Success":
            return said
    return type(error).__name__
