"""How long `rekindle list` takes over many jobs in a directory and in a bucket, and what it asks of the bucket.

    python bench/listing.py --jobs 1000 --ended 950

The jobs are those of `tests/ui/world.py`, of which so many have ended; the drivers of the others run. The server is
S3Proxy on this machine: it takes its share of the processors, and so does the proxy in front of it that counts. With
`--away` the server is so many milliseconds away, there and back, and nothing is counted; with `--away 0` there is
nothing between.
"""

from __future__ import annotations

import argparse
import os
import resource
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
from tests.servers.counting import Requests, counting
from tests.servers.distance import distance
from tests.servers.ports import free_ports
from tests.ui.world import World


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000, help="how many")
    parser.add_argument("--runs", type=int, default=3, help="lists that are measured")
    parser.add_argument("--ended", type=int, default=950, help="how many of them have ended")
    parser.add_argument("--away", type=float, help="milliseconds to the server, there and back")
    given = parser.parse_args()
    server = s3_server.S3Server()
    try:
        server.start()
        os.environ.update(server.environment)
        storage = f"s3://{server.make_bucket()}/state"
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rekindle-bench-"))
            # Heartbeats from the future look young for long enough: otherwise a second look would wait for them.
            World(folder, checkpoints=3, now_ms=time.time_ns() // 1_000_000 + 600_000).many(given.jobs, given.ended)
            objects = fill(LocalStore(folder), storage)
            print(f"{given.jobs} jobs, {objects} objects")
            measure(folder, given.runs, None)
            inner = urlsplit(server.endpoint).port
            assert inner is not None, "the server has a port"
            requests = None
            if given.away:
                (port,) = free_ports(1)
                stack.enter_context(distance(port, inner, given.away))
            elif given.away is not None:
                port = inner
            else:
                port, requests = stack.enter_context(counting(inner))
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            measure(storage, given.runs, requests)
    finally:
        server.remove()


def measure(storage: str, runs: int, requests: Requests | None) -> None:
    """List the jobs of a storage so many times, each time in a new process."""
    for _ in range(runs):
        before = requests.so_far() if requests else Counter()
        began, load, used = time.monotonic(), os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN)
        listed = subprocess.run(
            [sys.executable, "-m", "rekindle.cli", "list", "--storage", storage],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        took_s, done = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = done.ru_utime + done.ru_stime - used.ru_utime - used.ru_stime
        asked = (requests.so_far() if requests else Counter()) - before
        kinds = ", ".join(f"{count} {kind}" for (_, kind), count in sorted(asked.items()))
        states = f"{listed.count('RUNNING')} running, {listed.count('STOPPED')} stopped"
        print(f"{took_s:.2f} s, {cpu_s:.2f} s of CPU, load {load:.1f}: {states}; {kinds}", flush=True)


def fill(source: LocalStore, storage: str) -> int:
    """Copy all objects into the bucket; return how many."""
    target = open_store(storage)
    paths = [entry.path for entry in source.walk("")]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: target.copy_from(source, path, path), paths))
    return len(paths)


if __name__ == "__main__":
    main()
