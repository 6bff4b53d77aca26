"""A job on a cluster that fails: nothing lost, nothing twice, and the job continues by itself."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster import machines
from tests.cluster.living import IMPATIENT, Life
from tests.cluster.machines import MachineCluster
from tests.jobs.kit import until

CUT_S = 20.0
KILLS = 8
ANOTHER_KERNEL = "6c1c2a5e-0b7e-4d57-9a53-3f0d5f0c7a11"


def kill_executors(life: Life) -> None:
    """Kill one after the other, at any moment, whichever there are."""
    chance = random.Random(1)
    for _ in range(KILLS):
        until(lambda: bool(life.cluster.executors()))
        time.sleep(3 * chance.random())
        for worker in chance.sample(life.cluster.workers, len(life.cluster.workers)):
            if worker.signal(signal.SIGKILL, machines.EXECUTOR):
                break


def freeze_worker(life: Life) -> None:
    """Freeze a machine with an executor at work, until the others have done without it; then let it wake up."""
    until(lambda: bool(life.cluster.executors()))
    worker = next(one for one in life.cluster.workers if one.executors())
    worker.signal(signal.SIGSTOP)
    life.get_on()
    worker.signal(signal.SIGCONT)


def cut_driver(life: Life) -> None:
    """Cut the driver off from the master and from all executors."""
    life.cluster.cut(life.driver)
    time.sleep(CUT_S)
    life.cluster.mend(life.driver)


def cut_workers(life: Life) -> None:
    """Cut two of three workers off from everything."""
    for worker in life.cluster.workers[:2]:
        life.cluster.cut(worker)
    time.sleep(CUT_S)
    for worker in life.cluster.workers[:2]:
        life.cluster.mend(worker)


def restart_master(life: Life) -> None:
    """Kill the master and start it again; then new executors are needed."""
    life.cluster.kill_master()
    life.get_on(1)
    life.cluster.start_master()
    life.get_on()
    for worker in life.cluster.workers:
        worker.signal(signal.SIGKILL, machines.EXECUTOR)


def fill_disk(life: Life) -> None:
    """Leave no room on the disk of a worker, for good."""
    life.cluster.workers[0].fill_disk()
    life.get_on(6)


def move_driver(life: Life) -> None:
    """Let the machine of the driver die, with its disk; the storage is shared, and another one takes over."""
    life.move_driver(life.cluster.add("other", boot_id=ANOTHER_KERNEL))


class Case(NamedTuple):
    """A way to fail; whether the master knows again what it knew, and settings of Spark."""

    act: Callable[[Life], None]
    recovers: bool = True
    spark: Mapping[str, str] = {}


CASES = {
    "executors_killed": Case(kill_executors),
    "worker_frozen": Case(freeze_worker, spark=IMPATIENT),
    "driver_cut": Case(cut_driver),
    "driver_cut_and_executors_lost": Case(cut_driver, spark=IMPATIENT),
    "workers_cut_and_lost": Case(cut_workers, spark=IMPATIENT),
    "master_recovers": Case(restart_master),
    "master_forgets": Case(restart_master, recovers=False),
    "disk_full": Case(fill_disk),
    "driver_moved": Case(move_driver),
}


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.parametrize("name", CASES)
def test_a_job_lives_through_a_failure_of_its_cluster(tmp_path: Path, name: str) -> None:
    missing = machines.why_not()
    if missing:
        pytest.skip(missing)
    case = CASES[name]
    cluster = MachineCluster(tmp_path / "cluster", recovers=case.recovers)
    try:
        life = Life(tmp_path / "world", cluster.start(), case.spark)
        with life.fed():
            life.get_on(1)
            case.act(life)
            life.get_on()
        life.end()
    finally:
        cluster.destroy()
