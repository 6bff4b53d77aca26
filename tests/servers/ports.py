"""Ports for the servers that tests start, stop and start again.

They lie below those a system hands out by itself (32768 and up on Linux, 49152 and up elsewhere), so that nobody else
is given the port of a server that is away for a while.
"""

from __future__ import annotations

import random
import socket

OURS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """As many different ports as asked for that nobody listens on."""
    found: list[int] = []
    for port in random.SystemRandom().sample(OURS, len(OURS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} free ports in {OURS}")
