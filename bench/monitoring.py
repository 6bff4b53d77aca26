"""Measure how long each address of the server takes with 100 jobs and 10,000 checkpoints, and what it costs idle.

    python bench/monitoring.py [--jobs 100] [--checkpoints 100] [--idle 20]

Nothing is asked twice within a second, so that no answer of a moment ago is measured. Each address is asked for often,
first and later ones apart: the first reads the history, later ones only what has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rekindle.ui.api import PREFIX, ROUTES  # noqa: E402
from tests.ui.world import World  # noqa: E402

PAGES = [PREFIX + route.path for route in ROUTES if "contents" not in route.path]
TIMES = 5


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
                _measure(world, address)
                before = _cpu_s(server.pid)
                time.sleep(options.idle)
                share = (_cpu_s(server.pid) - before) / options.idle
                print(f"idle: {share:.2%} of a core over {options.idle} s")
            finally:
                server.terminate()


def _measure(world: World, address: str) -> None:
    jobs = [*world.jobs]
    flink = urllib.request.urlopen(f"{address}/v1/jobs/overview").read()  # noqa: S310 # our own server
    job_id = json.loads(flink)["jobs"][0]["jid"]
    pages = [*PAGES, "/metrics", "/v1/jobs/overview", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/checkpoints"]
    for page in pages:
        spans, size = [], 0
        for number in range(TIMES):
            world.beat()
            time.sleep(1.1)
            path = page.format(job=jobs[number % 4], id=world.checkpoints)
            begun = time.perf_counter()
            with urllib.request.urlopen(address + path) as answer:  # noqa: S310
                size = len(answer.read())
            spans.append((time.perf_counter() - begun) * 1_000)
        print(
            f"{page.replace(job_id, '{job}'):48} first {spans[0]:6.1f} ms  median {statistics.median(spans):6.1f} ms"
            f"  longest {max(spans):6.1f} ms  {size:8,} bytes",
            flush=True,
        )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
