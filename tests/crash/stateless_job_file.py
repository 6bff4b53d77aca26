"""The job without state of `bucket_kit` as a job file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.bucket_kit import StatelessWorld

job = StatelessWorld(Path(os.environ["CRASH_WORLD"])).job(live=bool(os.environ.get("CRASH_LIVE")))
