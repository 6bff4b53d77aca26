"""The job with a custom source as a job file; the environment says where its folders are."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.custom_kit import CustomWorld

job = CustomWorld(Path(os.environ["CRASH_WORLD"])).job()
