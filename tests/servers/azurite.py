"""A private server that speaks the language of Azure's blobs: Azurite, which is Microsoft's own emulator.

It keeps what it has in memory. `tools/setup.sh` puts it into ``.venv/azurite`` with npm; see `tests.servers.kafka` for
where else. Its account and key are those that every emulator of Azure has.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.servers.kafka import JARS, SECONDS_AT_MOST, jars
from tests.servers.ports import free_ports

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_PROGRAM = JARS / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def why_not() -> str | None:
    """What is missing for tests on Azurite; None where they can run."""
    if importlib.util.find_spec("obstore") is None:
        return "no obstore: pip install 'rekindle[azure]'"
    if shutil.which("node") is None or not _PROGRAM.exists():
        return f"no Azurite in {JARS}: `make setup` fetches it with npm, where there is one"
    return None


def why_no_connector() -> str | None:
    """What is missing for tests of Spark on Azure; None where they can run."""
    return None if jars("spark-azure") else f"no connector to Azure for Spark in {JARS}: `make setup` tries to fetch it"


class AzureServer:
    """One server; each test takes a container of its own. It may be stopped; what it had is then lost."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-azurite-"))
        (self.port,) = free_ports(1)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
        }

    @property
    def hadoop_settings(self) -> dict[str, str]:
        """What leads Hadoop's connector there, by the names of Azure's own hosts: through an HTTP proxy."""
        host = f"{ACCOUNT}.dfs.core.windows.net"
        return {
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
            "fs.azure.always.use.https": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
            "fs.azure.ssl.channel.mode": "Default_JSSE",
            f"fs.azure.account.key.{host}": KEY,
            f"fs.azure.account.key.{host.replace('.dfs.', '.blob.')}": KEY,
        }

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ("--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck")
        command = ["node", str(_PROGRAM), *options, "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return self._request("GET", "comp=list")[0] == 200
        except OSError:
            return False

    def make_container(self) -> str:
        """A container that nobody else has."""
        name = f"container-{os.getpid()}-{next(self._numbers)}"
        status, text = self._request("PUT", "restype=container", name)
        assert status == 201, text
        return name

    def put(self, container: str, name: str, data: bytes = b"", **metadata: str) -> None:
        """An object, made by a client that is none of ours."""
        headers = {"x-ms-blob-type": "BlockBlob", **{f"x-ms-meta-{key}": value for key, value in metadata.items()}}
        status, text = self._request("PUT", "", f"{container}/{name}", data, headers)
        assert status == 201, text

    def _request(
        self, method: str, query: str, path: str = "", data: bytes = b"", more: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Ask with the account's key (Azure's "Shared Key")."""
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2023-11-03", **(more or {})}
        target = f"/{ACCOUNT}/{path}"
        signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        lines = [method, "", "", str(len(data) or ""), "", "", "", "", "", "", "", "", ""]
        text = "\n".join(lines)[:-1] + "\n" + signed + f"/{ACCOUNT}{target}"
        text += f"\n{query.replace('=', ':')}" if query else ""
        key = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(key).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_AT_MOST)
        connection.request(method, f"{target}?{query}" if query else target, body=data or None, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS_AT_MOST)

    def remove(self) -> None:
        """Stop it; with it goes what it has."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has written."""
        return (self._folder / "server.log").read_text(errors="replace")
