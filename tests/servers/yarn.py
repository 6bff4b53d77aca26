"""A private YARN: a resource manager and one node manager, whose containers are processes of this machine.

Its jars are those of `tests.servers.hdfs`. Files lie in the directories of this machine: no HDFS is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

from tests.servers import hdfs
from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java, jars
from tests.servers.ports import free_ports

_DAEMONS = "org.apache.hadoop.yarn.server"
_PORTS = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "resourcemanager.webapp.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.collector-service.address",
    "nodemanager.webapp.address",
)
_SAID = {
    "resourcemanager.hostname": "127.0.0.1",
    "nodemanager.hostname": "127.0.0.1",
    "nodemanager.resource.memory-mb": "8192",
    "nodemanager.resource.cpu-vcores": "8",
    "nodemanager.vmem-check-enabled": "false",
    "nodemanager.pmem-check-enabled": "false",
    "nodemanager.disk-health-checker.enable": "false",
    "scheduler.minimum-allocation-mb": "128",
}
_QUEUES = {"root.queues": "default", "root.default.capacity": "100", "maximum-am-resource-percent": "0.9"}
_LOG = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""


def why_not() -> str | None:
    """What is missing for tests on YARN; None where they can run."""
    if missing := hdfs.why_not():
        return missing
    if not [*(JARS / "hdfs-server").glob("slf4j-reload4j-*.jar")] or not jars("hdfs-server"):
        return f"no daemons of YARN in {JARS}: `make setup` fetches them with Maven"
    return None


class Yarn:
    """One cluster, for one test."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-yarn-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self._configure()

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {"HADOOP_CONF_DIR": str(self._folder / "conf"), "YARN_CONF_DIR": str(self._folder / "conf")}

    def start(self) -> Yarn:
        """Start it, and wait until its node can be given work."""
        self._start("resourcemanager.ResourceManager")
        self._start("nodemanager.NodeManager")
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._nodes():
            assert time.monotonic() < deadline and all(one.poll() is None for one in self._processes), self.logs()
            time.sleep(0.2)
        return self

    def applications(self) -> dict[str, str]:
        """How each application ended, by its id: SUCCEEDED, FAILED, KILLED or UNDEFINED."""
        found = (self._asked("apps").get("apps") or {}).get("app", [])
        return {one["id"]: one["finalStatus"] for one in found}

    def logs(self, of: str = "") -> str:
        """What the daemons wrote; or, of an application, what its containers did."""
        files = self._folder.glob(f"logs/{of}/*/*" if of else "*.log")
        return "\n".join(file.read_text(errors="replace") for file in sorted(files) if file.is_file())

    def remove(self) -> None:
        """Stop it and what it runs, and delete what it had."""
        for process in reversed(self._processes):
            process.terminate()  # a node manager ends its containers
        for process in self._processes:
            _end(process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _configure(self) -> None:
        folder = self._folder / "conf"
        folder.mkdir()
        places = {key: f"127.0.0.1:{port}" for key, port in self._ports.items()}
        disks = {f"nodemanager.{one}-dirs": str(self._folder / f"{one}s") for one in ("local", "log")}
        yarn = {f"yarn.{key}": value for key, value in {**places, **_SAID, **disks}.items()}
        queues = {f"yarn.scheduler.capacity.{key}": value for key, value in _QUEUES.items()}
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._folder / "tmp")}
        for name, said in (("yarn-site", yarn), ("core-site", core), ("capacity-scheduler", queues)):
            (folder / f"{name}.xml").write_text(_xml(said))
        (folder / "log4j.properties").write_text(_LOG)

    def _start(self, daemon: str) -> None:
        java = _java()
        assert java is not None
        path = f"{self._folder / 'conf'}:{JARS / 'hdfs-server'}/*"
        command = [java, "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", path, f"{_DAEMONS}.{daemon}"]
        with (self._folder / f"{daemon}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True)
            )

    def _nodes(self) -> bool:
        return any(one["state"] == "RUNNING" for one in (self._asked("nodes").get("nodes") or {}).get("node", []))

    def _asked(self, what: str) -> dict:
        address = f"http://127.0.0.1:{self._ports['resourcemanager.webapp.address']}/ws/v1/cluster/{what}"
        try:
            with urlopen(address, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            return {}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _xml(said: Mapping[str, str]) -> str:
    properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in said.items())
    return f"<configuration>{''.join(properties)}</configuration>"
