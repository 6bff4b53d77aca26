"""A Spark standalone cluster on this machine, from the jars that PySpark brings: one master, two workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.jobs.kit import until

ROOT = Path(__file__).parents[2]
WORKERS = 2
EXECUTOR_MEMORY = "512m"
STARTS_WITHIN_S = 120

_MASTER = re.compile(r"spark://[\d.]+:\d+")
_DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """Processes of a cluster; each executor has one core and `EXECUTOR_MEMORY`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir()
        self.master = ""

    def start(self) -> Cluster:
        """Start its processes."""
        log = self._start("master", f"{_DEPLOY}.master.Master")
        until(lambda: _MASTER.search(log.read_text()) is not None, STARTS_WITHIN_S)
        match = _MASTER.search(log.read_text())
        assert match is not None
        self.master = match[0]
        options = ("--cores", "1", "--memory", "600m")
        logs = [
            self._start(
                f"worker{number}", f"{_DEPLOY}.worker.Worker", *options, "--work-dir", self._work(number), self.master
            )
            for number in range(WORKERS)
        ]
        until(lambda: all("Successfully registered" in log.read_text() for log in logs), STARTS_WITHIN_S)
        return self

    def kill(self) -> None:
        """End them all."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def executors(self) -> Sequence[Path]:
        """The folders of all executors that were ever started."""
        return [*self._folder.glob("work*/app-*/*/stderr")]

    def _work(self, number: int) -> str:
        return str(self._folder / f"work{number}")

    def _start(self, name: str, *arguments: str) -> Path:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "PYSPARK_PYTHON": sys.executable,
        }
        places = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            command = [str(home / "bin" / "spark-class"), arguments[0], *places, *arguments[1:]]
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
            )
        return log
