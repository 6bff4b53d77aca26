"""The job of the crash tests as a job file; where its folders are, and which inputs it has, says the environment."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.kit import CrashWorld, lose_the_first_record, plant_each_flush

if os.environ.get("CRASH_RIVAL"):
    lose_the_first_record(setattr)
if os.environ.get("CRASH_PLANTED"):
    plant_each_flush(setattr)

job = CrashWorld(Path(os.environ["CRASH_WORLD"])).job(live=bool(os.environ.get("CRASH_LIVE")))
