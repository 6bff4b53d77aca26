"""How long `rekindle list` takes over many jobs in a bucket, and what it asks.

    python bench/listing.py --jobs 1000

The jobs are those of `tests/ui/world.py` whose drivers run. The server is S3Proxy on this machine, behind a proxy that
counts: both take their share of its processors. With `--away` the server is so many milliseconds away, there and back,
and nothing is counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store
from tests.servers import s3 as s3_server
from tests.servers.counting import counting
from tests.servers.distance import distance
from tests.servers.ports import free_ports
from tests.ui.world import World


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000, help="how many")
    parser.add_argument("--runs", type=int, default=3, help="lists that are measured")
    parser.add_argument("--away", type=float, default=0, help="milliseconds to the server, there and back")
    given = parser.parse_args()
    server = s3_server.S3Server()
    try:
        server.start()
        os.environ.update(server.environment)
        storage = f"s3://{server.make_bucket()}/state"
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rekindle-bench-"))
            # Heartbeats from the future look young for long enough: otherwise a second look would wait for them.
            World(folder, checkpoints=3, now_ms=time.time_ns() // 1_000_000 + 600_000).many(given.jobs)
            objects = fill(LocalStore(folder), storage)
            print(f"{given.jobs} jobs, {objects} objects")
            inner = urlsplit(server.endpoint).port
            assert inner is not None, "the server has a port"
            requests = None
            if given.away:
                (port,) = free_ports(1)
                stack.enter_context(distance(port, inner, given.away))
            else:
                port, requests = stack.enter_context(counting(inner))
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            for _ in range(given.runs):
                before = requests.so_far() if requests else Counter()
                began, load = time.monotonic(), os.getloadavg()[0]
                listed = subprocess.run(
                    [sys.executable, "-m", "rekindle.cli", "list", "--storage", storage],
                    check=True, capture_output=True, text=True,
                ).stdout  # fmt: skip
                took_s = time.monotonic() - began
                asked = (requests.so_far() if requests else Counter()) - before
                kinds = ", ".join(f"{count} {kind}" for (_, kind), count in sorted(asked.items()))
                print(f"{took_s:.1f} s, load {load:.1f}: {listed.count('RUNNING')} running; {kinds}", flush=True)
    finally:
        server.remove()


def fill(source: LocalStore, storage: str) -> int:
    """Copy all objects into the bucket; return how many."""
    target = open_store(storage)
    paths = [entry.path for entry in source.walk("")]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: target.copy_from(source, path, path), paths))
    return len(paths)


if __name__ == "__main__":
    main()
