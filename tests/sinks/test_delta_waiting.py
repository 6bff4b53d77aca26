"""While delta-rs waits for a server, the other threads of the driver run: one of them says that the job is alive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("obstore")

from rekindle.sinks import Delta
from rekindle.sinks.owners import Claim


class EmptyBucket(BaseHTTPRequestHandler):
    """A bucket of S3 that has nothing.

    It is in the process that asks it, so that it cannot answer while the one who asks lets no other thread run.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_list = "list-type" in self.path
        self._answer(200 if is_list else 404, b"<ListBucketResult><Name>box</Name></ListBucketResult>")

    def do_HEAD(self) -> None:
        self._answer(404)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyBucket)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield "s3://box"
    server.shutdown()
    server.server_close()
    thread.join()


def test_others_run_while_a_table_is_looked_for(bucket: str) -> None:
    found = Delta(f"{bucket}/a table").examine(Claim(owner="job", sink="out", storage="here", now_ms=0), None)
    assert found is None
