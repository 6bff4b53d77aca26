"""Spark's JVM is killed, or hears the signal that stops the job: the job goes on, stops, or fails with a code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from rekindle.errors import ControlError
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.cli.kit import Command
from tests.jobs.dying_job_file import job_of
from tests.jobs.kit import QUICK, World, has_read, rows, until

ROOT = Path(__file__).parents[2]
LONG_S = 300


class Process:
    """A job in a process of its own, in a session of its own, with its JVM and Python workers."""

    def __init__(self, world: World, command: list[str], **environment: str) -> None:
        self.storage = JobStorage(open_store(world.storage), "dying")
        self.log = world.root / "job.log"
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        around = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "DYING_WORLD": str(world.root)}
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [*command, str(Path(__file__).with_name("dying_job_file.py"))],
                env={**around, **environment}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def until(self, condition: Callable[[], object]) -> None:
        until(lambda: bool(condition()) or self.popen.poll() is not None, LONG_S)
        assert self.popen.poll() is None, self.log.read_text()[-3000:]

    def checkpointed(self, run: int) -> bool:
        return any(manifest.run == run for manifest in self.storage.manifests())

    def status(self) -> Status:
        found = self.storage.status()
        assert found is not None
        return found

    def freeze(self) -> None:
        """Stop it; a signal is heard when one of its threads comes to run."""
        os.kill(self.popen.pid, signal.SIGSTOP)
        stats = [task / "stat" for task in Path(f"/proc/{self.popen.pid}/task").iterdir()]
        until(lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats if stat.exists()))

    def all_processes(self) -> list[int]:
        """It and everything that came of it, as a container's runtime finds them."""
        found = [self.popen.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in task.read_text().split()]
        return found

    def jvm(self) -> int:
        return next(pid for pid in self.all_processes() if Path(f"/proc/{pid}/comm").read_text() == "java\n")

    def ended(self) -> tuple[int, Result | None]:
        """Exit code, and what the last run has recorded; where it does not end, fail with what its threads do."""
        try:
            code, run = self.popen.wait(LONG_S), self.storage.latest_run()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended:\n{self.threads()}") from None
        return code, self.storage.result(run.run) if run else None

    def threads(self) -> str:
        """Its state and requests, the threads of the driver, and those of its JVM that are of its queries."""
        asked = [self.storage.status(), *self.storage.control(frozenset()).requests]
        with suppress(StopIteration):
            os.kill(self.jvm(), signal.SIGQUIT)
        os.kill(self.popen.pid, signal.SIGUSR1)
        until(lambda: "Current thread" in self.log.read_text())
        log = self.log.read_text()
        blocks = [block for block in log.split("\n\n") if "stream execution" in block or "Python" in block]
        driver = log[log.index("Thread 0x") if "Thread 0x" in log else -6000 :]
        return "\n\n".join([*map(str, asked), *blocks, driver[:16000], log[-1500:]])


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., Process]]:
    world.add_live(rows(0, 60), rows(2, 60))
    started: list[Process] = []

    def begin(*command: str, **environment: str) -> Process:
        started.append(Process(world, list(command) or [sys.executable], **environment))
        return started[-1]

    yield begin
    for process in started:
        for pid in process.all_processes() if process.popen.poll() is None else ():
            os.kill(pid, signal.SIGKILL)


def drain(spark: SparkSession, world: World, files: int = 2) -> None:
    """Run it on in this process to its end: nothing is lost, and nothing comes twice."""
    handle = job_of(world).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, files))
    handle.stop(drain=True)
    result = handle.wait(LONG_S)
    assert result is not None and result.state == "DRAINED"
    assert world.output() == world.expected()


def test_a_job_goes_on_when_its_jvm_is_killed_and_a_signal_to_every_process_of_a_container_stops_it(
    spark: SparkSession, world: World, start: Callable[..., Process]
) -> None:
    process = start()
    process.until(lambda: process.checkpointed(1))
    os.kill(process.jvm(), signal.SIGKILL)
    process.until(lambda: process.checkpointed(2))

    for pid in process.all_processes():
        os.kill(pid, signal.SIGTERM)

    code, result = process.ended()
    assert result is not None, process.log.read_text()[-3000:]
    assert (code, result.run, result.state) == (0, 2, "STOPPED")
    drain(spark, world)


