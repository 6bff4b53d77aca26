"""What clients ask of a server of objects, request by request: a proxy that counts them by kind.

The kinds are those of a bill. Servers speak the languages of S3, Azure's blobs or Google's buckets.
"""

from __future__ import annotations

import gzip
import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

_COPIES = ("x-amz-copy-source", "x-ms-copy-source", "x-goog-copy-source")
_NOT_HANDED_ON = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Requests:
    """How many requests came, by who sent them and their kind, and how many bytes they wrote."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._written: Counter[str] = Counter()
        self._named: Counter[tuple[str, str, str]] = Counter()

    def add(self, who: str, kind: str, written: int, name: str = "") -> None:
        """One more, with so many bytes in its body, for the object of that name, or for those that begin so.

        Of a kind that is on no bill, only the bytes count.
        """
        with self._lock:
            if kind:
                self._counted[who, kind] += 1
                self._named[who, kind, name] += 1
            if kind in ("PUT", ""):
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


def kind_on_azure(method: str, target: str, copies: bool) -> str:
    """As `kind_of`; "other" is what a bill calls so: leases, metadata and properties."""
    query = parse_qs(urlsplit(target).query, keep_blank_values=True)
    comp = query.get("comp", [""])[0]
    if method == "GET" and comp == "list":
        return "LIST"
    if comp in ("lease", "metadata", "properties") or "restype" in query:
        return "other"
    return "COPY" if method == "PUT" and copies else method


def kind_on_google(method: str, target: str, copies: bool) -> str:
    """As `kind_of`, for both of Google's interfaces: a look at an object's metadata is a HEAD; "" is on no bill."""
    parts = urlsplit(target)
    query, path = parse_qs(parts.query, keep_blank_values=True), parts.path
    if "/storage/v1/b" not in path:
        return kind_of(method, target, copies)
    if "/upload/" in path:
        return "" if "upload_id" in query else "PUT"  # an upload in pieces is on the bill once
    if method == "GET":
        if path.rstrip("/").endswith("/o"):
            return "LIST"
        return "GET" if query.get("alt") == ["media"] or path.startswith("/download/") else "HEAD"
    return "COPY" if "/rewriteTo/" in path or "/copyTo/" in path else "POST" if method == "PATCH" else method


def each_of(method: str, target: str, body: bytes) -> Iterator[tuple[str, str]]:
    """Return the method and the target of each request that one may hold: Google's clients send some together."""
    if method == "POST" and urlsplit(target).path.startswith("/batch"):
        yield from ((found[1].decode(), found[2].decode()) for found in _HELD.finditer(body))
    else:
        yield method, target


_HELD = re.compile(rb"^(GET|PUT|POST|PATCH|DELETE) (?:https?://[^/]+)?(/\S*)", re.MULTILINE)


@contextmanager
def counting(
    inner: int, of_request: Callable[[str, str, bool], str] = kind_of, counted: Requests | None = None
) -> Iterator[tuple[int, Requests]]:
    """Hand on to the server at the port `inner`; yields the port to use, and the counts.

    The port is that of an HTTP proxy as well, for a client that knows the names of a cloud's own hosts only.

    Args:
        of_request: its kind, in the language of that server.
        counted: where the requests are counted too that come by another way.
    """
    requests = Requests() if counted is None else counted

    class Handler(_Handler):
        server_port = inner
        counted = requests
        kind = partial(of_request)

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
    kind: ClassVar[partial[str]]

    def _hand_on(self) -> None:
        agent = self.headers.get("User-Agent", "")
        who = "Rekindle" if agent.lower().startswith(("object_store", "botocore")) else "Spark"
        body = self._body()
        # A body that is signed in pieces says how long it is without the signatures.
        size = int(self.headers.get("x-amz-decoded-content-length") or len(body))
        copies = any(name.lower() in _COPIES for name in self.headers)
        plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        for method, target in each_of(self.command, self.path, plain):
            self.counted.add(who, self.kind(method, target, copies), size, name_of(target))
        asked = urlsplit(self.path)
        target = f"{asked.path}?{asked.query}" if asked.query else asked.path
        server = http.client.HTTPConnection("127.0.0.1", self.server_port)
        server.putrequest(self.command, target, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _NOT_HANDED_ON:
                server.putheader(name, value)
        if "Content-Length" not in self.headers and body:
            server.putheader("Content-Length", str(len(body)))
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

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _hand_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
