"""A driver in a process of its own, to be killed or paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.crash.kit import CONFIG, LAST_LIVE_BATCH, BrokenWorld
from tests.jobs.kit import INTERPRETED, until

ROOT = Path(__file__).parents[2]
SECONDS_AT_MOST = 300

FEW_CHECKPOINTS = {**CONFIG, "checkpoint.interval": "1 hour"}
"""The only checkpoints are those that the job asks for itself: the first manifest is the one that matters."""


class Victim:
    """A driver in a process group of its own, with its JVM."""

    def __init__(
        self,
        world: BrokenWorld,
        *arguments: str,
        live: bool,
        rival: bool = False,
        planted: bool = False,
        config: Mapping[str, str] = FEW_CHECKPOINTS,
    ) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "PYSPARK_PYTHON": sys.executable,
            "CRASH_WORLD": str(world.root),
            "CRASH_LIVE": "1" if live else "",
            "CRASH_RIVAL": "1" if rival else "",
            "CRASH_PLANTED": "1" if planted else "",
        }
        asked = ("--ask", "savepoint", "--ask", "drain", "--ask-at", str(LAST_LIVE_BATCH)) if live else ()
        spark = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
        command = [
            *(sys.executable, "-m", "rekindle.testing.crash", str(world.job_file)),
            *("--storage", world.storage, *world.arguments, *arguments, *asked),
            *(part for key, value in config.items() for part in ("--set", f"{key}={value}")),
            *(part for key, value in {**spark, **INTERPRETED}.items() for part in ("--conf", f"{key}={value}")),
        ]
        self._storage = Path(world.storage)
        self.log = world.root / "driver.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=world.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def wait_until_paused(self) -> None:
        """Wait until it has stopped itself."""
        until(lambda: _state(self._process.pid) in ("T", ""), SECONDS_AT_MOST)
        assert self._process.poll() is None, self.log.read_text()[-3000:]

    def freeze_after(self, seconds: float, *, with_engine: bool) -> bool:
        """Suspend it so long after its job has begun, with its JVM or without; whether it was still at it."""
        ran = self._is_at_it_after(seconds)
        if ran and with_engine:
            os.killpg(self._process.pid, signal.SIGSTOP)
        elif ran:
            os.kill(self._process.pid, signal.SIGSTOP)
        return ran

    def wake(self) -> None:
        """Let it go on."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def kill_after(self, seconds: float) -> bool:
        """kill -9 so long after its job has begun; whether it was still at it."""
        ran = self._is_at_it_after(seconds)
        if ran:
            self.kill()
        self.wait()
        return ran

    def _is_at_it_after(self, seconds: float) -> bool:
        until(lambda: any(self._storage.glob("*/runs/*.json")) or not self.lives(), SECONDS_AT_MOST)
        time.sleep(seconds)
        return self.lives()

    def kill(self) -> None:
        """kill -9, driver and JVM alike."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, once its whole group is gone: Spark's JVM ends by itself when its driver is no more."""
        try:
            code = self._process.wait(SECONDS_AT_MOST)
            deadline = time.monotonic() + SECONDS_AT_MOST
            while self.lives():
                assert time.monotonic() < deadline, "the JVM has outlived its driver"
                time.sleep(0.02)
        finally:
            if self.lives():
                self.kill()
        return code

    def lives(self) -> bool:
        """Whether any process of its group is there."""
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True


def _state(pid: int) -> str:
    """``T`` where a process is stopped; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
