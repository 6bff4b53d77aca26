"""What lies between a client and a server and goes wrong: lost answers, and a server that is away or keeps silent.

It is a client's HTTP proxy as well: that leads a client to it which knows the names of a cloud's own hosts only.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.servers.ports import free_ports

_NOT_HANDED_ON = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Relay:
    """A port that leads to a server, as long as a test lets it.

    Args:
        inner: port of the server.
    """

    def __init__(self, inner: int) -> None:
        self.inner = inner
        (self.port,) = free_ports(1)
        self.away = False
        #: not set: connections are taken, and requests that `silent_to` names are not answered
        self.answers = threading.Event()
        self.answers.set()
        #: a method; empty: all
        self.silent_to = ""
        #: requests, by their methods, that have been left without an answer
        self.unanswered: list[str] = []
        self._to_lose = 0
        self._of = ""
        self.lost = 0
        self._instead: list[int] = []
        self._to_fail: list[int] = []
        self._to_cut = self._worth_cutting = 0
        #: before each answer
        self.delay_s = 0.0
        #: how far the server's clock is off
        self.hours_off = 0
        #: writes that the server has refused for their condition
        self.refused = 0
        self._lock = threading.Lock()

    def lose_answers(self, count: int, *, of: str = "") -> None:
        """Let so many of the next writes, whose address has `of` in it, reach the server, and their answers be lost."""
        with self._lock:
            self._to_lose, self._of, self.lost = count, of, 0

    def answer_instead(self, statuses: list[int], *, of: str) -> None:
        """Answer the next writes, whose address ends with `of`, so, in place of the server."""
        with self._lock:
            self._instead, self._of = list(statuses), of

    def instead(self, method: str, address: str) -> int | None:
        """What a request is answered in place of the server, if it is."""
        with self._lock:
            if self._to_fail:
                return self._to_fail.pop(0)
            meant = method in ("PUT", "POST") and self._instead and address.endswith(self._of)
            return self._instead.pop(0) if meant else None

    def fail(self, *statuses: int) -> None:
        """Answer the next requests so, whatever they are, in place of the server."""
        with self._lock:
            self._to_fail = list(statuses)

    def cut_answers(self, count: int, *, of_at_least: int) -> None:
        """Break off so many of the next answers that have a body of so many bytes."""
        with self._lock:
            self._to_cut, self._worth_cutting = count, of_at_least

    @property
    def done(self) -> bool:
        """Whether all that was to go wrong has."""
        with self._lock:
            return not (self._to_fail or self._to_cut or self._to_lose or self._instead)

    def cuts(self, size_bytes: int) -> bool:
        """Whether an answer of so many bytes is broken off."""
        with self._lock:
            if not self._to_cut or size_bytes < self._worth_cutting:
                return False
            self._to_cut -= 1
            return True

    def keeps_silent(self, method: str) -> bool:
        """Whether a request gets no answer: returns True when the silence is over, and the client has long gone."""
        if self.answers.is_set() or self.silent_to not in ("", method):
            return False
        with self._lock:
            self.unanswered.append(method)
        self.answers.wait()
        return True

    def seen(self, name: str, value: str) -> str:
        """A header of an answer, as the server's clock has it."""
        if not self.hours_off or name.lower() not in ("date", "last-modified"):
            return value
        return format_datetime(parsedate_to_datetime(value) + timedelta(hours=self.hours_off), usegmt=True)

    def loses(self, method: str, address: str) -> bool:
        """Whether the answer to this request is lost."""
        with self._lock:
            if method not in ("PUT", "POST") or not self._to_lose or self._of not in address:
                return False
            self._to_lose -= 1
            self.lost += 1
            return True


@contextmanager
def relay_to(inner: int) -> Iterator[Relay]:
    """Hand on to the server at the port `inner`."""
    relay = Relay(inner)
    handler = type("Handler", (_Handler,), {"relay": relay})
    with _Server(("127.0.0.1", relay.port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield relay
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client; to the server each request has its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    relay: ClassVar[Relay]

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.relay.away:
            self.close_connection = True
            return
        if (status := self.relay.instead(self.command, self.path)) is not None:
            self.send_response_only(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        server = http.client.HTTPConnection("127.0.0.1", self.relay.inner)
        asked = urlsplit(self.path)
        target = f"{asked.path}?{asked.query}" if asked.query else asked.path
        server.putrequest(self.command, target, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _NOT_HANDED_ON:
                server.putheader(name, value)
        server.endheaders(body or None)
        answer = server.getresponse()
        data = answer.read()
        server.close()
        if self.command == "PUT" and answer.status in (409, 412):
            self.relay.refused += 1
        if self.relay.loses(self.command, self.path) or self.relay.keeps_silent(self.command):
            self.close_connection = True
            return
        time.sleep(self.relay.delay_s)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_HANDED_ON | {"content-length"}:
                self.send_header(name, self.relay.seen(name, value))
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        if length is not None and answer.status != http.client.NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.relay.cuts(len(data)):
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
