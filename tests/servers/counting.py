"""What clients ask of a server that speaks the language of S3, request by request: a proxy that counts them by kind."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

_NOT_HANDED_ON = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Requests:
    """How many requests came, by who sent them and their kind, and how many bytes they wrote."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._written: Counter[str] = Counter()
        self._named: Counter[tuple[str, str, str]] = Counter()

    def add(self, who: str, kind: str, written: int, name: str = "") -> None:
        """One more, with so many bytes in its body, for the object of that name, or for those that begin so."""
        with self._lock:
            self._counted[who, kind] += 1
            self._named[who, kind, name] += 1
            if kind == "PUT":
                self._written[who] += written

    def so_far(self) -> Counter[tuple[str, str]]:
        """Return them, as of now."""
        with self._lock:
            return Counter(self._counted)

    def named(self) -> Counter[tuple[str, str, str]]:
        """Return them by who sent them, their kind, and what they were for, as of now."""
        with self._lock:
            return Counter(self._named)

    def written(self) -> Counter[str]:
        """Return the bytes that were put, by who put them, as of now."""
        with self._lock:
            return Counter(self._written)


def name_of(target: str) -> str:
    """Return the name of the object that a request is for; of a LIST, what the names that it asks for begin with."""
    parts = urlsplit(target)
    name = unquote(parts.path.strip("/").partition("/")[2])
    return name or parse_qs(parts.query).get("prefix", [""])[0]


def kind_of(method: str, target: str, copies: bool) -> str:
    """What a request is called on a bill: GET, HEAD, LIST, PUT, COPY, POST, or DELETE of one object or of many."""
    parts = urlsplit(target)
    query, key = parse_qs(parts.query, keep_blank_values=True), parts.path.strip("/").partition("/")[2]
    if method == "GET":
        return "GET" if key else "LIST"
    if method == "POST":
        return "DELETE many" if "delete" in query else "POST"
    return "COPY" if method == "PUT" and copies else method


@contextmanager
def counting(inner: int) -> Iterator[tuple[int, Requests]]:
    """Hand on to the server at the port `inner`; yields the port to use, and the counts."""
    requests = Requests()

    class Handler(_Handler):
        server_port = inner
        counted = requests

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1], requests
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client; to the server each request has its own, which is never one that it gives up."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_port: ClassVar[int]
    counted: ClassVar[Requests]

    def _hand_on(self) -> None:
        agent = self.headers.get("User-Agent", "")
        who = "Rekindle" if agent.lower().startswith(("object_store", "botocore")) else "Spark"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # A body that is signed in pieces says how long it is without the signatures.
        size = int(self.headers.get("x-amz-decoded-content-length") or len(body))
        kind = kind_of(self.command, self.path, "x-amz-copy-source" in self.headers)
        self.counted.add(who, kind, size, name_of(self.path))
        server = http.client.HTTPConnection("127.0.0.1", self.server_port)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _NOT_HANDED_ON:
                server.putheader(name, value)
        server.endheaders(body or None)
        answer = server.getresponse()
        data = answer.read()
        server.close()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_HANDED_ON | {"content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        if length is not None and answer.status != http.client.NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
