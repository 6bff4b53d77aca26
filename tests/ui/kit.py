"""What the tests of the server share."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.local import LocalStore
from tests.ui.world import World

http = httpx.Client(timeout=60)
"""One for all: each makes certificates ready, which takes longer than any answer."""


@contextmanager
def serving(storage: str, *options: str) -> Iterator[str]:
    """Run `rekindle ui` in a process of its own; yields its address."""
    command = [sys.executable, "-m", "rekindle.cli", "ui", "--storage", storage, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


class Counting(LocalStore):
    """Remembers what was read."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.was_read: list[str] = []

    def read(self, path: str) -> bytes:
        """The bytes at `path`."""
        self.was_read.append(path)
        return super().read(path)


class Driver:
    """Answers what lies in the control folder of a job, as `answer` says."""

    def __init__(self, world: World, job: str, answer: Callable[[Request], Answer | None]) -> None:
        self.storage = world.healthy(job).storage
        self.requests: list[Request] = []
        self._answer = answer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.wait(0.02):
            for request in self.storage.control({one.id for one in self.requests}).requests:
                self.requests.append(request)
                answer = self._answer(request)
                if answer is not None:
                    self.storage.answer(answer)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def good(request: Request) -> Answer:
    """Answer as a driver does that does what it was asked for."""
    state = {"cancel": "CANCELED"}.get(request.verb, "DRAINED" if request.drain else "STOPPED")
    ends = request.verb in ("stop", "cancel")
    return Answer(
        id=request.id,
        job="job",
        state=state if ends else "RUNNING",
        answered_ms=1,
        checkpoint=41,
        savepoint=request.savepoint and f"{request.savepoint}/job-41",
        notes=("a note",),
    )


@contextmanager
def proxied(address: str, prefix: str, password: str) -> Iterator[str]:
    """Run a proxy that has a server below `prefix`, asks it under the server's own name, as nginx does unless told
    otherwise, knows nothing else, and wants a password of its own, which it passes on; yields the address that people
    have.
    """
    wanted = "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="the proxy"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            own = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = http.request(self.command, address + self.path.removeprefix(prefix), headers=own, content=body)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name not in ("content-encoding", "content-length", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
