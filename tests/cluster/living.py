"""A job that lives on a cluster of machines while something there fails: a file every second or so, to the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rekindle.storage.documents.status import Status
from tests.cluster.machines import Machine, MachineCluster
from tests.cluster.submitting import PYTHON
from tests.crash.pipeline_kit import PipelineWorld
from tests.jobs.kit import QUICK, rows, until

JOB_FILE = Path(__file__).with_name("job_file.py")
SECONDS_AT_MOST = 600
FILE_EVERY_S = 1.5
HOURS_A_FILE = 0.5
AHEAD = 4
"""Files that may wait to be read: a slow machine is not to read for an hour what came while something failed."""

CONFIG = {**QUICK, "restart.attempts": "unlimited", "input.target_batch_duration": "1 ms"}

ELASTIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "10s",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "300ms",
}
"""Executors come and go with the work, and what takes long is done twice at once."""

IMPATIENT = {
    "spark.network.timeout": "10s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeoutInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
}
"""An executor that is silent for so long is lost. Spark's own defaults are ten times that."""


class Life:
    """The pipeline, its driver and what it reads."""

    def __init__(self, root: Path, cluster: MachineCluster, spark: Mapping[str, str]) -> None:
        self.cluster = cluster
        self._spark = {**ELASTIC, **spark}
        self._world = PipelineWorld(root)
        self._world.add_history(rows(10, 90), rows(0, 90))
        self._world.add_extra(rows(12, 90))
        self._environment = {
            **PYTHON,
            "CLUSTER_WORLD": str(root),
        }
        self._log = root / "driver.log"
        self._files = 0
        self.driver = cluster.add("driver")
        self._process = self._started()

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Drop file after file into the live stream; none more afterwards."""
        over = threading.Event()

        def feed() -> None:
            while not over.wait(FILE_EVERY_S):
                if self._files - self._read() >= AHEAD:
                    continue
                self._world.add_live(rows(30 + HOURS_A_FILE * self._files, int(60 * HOURS_A_FILE)))
                self._files += 1

        thread = threading.Thread(target=feed, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def move_driver(self, machine: Machine) -> None:
        """Let the driver's machine die, with its disk, and start it on another."""
        self.driver.destroy()
        self._process.wait()
        self.driver = machine
        self._process = self._started()

    def get_on(self, files: int = 3) -> None:
        """Wait until so many more files of the live stream are in the archive's records, and a checkpoint more."""
        wanted, checkpoints = self._archived() + files, self._checkpoint()
        self._until(lambda: self._archived() >= wanted and self._checkpoint() > checkpoints)

    def end(self) -> None:
        """Wait until everything is read, drain, and compare what is there with what has to be."""
        self._until(lambda: self._read() >= self._files)
        verb = ("stop", self._world.name, "--drain", "--storage", self._world.storage)
        done = subprocess.run(
            [sys.executable, "-m", "rekindle.cli", *verb],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=SECONDS_AT_MOST,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.log()}"
        assert self._process.wait(SECONDS_AT_MOST) == 0, self.log()
        self._world.check()

    def status(self) -> Status | None:
        """Return what the driver says of itself; None before it has said anything."""
        return self._world.documents().status()

    def log(self) -> str:
        """Return the end of what the driver has printed."""
        return self._log.read_text()[-5_000:]

    def _started(self) -> subprocess.Popen[bytes]:
        spark = {**self._spark, **self.cluster.settings(self.driver)}
        command = [
            *(sys.executable, "-m", "rekindle.cli", "run", str(JOB_FILE), "--storage", self._world.storage),
            *(part for key, value in CONFIG.items() for part in ("--set", f"{key}={value}")),
            *(part for key, value in spark.items() for part in ("--conf", f"{key}={value}")),
        ]
        return self.driver.start(self._log, command, self._environment)

    def _read(self) -> int:
        status = self.status()
        live = [task.inputs.get("live") for task in (status.tasks if status else ()) if task.uid == "enrich"]
        return live[0].position["logOffset"] + 1 if live and live[0] and live[0].position else 0

    def _archived(self) -> int:
        status = self.status()
        return sum(task.batches for task in (status.tasks if status else ()) if task.uid == "archive")

    def _checkpoint(self) -> int:
        status = self.status()
        return status.checkpoints_completed if status else 0

    def _until(self, condition: Callable[[], bool]) -> None:
        until(lambda: self._process.poll() is not None or condition(), SECONDS_AT_MOST)
        assert self._process.poll() is None, self.log()
