"""The command line and a job file as a user has them: a process of its own, started, asked, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.jobs.kit import World, recorded, rows, until

pytestmark = pytest.mark.spark

JOB_FILE = """
import os
from pyspark.sql import functions as F
import rekindle as rk

root = os.environ["WORLD"]
job = rk.Job("hourly")
live = job.source(
    "live",
    rk.Stream(lambda spark: spark.readStream.schema("ts timestamp, k string, v long").parquet(f"{root}/live")),
    event_time="ts",
    watermark="4 seconds",
)

@job.task(live)
def count(live):
    return live.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

job.sink("out", count, rk.sinks.Parquet(f"{root}/out"))

if __name__ == "__main__":
    raise SystemExit("run by the command line, not as a script")
"""


class CommandLine:
    def __init__(self, world: World) -> None:
        self.world = world
        self.job_file = world.root / "job.py"
        self.job_file.write_text(JOB_FILE)
        self.environment = {**os.environ, "WORLD": str(world.root), "REKINDLE_STORAGE": world.storage}
        self.log = world.root / "log"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rekindle.cli", "run", str(self.job_file), *arguments]
        with self.log.open("wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, cwd=self.world.root)
        self.processes.append(process)
        return process

    def ask(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "rekindle.cli", *arguments, "--json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=60, check=False)
        return json.loads(done.stdout)

    def has_read(self, files: int) -> bool:
        """Whether the job has read so many files; a command that asks again and again would take a core."""
        status = recorded(self.world.storage, "hourly")
        live = status.tasks[0].inputs.get("live") if status and status.tasks else None
        return live is not None and live.position is not None and live.position["logOffset"] >= files - 1


@pytest.fixture
def command_line(world: World) -> Iterator[CommandLine]:
    made = CommandLine(world)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def test_a_job_is_run_asked_terminated_resumed_and_drained(command_line: CommandLine) -> None:
    world = command_line.world
    world.add_live(rows(0, 60))
    process = command_line.start("--set", "checkpoint.interval=1 second")
    until(lambda: command_line.has_read(1))

    status = command_line.ask("status", "hourly")
    assert {"job", "state", "run", "mode", "tasks", "checkpoints", "error", "ended_at", "last_heard_of"} <= set(status)
    assert {"uid", "subtask", "status", "batch", "watermark", "inputs"} <= set(status["tasks"][0])
    assert {"ended", "idle", "position"} <= set(status["tasks"][0]["inputs"]["live"])
    assert (status["state"], status["run"]) == ("RUNNING", 1)
    second = command_line.ask("run", str(command_line.job_file))
    assert second["error"]["code"] == "JOB_ALREADY_RUNNING"
    taken = command_line.ask("checkpoint", "hourly")
    assert set(taken) == {"job", "state", "checkpoint", "savepoint"}
    made = command_line.ask("savepoint", "hourly", str(world.root / "savepoints"))
    assert command_line.ask("inspect", made["savepoint"])["job"] == "hourly"
    listed = command_line.ask("checkpoints", "hourly")
    assert {"manual", "savepoint"} <= {line["kind"] for line in listed}

    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    log = command_line.log.read_text()
    assert "STOPPED" in log
    assert "Traceback" not in log
    assert "\tat " not in log
    assert len(log.splitlines()) < 60, log

    world.add_live(rows(2, 60))
    process = command_line.start()
    until(lambda: command_line.has_read(2))
    answer = command_line.ask("stop", "hourly", "--drain")
    assert answer["state"] == "DRAINED"
    assert process.wait(60) == 0
    assert world.output() == world.expected()
    again = command_line.ask("run", str(command_line.job_file))
    assert (again["state"], again["already_ended"]) == ("DRAINED", True)


def test_a_cancelled_job_leaves_no_process_and_no_stack_trace(command_line: CommandLine) -> None:
    world = command_line.world
    world.add_live(rows(0, 60))
    process = command_line.start()
    until(lambda: command_line.has_read(1))

    assert command_line.ask("cancel", "hourly")["state"] == "CANCELED"

    assert process.wait(30) == 130
    assert "Traceback" not in command_line.log.read_text()
