"""A private server that speaks the language of S3: S3Proxy, run by plain Java from Maven's artifacts.

It keeps what it has in memory, and honours conditional puts in one step. `tools/setup.sh` puts its jars into
``.venv/s3-server`` and those that Spark needs into ``.venv/spark-s3``; see `tests.servers.kafka` for where else.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java, jars
from tests.servers.ports import free_ports

KEY, SECRET = "rekindle-tests", "not-a-real-secret"


def why_not() -> str | None:
    """What is missing for tests on S3; None where they can run."""
    if _java() is None:
        return "no Java in JAVA_HOME or PATH"
    if importlib.util.find_spec("obstore") is None:
        return "no obstore: pip install 'rekindle[s3]'"
    if importlib.util.find_spec("s3fs") is None:
        return "no s3fs, with which the tests look: pip install s3fs"
    if not jars("s3-server"):
        return f"no S3 server in {JARS}: `make setup` fetches it with Maven, where there is one"
    return None


def why_no_connector() -> str | None:
    """What is missing for tests of Spark on S3; None where they can run."""
    return None if jars("spark-s3") else f"no S3A for Spark in {JARS}: `make setup` tries to fetch it"


class S3Server:
    """One server; each test takes a bucket of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-s3-"))
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = self._command()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()[-3000:]

    def _command(self) -> list[str]:
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "s3proxy.endpoint": self.endpoint,
            "jclouds.provider": "transient",
        }
        properties, quiet = self._folder / "server.properties", self._folder / "logback.xml"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        quiet.write_text('<configuration><root level="OFF"/></configuration>')
        java = _java()
        assert java is not None
        options = ("-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Dlogback.configurationFile={quiet}")
        classes = ("-cp", str(JARS / "s3-server" / "*"), "org.gaul.s3proxy.Main")
        return [java, *options, *classes, "--properties", str(properties)]

    def _answers(self) -> bool:
        try:
            self.client.call_s3("list_buckets")
        except Exception:
            return False
        return True

    @cached_property
    def client(self) -> Any:
        """A client that is none of ours."""
        from s3fs import S3FileSystem

        return S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.endpoint, use_listings_cache=False, skip_instance_cache=True
        )

    def keys(self, bucket: str) -> list[str]:
        """All names in a bucket, as the server has them; a thousand at most."""
        found = self.client.call_s3("list_objects_v2", Bucket=bucket)
        return [one["Key"] for one in found.get("Contents", ())]

    @property
    def delta_options(self) -> dict[str, str]:
        """How delta-rs reaches it with nothing from the environment."""
        return {"endpoint": self.endpoint, "access_key_id": KEY, "secret_access_key": SECRET, "allow_http": "true"}

    def make_bucket(self) -> str:
        """A bucket that nobody else has."""
        name = f"bucket-{os.getpid()}-{next(self._numbers)}"
        self.client.call_s3("create_bucket", Bucket=name)
        return name

    def remove(self) -> None:
        """Stop it; with it goes what it has."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS_AT_MOST)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has written."""
        return (self._folder / "server.log").read_text(errors="replace")
