"""A server of a test's own making: what it says is a function of what it is asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    #: by their names in small letters
    headers: dict[str, str]
    body: str

    @property
    def form(self) -> dict[str, str]:
        """What its body says, where that is a form."""
        return dict(parse_qsl(self.body))


class Said(NamedTuple):
    """An answer."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class FakeServer:
    """One server; `answer` may be another one at any time."""

    answer: Callable[[Asked], Said]
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def fake_server(answer: Callable[[Asked], Said], tls: ssl.SSLContext | None = None) -> Iterator[FakeServer]:
    """Serve."""
    fake = FakeServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            fake.asked.append(asked)
            said = fake.answer(asked)
            data = said.body.encode()
            self.send_response(said.status)
            for name, value in (("Content-Length", str(len(data))), *said.headers):
                self.send_header(name, value)
            with suppress(ConnectionError):  # the client has not waited
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        fake.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield fake
        finally:
            server.shutdown()


def an_object(body: str) -> Said:
    """What each cloud says of an object."""
    return Said(200, body, (("ETag", '"1"'), ("Last-Modified", formatdate(usegmt=True))))
