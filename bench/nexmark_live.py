"""Lives of Nexmark's queries over streams that go on: stopped, resumed from the savepoint, killed and started again.

A file of each stream comes each second. What counts is what a reader of the output sees: a new row is one in a file
that is committed, and was written after the job was stopped or killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from measuring import ROOT
from nexmark_flink import Flink, checkpoint_seconds, last_checkpoint
from nexmark_queries import QUERIES, SCHEMAS, Query
from nexmark_runs import differences, written
from nexmark_tables import Life

EVENTS_A_SECOND = 10_000
FILES = 240
"""So many seconds of a stream are made before; a life takes less."""
PATIENCE_S = 120
"""The longest that a first new row is waited for."""
LOOK_S = 0.02

LIVE = ("q2", "q5", "q20")
"""A filter, windows of windows, a join."""


class Engine(Protocol):
    """One job of one engine, which can be started again."""

    def start(self, restore: str | None) -> None:
        """Start it in a new process, out of a savepoint or, without one, of its last checkpoint or from the start."""
        ...

    def works(self) -> bool:
        """Return True once the job that was started last has computed something, or is about to."""
        ...

    def stop(self) -> tuple[float, str | None]:
        """Stop it: the seconds until the savepoint was complete, and where it lies."""
        ...

    def kill(self) -> None:
        """Kill all its processes at once; nothing where it has ended or never started."""
        ...

    def checkpoints(self) -> list[float]:
        """Return how long its checkpoints took so far."""
        ...


class OnSpark:
    """A job of Rekindle or a plain query, in a driver of its own."""

    def __init__(self, engine: str, query: Query, data: Path, work: Path) -> None:
        self._command = [sys.executable, str(ROOT / "bench" / "nexmark_driver.py"), engine]
        self._command += [query.name, str(data), str(work)]
        self._work, self._job = work, query.name
        self._done = {
            "rekindle": f"state/{query.name}/tasks/answer/0/*/batches/*.json",
            "plain": "progress/commits/[0-9]*",
        }[engine]
        self._before: set[Path] = set()
        self._process: subprocess.Popen[str] | None = None

    def start(self, restore: str | None) -> None:
        """Start it again; both resume what they left, and a savepoint of Rekindle is what it left."""
        self._before = self._batches()
        with (self._work / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip

    def works(self) -> bool:
        """Return True once it has a batch that was not there before."""
        if self._running.poll() is not None:
            sys.exit(f"bench: the driver ended\n{(self._work / 'log').read_text()[-4000:]}")
        return not self._batches() <= self._before

    def stop(self) -> tuple[float, str | None]:
        said, _ = self._running.communicate("stop\n", timeout=PATIENCE_S)
        answer = json.loads(said.strip().splitlines()[-1])
        return answer["seconds"], answer["savepoint"]

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def checkpoints(self) -> list[float]:
        if not (self._work / "state").exists():
            return []
        command = ["rekindle", "checkpoints", self._job, "--storage", str(self._work / "state"), "--json"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [
            (one["duration_ms"] + (one["commit_ms"] or 0)) / 1000
            for one in json.loads(said)
            if (one["kind"], one["status"]) == ("periodic", "completed")
        ]

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def _batches(self) -> set[Path]:
        return set(self._work.glob(self._done))


class InFlink:
    """A job of Flink, with RocksDB, in a process of its own."""

    def __init__(self, query: Query, data: Path, work: Path) -> None:
        self._query, self._data, self._work = query, data, work
        self._starts = 0
        self._flink: Flink | None = None

    def start(self, restore: str | None) -> None:
        """Start it out of the savepoint, or of its last checkpoint."""
        if restore is None and self._starts:
            restore = last_checkpoint(self._work / "checkpoints")
        self._starts += 1
        self._flink = Flink(self._work / f"logs-{self._starts}")
        self._flink.start(self._query.name, "RocksDB", self._data, self._work, restore)

    def works(self) -> bool:
        """Return True once all its subtasks have their state and run."""
        return "switched from INITIALIZING to RUNNING" in self._running.log()

    def stop(self) -> tuple[float, str | None]:
        answer = self._running.stop(self._work / "savepoints")
        self.kill()
        return answer["seconds"], answer["savepoint"]

    def kill(self) -> None:
        if self._flink is not None:
            self._flink.kill()

    def checkpoints(self) -> list[float]:
        logs = (log.read_text(errors="replace") for log in self._work.glob("logs-*/*.log"))
        return checkpoint_seconds("\n".join(logs))

    @property
    def _running(self) -> Flink:
        assert self._flink is not None
        return self._flink


def engines(*, flink: bool) -> dict[str, Callable[[Query, Path, Path], Engine]]:
    """Return name → what makes an engine."""
    found: dict[str, Callable[[Query, Path, Path], Engine]] = {
        "plain": lambda query, data, work: OnSpark("plain", query, data, work),
        "Rekindle": lambda query, data, work: OnSpark("rekindle", query, data, work),
    }
    return {**found, "Flink, RocksDB": InFlink} if flink else found


@contextmanager
def fed(spool: Path, data: Path) -> Iterator[None]:
    """Let a file of each stream come each second, from those that lie ready."""
    ready = {stream: sorted((spool / stream).iterdir()) for stream in SCHEMAS}
    for stream in SCHEMAS:
        (data / stream).mkdir(parents=True)
    over = threading.Event()

    def feed() -> None:
        for number in range(min(map(len, ready.values()))):
            for stream, files in ready.items():
                os.link(files[number], data / stream / files[number].name)
            if over.wait(1):
                return

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


@contextmanager
def ended(job: Engine) -> Iterator[None]:
    """Leave no process of a job, however it goes."""
    try:
        yield
    finally:
        job.kill()


def new_row(job: Engine, out: Path, since: float) -> tuple[float, float]:
    """Wait for a row in a file that was written since that time; how many seconds after it the job worked, and it came.

    What a job that was killed had written before, the next one may commit; that is no new row.
    """
    working = None
    old: set[Path] = set()
    while time.time() < since + PATIENCE_S:
        if working is None and job.works():
            working = time.time() - since
        for path in set(written(out)) - old:
            if path.stat().st_mtime > since and pq.read_metadata(path).num_rows:
                took = time.time() - since
                return took if working is None else working, took
            old.add(path)
        time.sleep(LOOK_S)
    sys.exit(f"bench: no new row within {PATIENCE_S} s in {out}")


def live(make: Callable[[Query, Path, Path], Engine], name: str, spool: Path, *, run_s: float, kills: int) -> Life:
    """Let a job run `run_s` seconds, stop it, resume it, kill it `kills` times; and see that its rows are right.

    Rows that are missing are not looked for: the streams have not ended.
    """
    work, data = spool.parent / "life", spool.parent / "live"
    work.mkdir()
    job = make(QUERIES[name], data, work)
    out = work / "out"
    with fed(spool, data), ended(job):
        job.start(None)
        new_row(job, out, time.time())
        time.sleep(run_s)
        stop_s, savepoint = job.stop()
        began = time.time()
        job.start(savepoint)
        _, resumed_s = new_row(job, out, began)
        life = Life(stop_s=stop_s, resumed_s=resumed_s)
        for _ in range(kills):
            time.sleep(run_s)
            began = time.time()
            job.kill()
            job.start(None)
            working, took = new_row(job, out, began)
            life.working_s.append(working)
            life.new_row_s.append(took)
    life.checkpoint_s = job.checkpoints()
    life.wrong = differences(QUERIES[name], data, out)["too many"]
    shutil.rmtree(work)
    shutil.rmtree(data)
    return life
