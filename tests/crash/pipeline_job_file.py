"""The pipeline of the crash tests as a job file; the environment says where its folders are and what it reads."""

from __future__ import annotations

import os
from pathlib import Path

from rekindle.spark.streaming import assembly
from tests.crash.pipeline_kit import PipelineWorld

assembly.FIRST_ADMISSION_BYTES_PER_CORE = 1  # a file a batch
job = PipelineWorld(Path(os.environ["CRASH_WORLD"])).job(live=bool(os.environ.get("CRASH_LIVE")))
