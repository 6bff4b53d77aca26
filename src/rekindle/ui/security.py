"""The check of each request to the server, before anything else sees it.

- Its ``Host`` is one of the server's own, so that no page of another site reads it by a name of its own that leads here
  (DNS rebinding).
- What changes something has a token, and does not come from a page of another site.
- A server that others reach over the network wants the token for reading too.

The token is in a header of its own where a page sends it: `Authorization` may have the password of a proxy, which the
browser adds by itself.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rekindle.errors import ControlError
from rekindle.ui.answers import refusal

_OWN_NAMES = ("127.0.0.1", "localhost", "::1")
_READING = ("GET", "HEAD", "OPTIONS")
_OWN_HEADER = "X-Rekindle-Token"
_OPEN = ("/healthz",)
"""Answered without a token: it says nothing of any job."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for requests: from which hosts they may come, what they may do, and which token they need."""

    #: address that the server is bound to
    host: str = "127.0.0.1"
    allowed_hosts: Collection[str] = ()
    allow_actions: bool = False
    token: str | None = None

    @property
    def reading_needs_token(self) -> bool:
        """Return True if others than this machine reach the server."""
        return not is_loopback(self.host)

    def refused(self, method: str, path: str, headers: Headers) -> tuple[int, ControlError] | None:
        """Return why a request is refused, with the status to answer; None: it is not."""
        host = _name_of(headers.get("host", ""))
        if not self._is_own(host):
            return 403, ControlError("HOST_REFUSED", host=host or "-")
        if path in _OPEN:
            return None
        reads = method in _READING
        if not reads and not self.allow_actions:
            return 403, ControlError("ACTIONS_OFF")
        if not reads and not _same_origin(headers):
            return 403, ControlError("ORIGIN_REFUSED", origin=headers.get("origin", "-"))
        if (self.reading_needs_token or not reads) and not self._has_token(headers):
            return 401, ControlError("TOKEN_WRONG")
        return None

    def _is_own(self, host: str) -> bool:
        if host in {name.lower() for name in (*_OWN_NAMES, self.host, *self.allowed_hosts)}:
            return True
        # An address is no name that another site could let lead here.
        return self.reading_needs_token and _is_address(host)

    def _has_token(self, headers: Headers) -> bool:
        found = headers[_OWN_HEADER] if _OWN_HEADER in headers else _token_in(headers.get("authorization", ""))
        if found is None or self.token is None:
            return False
        return hmac.compare_digest(found.encode(), self.token.encode())


class Guard:
    """A layer that refuses what the policy refuses, and puts the headers of safety on every answer."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        refused = self._policy.refused(scope["method"], path, Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, sending)
            return
        status, error = refused
        answer = refusal(error, status)
        if status == 401 and _OWN_HEADER not in Headers(scope=scope):  # else the browser would ask for a password
            answer.headers["WWW-Authenticate"] = 'Basic realm="rekindle: any user, the token as password"'
        await answer(scope, receive, sending)


def _token_in(authorization: str) -> str | None:
    """Return the token in an ``Authorization``, where a program or a person has put it; None: there is none."""
    scheme, _, value = authorization.partition(" ")
    found = value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(found, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    return found if scheme.lower() == "bearer" else None


def _name_of(host: str) -> str:
    """Return the name in a ``Host``, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _same_origin(headers: Headers) -> bool:
    """Return True unless a browser says that the request comes from a page of another origin.

    A browser that says it by ``Sec-Fetch-Site`` has compared the origins itself; the ``Host`` may be one that a proxy
    has put in.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")
