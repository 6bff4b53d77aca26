"""The job of the crash tests in a process whose disk is listened to; see `power`."""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.kit import CrashWorld
from tests.crash.power import listen

world = CrashWorld(Path(os.environ["CRASH_WORLD"]))
listen(world.root / "images", (Path(world.storage), *world.outs.values()))

job = world.job(live=bool(os.environ.get("CRASH_LIVE")))
