"""A private cluster of HDFS: a name node and a data node in one process, as Hadoop's own tests start them.

`tools/setup.sh` puts it into ``.venv/hdfs-server`` with Maven; see `tests.servers.kafka` for where else.
"""

from __future__ import annotations

import getpass
import http.client
import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java, jars
from tests.servers.ports import free_ports

_CLASS = "org.apache.hadoop.test.MiniDFSClusterManager"


def why_not() -> str | None:
    """What is missing for tests on HDFS; None where they can run."""
    if _java() is None:
        return "no Java in JAVA_HOME or PATH"
    if importlib.util.find_spec("requests") is None:
        return "no requests: pip install 'rekindle[hdfs]'"
    if not jars("hdfs-server"):
        return f"no HDFS in {JARS}: `make setup` fetches it with Maven"
    return None


class HdfsServer:
    """One cluster; each test takes a folder of its own."""

    host = "127.0.0.1"
    #: of Java, and before the classes of Hadoop
    options: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-hdfs-"))
        self.port, self.http_port = free_ports(2)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.configured("of the cluster")

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {"HADOOP_CONF_DIR": str(self._folder / "of the cluster"), "HADOOP_USER_NAME": "rekindle"}

    def configured(self, name: str, **others: str) -> str:
        """Return a folder of Hadoop's configuration, for this cluster but for what `others` say."""
        said: Mapping[str, str] = {
            "fs.defaultFS": f"hdfs://{self.authority}",
            "dfs.namenode.http-address": f"0.0.0.0:{self.http_port}",
            **self.said(),
            **{key.replace("__", "-").replace("_", "."): value for key, value in others.items()},
        }
        return self._write(name, said)

    def said(self) -> Mapping[str, str]:
        """What its clients need to know beside where it is."""
        return {}

    def _write(self, name: str, said: Mapping[str, str]) -> str:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        files: dict[str, list[str]] = {"core-site.xml": [], "hdfs-site.xml": []}
        for key, value in said.items():
            # In the other file Hadoop's own defaults would win.
            of = "hdfs-site.xml" if key.startswith("dfs.") else "core-site.xml"
            files[of].append(f"<property><name>{key}</name><value>{value}</value></property>")
        for file, properties in files.items():
            (folder / file).write_text(f"<configuration>{''.join(properties)}</configuration>")
        return str(folder)

    def start(self) -> None:
        """Start it and wait until it has a data node."""
        details = self._folder / "details.json"
        java = _java()
        assert java is not None
        path = ":".join((*self.classes, f"{JARS / 'hdfs-server'}/*"))
        command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", *self.options, "-cp", path, _CLASS]
        command += ["-format", "-nnport", str(self.port), "-httpport", str(self.http_port)]
        command += ["-writeDetails", str(details)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not details.exists():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.1)
        self.make_home()

    def make_home(self) -> None:
        """Make the folder of the user that tests are."""
        for operation in ("MKDIRS", "SETOWNER&owner=rekindle"):
            self._as_superuser("/user/rekindle", operation)

    def _as_superuser(self, path: str, operation: str) -> None:
        """It is the one who has started it."""
        server = http.client.HTTPConnection("127.0.0.1", self.http_port)
        server.request("PUT", f"/webhdfs/v1{path}?op={operation}&user.name={getpass.getuser()}")
        answer = server.getresponse()
        assert answer.status == 200, answer.read()
        server.close()

    def make_folder(self) -> str:
        """The address of a folder that nobody else has."""
        return f"hdfs://{self.authority}/user/rekindle/{os.getpid()}-{next(self._numbers)}"

    def log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")

    def remove(self) -> None:
        """Stop it, and delete what it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
