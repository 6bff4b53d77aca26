"""Nexmark's queries in Flink: its settings, its process, and what its log says of checkpoints.

The SQL lies in ``bench/flink``, a file for each query, and the streams' tables in ``streams.sql``. `tools/flink.sh`
makes Flink's environment.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import psutil

from measuring import ROOT, cpu_seconds
from nexmark_queries import SCHEMAS

SQL = ROOT / "bench" / "flink"
ENVIRONMENT = ROOT / ".venv" / "flink"
STATES = {"heap": "hashmap", "RocksDB": "rocksdb"}
"""Where state lies → what Flink calls it."""

SETTINGS = {
    "parallelism.default": "2",
    "execution.runtime-mode": "STREAMING",
    "execution.checkpointing.interval": "5 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "taskmanager.memory.managed.size": "512m",
    "table.local-time-zone": "UTC",
}
"""Two slots and a checkpoint every five seconds; all else is as Flink has it."""

_CHECKPOINT = re.compile(
    r"Completed checkpoint \d+ for job \w+ \(\d+ bytes, checkpointDuration=(\d+) ms, finalizationTime=(\d+) ms"
)


def installed() -> bool:
    """Return True if `tools/flink.sh` has made Flink's environment."""
    return (ENVIRONMENT / "complete").exists()


def version() -> str:
    """Return Flink's version."""
    found = next(ENVIRONMENT.glob("lib/python*/site-packages/apache_flink-*.dist-info"))
    return found.name.removeprefix("apache_flink-").removesuffix(".dist-info")


def statements(name: str, data: Path, out: Path, *, live: bool = False) -> list[str]:
    """Return what Flink executes for a query: tables, views, and last the job, which writes Parquet into `out`.

    Args:
        live: files that come later are read too, and the job does not end.
    """
    monitored = ", 'source.monitor-interval' = '200 ms'" if live else ""
    files = {
        stream: f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{(data / stream).as_uri()}'{monitored}"
        for stream in SCHEMAS
    }
    streams = Template((SQL / "streams.sql").read_text()).substitute(files)
    *views, select = _parts((SQL / f"{name}.sql").read_text())
    written = "'parquet.write.int64.timestamp' = 'true', 'parquet.utc-timezone' = 'true'"
    table = f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{out.as_uri()}', {written}"
    return [*_parts(streams), *views, f"CREATE TABLE answer WITH ({table}) AS\n{select}"]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def settings(state: str, checkpoints: Path, restore: str | None = None) -> dict[str, str]:
    """Return Flink's settings for a job that keeps its state there.

    Args:
        state: one of `STATES`.
        restore: the checkpoint or savepoint that the job begins with.
    """
    chosen = {
        **SETTINGS,
        "state.backend.type": STATES[state],
        "execution.checkpointing.dir": checkpoints.as_uri(),
    }
    return {**chosen, "execution.state-recovery.path": restore} if restore else chosen


def last_checkpoint(checkpoints: Path) -> str:
    """Return the newest complete checkpoint of a job that was killed."""
    complete = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    return complete[-1].parent.as_uri()


def checkpoint_seconds(log: str) -> list[float]:
    """Return how long the checkpoints took of which Flink's log speaks, from the trigger until they were complete."""
    return [(int(took) + int(completing)) / 1000 for took, completing in _CHECKPOINT.findall(log)]


class Flink:
    """A process of Flink that is sent SQL. It runs one job at a time, in the same JVM."""

    def __init__(self, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self._logs = work
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(ENVIRONMENT / "bin" / "python"), str(ROOT / "bench" / "flink_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(work / "errors").open("ab"),
            text=True,
            env=_environment(work),
            start_new_session=True,
        )
        self._answer()
        #: from its start until SQL can be sent
        self.start_s = time.perf_counter() - began

    def run(self, name: str, state: str, data: Path, work: Path) -> dict[str, Any]:
        """Run a query over all the files to its end, and write Parquet into ``work/out``.

        Returns ``seconds`` from the request to the end, and ``start_s``, how much of it Flink calls no part of the job:
        the query is planned, and a cluster of one process started.
        """
        wanted = {"run": statements(name, data, work / "out"), "settings": settings(state, work / "checkpoints")}
        return self._ask(wanted)

    def start(self, name: str, state: str, data: Path, work: Path, restore: str | None = None) -> None:
        """Start a query over the files that are there and come; it runs until it is stopped or killed."""
        sql = statements(name, data, work / "out", live=True)
        self._ask({"start": sql, "settings": settings(state, work / "checkpoints", restore)})

    def stop(self, directory: Path) -> dict[str, Any]:
        """Stop the job; return its ``savepoint`` and how many ``seconds`` passed until that was complete."""
        return self._ask({"stop": directory.as_uri()})

    def log(self) -> str:
        """Return what Flink has logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._logs.glob("*.log")))

    def pids(self) -> list[int]:
        """Return the ids of its processes."""
        return [self._process.pid, *(child.pid for child in psutil.Process(self._process.pid).children(recursive=True))]

    def cpu_seconds(self) -> float:
        """Return what its processes have used so far."""
        return cpu_seconds(of=self._process.pid)

    def kill(self) -> None:
        """Kill Python and JVM at once; nothing where they have been killed."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"bench: Flink has ended: {(self._logs / 'errors').read_text()[-4000:]}")


def _environment(logs: Path) -> dict[str, str]:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark = Path(spec.origin).parent / "jars"
    # Flink puts Hadoop's classes on its class path, where its Parquet needs them; PySpark brings them.
    jars = [*spark.glob("hadoop-client-*.jar"), *(ENVIRONMENT / "flink-parquet").glob("*.jar")]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    return {
        **kept,
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, jars)),
        "FLINK_LOG_DIR": str(logs),
        "JVM_ARGS": "-Xmx2g",
    }
