"""Measure how long each address of the server takes with 100 jobs and 10,000 checkpoints, and what it costs idle.

    python bench/monitoring.py [--jobs 100] [--checkpoints 100] [--idle 20]

Every file of the pages, every route of REST and of Flink's that reads, and the metrics. Nothing is asked twice within a
second, so that no answer of a moment ago is measured. Each address is asked for often, first and later ones apart: the
first reads the history, later ones only what has changed. It ends with 1 where one took longer than the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rekindle.ui import api, flink  # noqa: E402
from rekindle.ui.flink_names import vertex_id  # noqa: E402
from tests.ui.world import SAVEPOINT_EVERY, World  # noqa: E402

STATIC = ROOT / "src" / "rekindle" / "ui" / "static"
FILES = ["/", *(f"/{file.relative_to(STATIC)}" for file in sorted(STATIC.rglob("*.js")))]
OURS = [f"{api.PREFIX}/about", *(api.PREFIX + route.path for route in api.ROUTES)]
"""Each route of the documents; what is in a savepoint is asked of one that has a savepoint."""
FLINKS = [f"/v1{path}" for path in flink.READ if "{trigger}" not in path]
"""Each route of Flink's that reads; a trigger has to be sent first."""
TIMES = 5
LIMIT_MS, IDLE_SHARE = 200, 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--checkpoints", type=int, default=100, help="of each job")
    parser.add_argument("--idle", type=int, default=20, help="seconds without a question")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, options.checkpoints).many(options.jobs)
        print(f"{options.jobs} jobs, {options.jobs * options.checkpoints} checkpoints")
        command = [sys.executable, "-m", "rekindle.cli", "ui", "--storage", folder, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0].rstrip("/")
            try:
                longest_ms, slowest = _measure(world, address)
                before = _cpu_s(server.pid)
                time.sleep(options.idle)
                share = (_cpu_s(server.pid) - before) / options.idle
                print(f"slowest: {longest_ms:.1f} ms, {slowest}; limit {LIMIT_MS} ms")
                print(f"idle: {share:.2%} of a core over {options.idle} s; limit {IDLE_SHARE:.0%}")
            finally:
                server.terminate()
    if longest_ms > LIMIT_MS or share > IDLE_SHARE:
        sys.exit(1)


def _measure(world: World, address: str) -> tuple[float, str]:
    """Ask for everything; returns what took longest."""
    jobs = [*world.jobs][:4]
    _read(f"{address}/healthz")  # it listens before it answers
    begun = time.perf_counter()
    overview = json.loads(_read(f"{address}/v1/jobs/overview"))["jobs"]
    cold_ms = (time.perf_counter() - begun) * 1_000
    print(f"first answer of the server, the list of all jobs: {cold_ms:.1f} ms", flush=True)
    ids = {job["name"]: job["jid"] for job in overview}
    slowest = (cold_ms, "the first answer")
    for page in [*FILES, *OURS, *FLINKS, "/metrics"]:
        spans, size = [], 0
        for number in range(TIMES):
            if page not in FILES:
                world.beat()
                time.sleep(1.1)
            path = _filled(page, jobs[number % len(jobs)], ids, world.checkpoints)
            begun = time.perf_counter()
            size = len(_read(address + path))
            spans.append((time.perf_counter() - begun) * 1_000)
        slowest = max(slowest, (max(spans), page))
        print(
            f"{page:64} first {spans[0]:6.1f} ms  median {statistics.median(spans):6.1f} ms"
            f"  longest {max(spans):6.1f} ms  {size:8,} bytes",
            flush=True,
        )
    return slowest


def _filled(page: str, job: str, ids: dict[str, str], checkpoints: int) -> str:
    """Return an address with the names of something that is there."""
    of_flink = page.startswith("/v1/")
    values = {
        "job": ids[job] if of_flink else job,
        "id": str(checkpoints - checkpoints % SAVEPOINT_EVERY if "savepoints" in page else checkpoints),
        "vertex": vertex_id(ids[job], "clean"),
        "subtask": "0",
    }
    return re.sub(r"{(\w+)(:int)?}", lambda found: values[found[1]], page)


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 # our own server
        data: bytes = answer.read()
    return data


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
