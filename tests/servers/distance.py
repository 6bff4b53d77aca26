"""A network between a server on this machine and its clients: everything takes its time, in both directions.

``python -m tests.servers.distance FROM TO MS`` listens at the port FROM and hands everything on to the port TO, MS
milliseconds later, until it is killed. It is a process of its own, so that it does not compete for a client's Python.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CHUNK = 1 << 18
_UNDER_WAY = 4_000
"""Chunks at most, in one direction of one connection."""


@contextmanager
def distance(outer: int, inner: int, round_trip_ms: float) -> Iterator[None]:
    """The server at `inner` is as far away as this for those who connect to `outer`."""
    command = [sys.executable, "-m", __spec__.name, str(outer), str(inner), str(round_trip_ms / 2)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        try:
            _await(outer)
            yield
        finally:
            process.kill()


def _await(port: int, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not _listens(port):
        assert time.monotonic() < deadline, "the network does not come up"
        time.sleep(0.05)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _serve(outer: int, inner: int, delay_s: float) -> None:
    with socket.create_server(("127.0.0.1", outer)) as server:
        while True:
            client, _ = server.accept()
            upstream = socket.create_connection(("127.0.0.1", inner))
            for source, target in ((client, upstream), (upstream, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_hand_on, args=(source, target, delay_s), daemon=True).start()


def _hand_on(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    under_way: queue.Queue[tuple[float, bytes]] = queue.Queue(_UNDER_WAY)
    threading.Thread(target=_deliver, args=(under_way, target), daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(_CHUNK)
        except OSError:
            data = b""
        under_way.put((time.monotonic() + delay_s, data))


def _deliver(under_way: queue.Queue[tuple[float, bytes]], target: socket.socket) -> None:
    data = b"-"
    with suppress(OSError):
        while data:
            due_s, data = under_way.get()
            time.sleep(max(due_s - time.monotonic(), 0))
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1_000)
