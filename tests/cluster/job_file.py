"""The pipeline of several tasks as a job file: `archive` works on its rows in Python, for a while, on an executor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rekindle.spark.streaming import assembly
from tests.crash.pipeline_kit import PipelineWorld

assembly.FIRST_ADMISSION_BYTES_PER_CORE = 1  # a file a batch
SECONDS_A_ROW = 0.03


def worked_on(frame: Any) -> Any:
    """The frame; its rows take their time."""
    from pyspark.sql import functions as F

    seconds = SECONDS_A_ROW

    def works(key: str) -> bool:
        import time

        time.sleep(seconds)
        return True

    return frame.filter(F.udf(works, "boolean")("k"))


job = PipelineWorld(Path(os.environ["CLUSTER_WORLD"])).job(seen=worked_on)
