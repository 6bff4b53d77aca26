"""A private PostgreSQL cluster, started by the tests and thrown away after them.

It is made by `initdb` in a temporary folder, listens on 127.0.0.1 alone, and asks for a password: so tests can see that
the password turns up nowhere. PostgreSQL refuses to run as root, so root starts it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.ports import free_ports

USER = "tester"
PASSWORD = "hunter2 'quoted'"
BINARIES = ("initdb", "pg_ctl", "postgres", "psql")

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


def find_binaries() -> Path | None:
    """The folder with PostgreSQL's programs: from PATH, else where Debian, Red Hat and Homebrew put them."""
    on_path = shutil.which("pg_ctl")
    places = [Path(on_path).resolve().parent] if on_path else []
    for pattern in _PLACES:
        places += sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)
    return next((place for place in places if all(os.access(place / name, os.X_OK) for name in BINARIES)), None)


def _other_user() -> str | None:
    """Whom root lets the server run as; None where we are not root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def why_not() -> str | None:
    """What is missing for tests on PostgreSQL; None where they can run."""
    if find_binaries() is None:
        return "no PostgreSQL server (initdb, pg_ctl) in PATH or /usr/lib/postgresql: `make setup` says how to have it"
    return None


class PostgresServer:
    """One cluster; `start` and `stop` as often as a test likes."""

    def __init__(self, *, max_prepared_transactions: int = 64) -> None:
        binaries = find_binaries()
        assert binaries is not None, why_not()
        self._binaries = binaries
        self._user = _other_user()
        # Not below pytest's folder, which is closed to other users.
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-pg-"))
        self._log = self._folder / "log"
        (self.port,) = free_ports(1)
        self._settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._folder),
            "max_prepared_transactions": str(max_prepared_transactions),
            "fsync": "off",  # the tests kill servers, not machines
        }
        self._initialize()

    def _initialize(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        if self._user:
            for path in (self._folder, password_file):
                shutil.chown(path, self._user)
        self._run(
            "initdb", "--pgdata", str(self._data), "--username", USER, "--pwfile", str(password_file),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
        )  # fmt: skip

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        # A server that inherits our pipes would keep us waiting for their end: hence a file.
        with self._log.open("ab") as log:
            done = subprocess.run(
                [str(self._binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=self._user,
                group=pwd.getpwnam(self._user).pw_gid if self._user else None,
                extra_groups=[] if self._user else None,
                check=False,
                timeout=120,
            )
        assert done.returncode == 0, f"{program} failed:\n{self._log.read_text(errors='replace')[-3000:]}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        server_log = str(self._folder / "server.log")
        self._run("pg_ctl", "start", "--wait", "-D", str(self._data), "-l", server_log, "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop it; ``immediate`` is as good as a kill."""
        self._run("pg_ctl", "stop", "--wait", "-D", str(self._data), "-m", mode)

    def restart(self, mode: str = "immediate") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop it if it runs, and delete it."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server itself has written."""
        return (self._folder / "server.log").read_text(errors="replace")

    def dsn(self, database: str = "postgres", **more: str) -> str:
        """How to connect."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo(
            "", host="127.0.0.1", port=self.port, dbname=database, user=USER, password=PASSWORD, **more
        )

    def query(self, sql: str, parameters: Sequence[Any] = (), database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement in a connection of its own; its rows, if it has any."""
        import psycopg

        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            cursor = connection.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def psql(self, sql: str, database: str = "postgres") -> list[list[str]]:
        """What ``psql`` prints, as lists of fields: another program than the one that wrote."""
        done = subprocess.run(
            [str(self._binaries / "psql"), "--no-psqlrc", "--tuples-only", "--no-align", "-F", "\x1f", "-c", sql,
             self.dsn(database)],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return [line.split("\x1f") for line in done.stdout.splitlines()]
