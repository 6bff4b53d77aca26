"""A Spark standalone cluster of machines that can fail: each has a disk, a name and a cable of its own.

A machine is three namespaces of Linux (network, mounts, host name), held by one process; a switch, one more, has the
other ends of the cables. When their processes end, nothing of them is left on the real machine. It wants root.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.cluster.standalone import EXECUTOR_MEMORY, STARTS_WITHIN_S
from tests.cluster.submitting import PYTHON
from tests.jobs.kit import until

WORKERS = 3
DISK_MB = 512
WORKER_SILENCE_S = 10
"""After so long without a word a worker is lost for the master; Spark's own default is a minute."""

_DEPLOY = "org.apache.spark.deploy"
EXECUTOR = b"CoarseGrainedExecutorBackend"
_HOLDER = "mount --make-rprivate / && exec sleep infinity"


def why_not() -> str:
    """Return why there can be no machines here; empty where there can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "ip", "link"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces want root: {tried.stderr.decode()}"


class Machine:
    """One machine.

    Args:
        disk: where its own disk is mounted, empty.
        also: folders that it does not share with the others: empty ones of its own are mounted there.
        boot_id: what its kernel says which start of the machine this is; None: as the real one.
    """

    def __init__(self, name: str, disk: Path, *, also: Sequence[Path] = (), boot_id: str | None = None) -> None:
        self.name, self.disk, self.address = name, disk, ""
        command = ["unshare", "--net", "--mount", "--uts", "sh", "-c", _HOLDER]
        self._holder = subprocess.Popen(command, start_new_session=True)
        self.number = self._holder.pid
        until(lambda: Path(f"/proc/{self.number}/comm").read_text().strip() == "sleep", STARTS_WITHIN_S)
        self.run("hostname", name)
        self.run("ip", "link", "set", "lo", "up")
        for folder in (disk, *also):
            self.run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder))
        if boot_id is not None:
            file = disk / "boot_id"
            self.run("sh", "-c", f"echo {boot_id} > {shlex.quote(str(file))}")
            self.run("mount", "--bind", str(file), "/proc/sys/kernel/random/boot_id")

    def run(self, *command: str) -> None:
        """Run a command there."""
        subprocess.run([*self._entered(), *command], check=True)

    def start(self, log: Path, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process there, which begins on its disk."""
        beginning = ["sh", "-c", f'cd {shlex.quote(str(self.disk))} && exec "$@"', "sh"]
        own = {"SPARK_LOCAL_IP": self.address, "SPARK_LOCAL_DIRS": str(self.disk), "TMPDIR": str(self.disk)}
        with log.open("ab") as out:
            return subprocess.Popen(
                [*self._entered(), *beginning, *command],
                env={**os.environ, **environment, **own},
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def seen(self, path: Path) -> Path:
        """Return the path at which a file of this machine can be read from outside."""
        return Path(f"/proc/{self.number}/root{path}")

    def fill_disk(self) -> None:
        """Leave no room on its disk."""
        with suppress(OSError), self.seen(self.disk / "full").open("wb", buffering=0) as file:
            while True:
                file.write(b"0" * 4_096)

    def clear_disk(self) -> None:
        """Give the room back."""
        self.seen(self.disk / "full").unlink()

    def signal(self, number: signal.Signals, word: bytes = b"") -> int:
        """Send a signal to its processes whose command line has this word; return how many there are."""
        sent = 0
        for process in self.processes(word):
            with suppress(ProcessLookupError):
                os.kill(process, number)
                sent += 1
        return sent

    def executors(self) -> list[int]:
        """Return the processes of its executors."""
        return [*self.processes(EXECUTOR)]

    def processes(self, word: bytes = b"") -> Iterator[int]:
        """Yield its processes whose command line has this word."""
        ours = os.readlink(f"/proc/{self.number}/ns/net")
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != self.number and os.readlink(entry / "ns/net") == ours:
                    line = (entry / "cmdline").read_bytes()
                    if line and word in line:
                        yield int(entry.name)

    def destroy(self) -> None:
        """End it, with all that runs there and all that is on its disk; again is harmless."""
        if self._holder.poll() is not None:
            return
        until(lambda: not self.signal(signal.SIGKILL), STARTS_WITHIN_S)
        self._holder.kill()
        self._holder.wait()

    def _entered(self) -> list[str]:
        return ["nsenter", "--target", str(self.number), "--net", "--mount", "--uts"]


class MachineCluster:
    """A master, three workers of one core each, and what a driver runs on; an executor has a core.

    Args:
        recovers: the master writes down what it knows, and knows it again when it is started again.
        also: folders that no machine shares with another.
    """

    def __init__(self, folder: Path, *, recovers: bool = True, also: Sequence[Path] = ()) -> None:
        self._folder = folder
        self._disk = folder / "disk"
        self._disk.mkdir(parents=True)
        self._recovers = recovers
        self._also = tuple(also)
        self._switch = Machine("switch", self._disk)
        self._switch.run("ip", "link", "add", "br0", "type", "bridge")
        self._switch.run("ip", "link", "set", "br0", "up")
        self._machines: list[Machine] = []
        self.head = self.add("head")
        self.workers = [self.add(f"worker{number}") for number in range(WORKERS)]
        self.master = f"spark://{self.head.address}:7077"

    def add(self, name: str, *, boot_id: str | None = None) -> Machine:
        """Add a machine to the network."""
        machine = Machine(name, self._disk, also=() if name == "head" else self._also, boot_id=boot_id)
        self._machines.append(machine)
        number = len(self._machines)
        ends = ("eth0", "netns", str(machine.number), "type", "veth", "peer", "name", name, "netns")
        self._switch.run("ip", "link", "add", *ends, str(self._switch.number))
        self._switch.run("ip", "link", "set", name, "master", "br0", "up")
        machine.address = f"10.77.0.{number}"
        machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        return machine

    def cut(self, machine: Machine) -> None:
        """Cut the cable of a machine."""
        self._switch.run("ip", "link", "set", machine.name, "down")

    def mend(self, machine: Machine) -> None:
        """Mend it."""
        self._switch.run("ip", "link", "set", machine.name, "up")

    def start(self) -> MachineCluster:
        """Start the processes of Spark."""
        self.start_master()
        for worker in self.workers:
            command = ("--cores", "1", "--memory", "600m", "--work-dir", str(self._disk / "work"), self.master)
            self._start(worker, f"{_DEPLOY}.worker.Worker", *command)
        until(lambda: all("Successfully registered" in self._log(one).read_text() for one in self.workers), 120)
        return self

    def start_master(self) -> None:
        """Start the master, or start it again."""
        before = self._log(self.head).read_text().count("I have been elected") if self._log(self.head).exists() else 0
        self._start(self.head, f"{_DEPLOY}.master.Master", "--port", "7077")
        until(lambda: self._log(self.head).read_text().count("I have been elected") > before, STARTS_WITHIN_S)

    def kill_master(self) -> None:
        """Kill the master."""
        assert self.head.signal(signal.SIGKILL, b"Master")

    def settings(self, driver: Machine) -> dict[str, str]:
        """Return what Spark has to be given by a driver on this machine."""
        return {
            "spark.master": self.master,
            "spark.driver.host": driver.address,
            "spark.driver.bindAddress": driver.address,
            "spark.driver.memory": "1g",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={self._disk}",
            "spark.sql.shuffle.partitions": "2",
        }

    def executors(self) -> list[int]:
        """Return the processes of all executors."""
        return [process for worker in self.workers for process in worker.executors()]

    def destroy(self) -> None:
        """End all machines."""
        for machine in (*self._machines, self._switch):
            machine.destroy()

    def _log(self, machine: Machine) -> Path:
        return self._folder / f"{machine.name}.log"

    def _start(self, machine: Machine, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        options = [f"-Dspark.worker.timeout={WORKER_SILENCE_S}"]
        if self._recovers:
            options.append("-Dspark.deploy.recoveryMode=FILESYSTEM")
            options.append(f"-Dspark.deploy.recoveryDirectory={self._folder / 'recovery'}")
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
            **PYTHON,
        }
        places = ("--host", machine.address, "--webui-port", "0")
        command = [str(home / "bin" / "spark-class"), name, *places, *arguments]
        machine.start(self._log(machine), command, environment)
