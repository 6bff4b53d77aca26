"""The job of `hybrid_kit` as a job file; the environment says where its folders and its server are."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.hybrid_kit import HybridWorld

job = HybridWorld(Path(os.environ["CRASH_WORLD"])).job()
