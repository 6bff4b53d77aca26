"""The job of several subtasks as a job file; the environment says where its folders are."""

from __future__ import annotations

import os
from pathlib import Path

from rekindle.spark.streaming import assembly
from tests.crash.parallel_kit import ParallelWorld

assembly.FIRST_ADMISSION_BYTES_PER_CORE = 1  # a file a batch
job = ParallelWorld(Path(os.environ["CRASH_WORLD"])).job()
