"""A REST catalog of Iceberg: the one that Iceberg's own tests start, over SQLite.

`tools/setup.sh` puts it into ``.venv/iceberg-rest`` with Maven; see `tests.servers.kafka` for where else.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java, jars
from tests.servers.ports import free_ports
from tests.waiting import until


def why_not() -> str | None:
    """What is missing for tests with a REST catalog; None where they can run."""
    if _java() is None:
        return "no Java in JAVA_HOME or PATH"
    if not jars("iceberg-rest"):
        return f"no REST catalog of Iceberg in {JARS}: `make setup` fetches it with Maven"
    return None


class RestCatalogServer:
    """One server; each test takes a namespace of its own. Tables lie in `warehouse`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-iceberg-"))
        (self.port,) = free_ports(1)
        self.warehouse = self._folder / "warehouse"
        self._log = self._folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {
            "REST_PORT": self.port,
            "WAREHOUSE": self.warehouse,
            "URI": f"jdbc:sqlite:{self._folder}/catalog.db",
        }
        environment = {**os.environ, **{f"CATALOG_{name}": str(value) for name, value in settings.items()}}
        command = [str(_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS / 'iceberg-rest'}/*"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )
        until(self._answers, SECONDS_AT_MOST, pause_s=0.05)

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._log.read_text()[-3000:]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_AT_MOST)
        try:
            connection.request("GET", "/v1/config")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def remove(self) -> None:
        """Stop it, and delete what it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
