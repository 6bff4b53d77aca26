"""A job whose storage, history, savepoints and rows are in a cluster of HDFS with Kerberos, from the command line."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rekindle.storage.open import open_store
from tests.jobs.kit import World, recorded, rows, shown_in, until
from tests.servers.hdfs import HdfsServer
from tests.servers.kerberos import SecureHdfs
from tests.servers.name_nodes import NameNodes

pytestmark = [pytest.mark.slow, pytest.mark.spark]

JOB_FILE = """
import os
from pyspark.sql import functions as F
import rekindle as rk

place = os.environ["PLACE"]
job = rk.Job("hourly")
history = job.source("history", rk.Files(f"{place}/history"), event_time="ts")
live = job.source(
    "live",
    rk.Stream(lambda spark: spark.readStream.schema("ts timestamp, k string, v long").parquet(os.environ["LIVE"])),
    event_time="ts",
    watermark="4 seconds",
)

@job.task(history, live)
def count(history, live):
    return history.unionByName(live).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

job.sink("out", count, rk.sinks.Parquet(f"{place}/out"))
"""


class SecureWorld(World):
    """Only what comes live is in a folder."""

    def __init__(self, root: Path, place: str) -> None:
        super().__init__(root)
        self.place, self.storage, self.log = place, f"{place}/state", root / "log"
        (root / "job.py").write_text(JOB_FILE)
        self.processes: list[subprocess.Popen[bytes]] = []

    def put_history(self) -> None:
        """Move the history from its folder into the cluster."""
        store = open_store(f"{self.place}/history")
        for file in self.history.iterdir():
            store.create(file.name, file.read_bytes())

    def start(self, krb5_conf: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "LIVE": f"file://{self.live}", "PLACE": self.place}
        environment["JAVA_TOOL_OPTIONS"] = f"-Djava.security.krb5.conf={krb5_conf}"
        command = [sys.executable, "-m", "rekindle.cli", "run", "job.py", "--storage", self.storage]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--set", "checkpoint.interval=1 second"],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )
        self.processes.append(process)
        return process

    def ask(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "rekindle.cli", *arguments, "--storage", self.storage, "--json"]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        return json.loads(done.stdout)

    def has_read(self, files: int) -> bool:
        status = recorded(self.storage, "hourly")
        live = status.tasks[0].inputs.get("live") if status and status.tasks else None
        return live is not None and live.position is not None and live.position["logOffset"] >= files - 1

    def output(self) -> Counter[tuple[dt.datetime, str, int]]:
        return shown_in(f"{self.place}/out")


@contextmanager
def a_world(root: Path, cluster: HdfsServer) -> Iterator[SecureWorld]:
    made = SecureWorld(root, cluster.make_folder())
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


@pytest.fixture
def secure_world(secure_hdfs: SecureHdfs, tmp_path: Path) -> Iterator[SecureWorld]:
    with a_world(tmp_path, secure_hdfs) as made:
        yield made


def test_a_job_is_run_loses_its_ticket_is_stopped_with_a_savepoint_resumed_and_drained(
    secure_world: SecureWorld, secure_hdfs: SecureHdfs
) -> None:
    world = secure_world
    world.add_history(rows(0, 90), rows(5, 90))
    world.put_history()
    world.add_live(rows(100, 60))

    secure_hdfs.cache.unlink()
    assert world.start(secure_hdfs.kdc.configuration).wait(60) == 1
    log = world.log.read_text()
    assert "[KERBEROS_TICKET_NEEDED]" in log
    assert "Traceback" not in log
    secure_hdfs.kdc.get_ticket(secure_hdfs.cache)

    process = world.start(secure_hdfs.kdc.configuration)
    until(lambda: process.poll() is not None or world.has_read(1))
    secure_hdfs.cache.unlink()
    until(lambda: process.poll() is not None or "KERBEROS_TICKET_NEEDED" in world.log.read_text(), 60)
    assert process.poll() is None, world.log.read_text()
    world.add_live(rows(103, 60))
    secure_hdfs.kdc.get_ticket(secure_hdfs.cache)
    until(lambda: process.poll() is not None or world.has_hour(100))
    stopped = world.ask("stop", "hourly", "--savepoint", f"{world.place}/saves")
    assert stopped["savepoint"].startswith(f"{world.place}/saves/hourly-")
    assert process.wait(60) == 0
    assert "\tat " not in world.log.read_text()
    assert world.ask("inspect", stopped["savepoint"])["job"] == "hourly"

    process = world.start(secure_hdfs.kdc.configuration)
    world.add_live(rows(106, 60))
    until(lambda: process.poll() is not None or world.has_read(3))
    assert world.ask("stop", "hourly", "--drain")["state"] == "DRAINED"
    assert process.wait(60) == 0
    assert world.output() == world.expected()
    assert world.ask("status", "hourly")["run"] == 2


def test_a_job_goes_on_while_name_nodes_take_turns(name_nodes: NameNodes, tmp_path: Path) -> None:
    """Spark asks them by Hadoop's own client, Rekindle by HTTPS."""
    with a_world(tmp_path, name_nodes) as world:
        world.add_history(rows(0, 90), rows(5, 90))
        world.put_history()
        process = world.start(name_nodes.kdc.configuration)
        for turn in range(4):
            world.add_live(rows(100 + 3 * turn, 60))
            until(lambda read=turn + 1: process.poll() is not None or world.has_read(read))
            name_nodes.make_active((turn + 1) % 2)
        stopped = world.ask("stop", "hourly", "--savepoint", f"{world.place}/saves")
        assert stopped["savepoint"].startswith(f"{world.place}/saves/hourly-"), world.log.read_text()
        assert process.wait(60) == 0
        assert "Traceback" not in world.log.read_text()

        process = world.start(name_nodes.kdc.configuration)
        world.add_live(rows(112, 60))
        until(lambda: process.poll() is not None or world.has_read(5))
        name_nodes.make_active(1)
        assert world.ask("stop", "hourly", "--drain")["state"] == "DRAINED"
        assert process.wait(60) == 0
        assert world.output() == world.expected()
