"""The job of `connectors` as a job file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.connectors import ConnectorWorld

job = ConnectorWorld(Path(os.environ["CRASH_WORLD"])).job(live=bool(os.environ.get("CRASH_LIVE")))
