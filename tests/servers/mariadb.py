"""A private MariaDB server, started by the tests and thrown away after them. It lets anyone in, from 127.0.0.1 alone.

Without tables of rights it needs none to be made: an empty folder will do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.jobs.kit import until
from tests.servers.ports import free_ports

SECONDS_AT_MOST = 60


def _program() -> str | None:
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def why_not() -> str | None:
    """What is missing for tests on MariaDB; None where they can run."""
    return None if _program() else "no MariaDB server (mariadbd): apt-get install mariadb-server-core"


class MariaDbServer:
    """One server with one database, `test`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-mariadb-"))
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = _program()
        assert program is not None, why_not()
        (self._folder / "data" / "test").mkdir(parents=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(program, "--no-defaults", f"--datadir={self._folder}/data", "--skip-grant-tables"),
                    *(f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self._folder}/socket"),
                    *(f"--pid-file={self._folder}/pid", *(["--user=root"] if os.geteuid() == 0 else [])),
                ],
                stdout=log,
                stderr=log,
            )
        process, log_file = self._process, self._folder / "log"
        until(lambda: b"ready for connections" in log_file.read_bytes() or process.poll() is not None, SECONDS_AT_MOST)
        assert process.poll() is None, log_file.read_text()[-3000:]

    def remove(self) -> None:
        """Stop it and delete what it has."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS_AT_MOST)
        shutil.rmtree(self._folder, ignore_errors=True)
