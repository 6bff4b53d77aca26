"""A second server that speaks the language of S3: Versity's gateway, written in Go, over a folder of this machine.

`tools/setup.sh` builds it into ``.venv/versity``; see `tests.servers.kafka` for where else.
"""

from __future__ import annotations

import importlib.util
import os

from tests.servers.kafka import JARS
from tests.servers.s3 import KEY, SECRET, S3Server

_PROGRAM = JARS / "versity" / "versitygw"


def why_not() -> str | None:
    """What is missing for tests on it; None where they can run."""
    if importlib.util.find_spec("obstore") is None or importlib.util.find_spec("s3fs") is None:
        return "no obstore or s3fs: pip install 'rekindle[s3]' s3fs"
    if not os.access(_PROGRAM, os.X_OK):
        return f"no versitygw in {JARS}: `make setup` builds it with Go, where there is one"
    return None


class VersityServer(S3Server):
    """One server; what it keeps goes with it."""

    def _command(self) -> list[str]:
        root, notes = self._folder / "objects", self._folder / "notes"
        root.mkdir()
        notes.mkdir()
        options = ["--port", f"127.0.0.1:{self.port}", "--access", KEY, "--secret", SECRET, "--quiet"]
        # Not every file system keeps what is noted of an object beside it.
        return [str(_PROGRAM), *options, "posix", "--sidecar", str(notes), str(root)]