@pytest.mark.slow
def test_a_job_goes_on_when_its_jvm_hangs_and_that_one_is_killed(
    spark: SparkSession, world: World, start: Callable[..., Process]
) -> None:
    process = start(DYING_HANG_S="10")
    process.until(lambda: process.checkpointed(1))
    hanging = process.jvm()
    os.kill(hanging, signal.SIGSTOP)
    process.until(lambda: process.checkpointed(2))
    assert not Path(f"/proc/{hanging}").exists()
    status = process.storage.status()
    assert status is not None and status.failure is not None and status.restarts >= 1
    assert f"its JVM (process {hanging}) has not answered for 10 s, and was killed" in status.failure.message

    os.kill(process.popen.pid, signal.SIGTERM)

    code, result = process.ended()
    assert result is not None, process.log.read_text()[-3000:]
    assert (code, result.run, result.state) == (0, 2, "STOPPED")
    drain(spark, world)


@pytest.mark.slow
def test_a_frozen_driver_is_seen_a_cancel_says_that_it_does_not_answer_and_it_is_carried_out_once_it_wakes(
    spark: SparkSession, world: World, start: Callable[..., Process]
) -> None:
    process = start()
    process.until(lambda: process.checkpointed(1))
    command = Command(world.storage)
    assert command.json("status", "dying", "--check")["silent"] is False

    process.freeze()
    until(lambda: command("status", "dying", "--check").exit_code == 1, LONG_S)
    assert command.json("status", "dying")["silent"] is True
    assert "SILENT: its driver, process " in command("status", "dying").stdout
    with pytest.raises(ControlError, match="JOB_ALREADY_RUNNING"):
        job_of(world).start(spark, storage=world.storage)
    os.kill(process.popen.pid, signal.SIGCONT)
    until(lambda: command.json("status", "dying", "--check")["silent"] is False, LONG_S)
    world.add_live(rows(4, 60))
    process.until(lambda: has_read(process, 3))  # it has gone on

    process.freeze()
    assert command.error("cancel", "dying", "--timeout", "3") == "CANCEL_TIMED_OUT"
    os.kill(process.popen.pid, signal.SIGCONT)

    code, result = process.ended()
    assert result is not None and (code, result.run, result.state) == (1, 1, "CANCELED")
    assert "[JOB_CANCELED]" in process.log.read_text().splitlines()[-3]
    drain(spark, world, 3)


@pytest.mark.slow
def test_a_hangup_of_its_group_stops_a_job(spark: SparkSession, world: World, start: Callable[..., Process]) -> None:
    process = start()
    process.until(lambda: process.checkpointed(1))

    os.killpg(process.popen.pid, signal.SIGHUP)

    code, result = process.ended()
    assert result is not None and (code, result.state) == (0, "STOPPED")
    drain(spark, world)


def test_a_job_in_a_session_of_the_users_fails_with_a_code_when_its_jvm_is_killed(
    spark: SparkSession, world: World, start: Callable[..., Process]
) -> None:
    process = start(DYING_SESSION="mine")
    process.until(lambda: process.checkpointed(1))

    os.kill(process.jvm(), signal.SIGKILL)

    code, result = process.ended()
    assert result is not None and result.state == "FAILED" and code != 0
    assert result.error is not None and result.error["code"] == "SPARK_DIED"
    drain(spark, world)


@pytest.mark.slow
def test_a_signal_to_spark_submit_and_the_job_that_it_has_started_ends_both_and_the_state_is_true(
    spark: SparkSession, world: World, start: Callable[..., Process]
) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    process = start(submit, "--master", "local[2]", PYSPARK_DRIVER_PYTHON=sys.executable)
    process.until(lambda: process.checkpointed(1))
    everything = process.all_processes()

    for pid in everything:
        os.kill(pid, signal.SIGTERM)

    process.popen.wait(LONG_S)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in everything), LONG_S)
    run = process.storage.latest_run()
    result = process.storage.result(run.run) if run else None
    assert result is not None
    assert result.state == "STOPPED" or (result.error or {}).get("code") == "SPARK_DIED"
    drain(spark, world)
