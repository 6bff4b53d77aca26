"""The pipeline of several tasks as a job file, held up on an executor until somebody has seen which that is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rekindle.spark.streaming import assembly
from tests.crash.pipeline_kit import PipelineWorld

assembly.FIRST_ADMISSION_BYTES_PER_CORE = 1  # a file a batch
root = Path(os.environ["CLUSTER_WORLD"])
gate, held = str(root / "shut"), str(root / "held")


def held_up(frame: Any) -> Any:
    """The frame; whoever works on its rows writes its process down, and waits for as long as the gate is shut."""
    from pyspark.sql import functions as F

    def waits(key: str) -> bool:
        import os
        import time

        while os.path.exists(gate):
            with open(held, "w") as file:
                file.write(str(os.getpid()))
            time.sleep(0.05)
        return True

    return frame.filter(F.udf(waits, "boolean")("k"))


job = PipelineWorld(root).job(live=False, seen=held_up)
