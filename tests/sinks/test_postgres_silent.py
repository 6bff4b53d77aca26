"""A server that takes connections and says nothing, as one that is frozen does, or the network before it."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

CONNECT = """
import sys
import psycopg
from rekindle.sinks.postgres import database

database.ATTEMPTS = 2
database._LINK["connect_timeout"] = "2"
try:
    database.connect(sys.argv[1], "a test")
except psycopg.errors.ConnectionTimeout:
    print("given up")
"""


def hang_up(server: socket.socket) -> None:
    server.accept()[0].close()


@pytest.mark.parametrize("hangs_up_first", [False, True], ids=["silent", "hangs up first"])
def test_a_server_that_never_answers_is_given_up(hangs_up_first: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(100)
        if hangs_up_first:
            pool.submit(hang_up, server)
        dsn = f"host=127.0.0.1 port={server.getsockname()[1]} user=x dbname=x sslmode=disable gssencmode=disable"
        # In a process of its own: one that waits inside libpq cannot be interrupted.
        done = subprocess.run(
            [sys.executable, "-c", CONNECT, dsn], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.stdout == "given up\n", done.stderr
