"""A job with a history in files that a table or a topic continues, for the crash tests."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import rekindle as rk
from rekindle.handle import JobHandle
from tests.crash.kit import BrokenWorld, Rows
from tests.jobs.kit import committed, until, write
from tests.jobs.kit import rows as rows_of
from tests.servers.kafka import jars
from tests.servers.postgres import PASSWORD, USER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

THEN = "CRASH_THEN"
"""What continues the history: ``jdbc`` or ``kafka``."""

SERVER = "CRASH_SERVER"
"""Where that is: a port, or brokers."""

NAME = "continues"
"""Of the table, and of the topic."""

HISTORY, AFTER = 6, 7
"""Numbers up to `HISTORY` are in the files, and so many follow in the other; a read gives three."""

MOST = 3


def continuation() -> rk.SplitSource | rk.sources.Hybrid | object:
    """The second part."""
    from pyspark.sql import functions as F

    if os.environ[THEN] == "jdbc":
        return rk.sources.Jdbc(
            f"jdbc:postgresql://127.0.0.1:{os.environ[SERVER]}/postgres",
            query=f"SELECT v, 'new' AS k FROM {NAME}",
            column="v",
            after=HISTORY,
            rows_per_read=MOST,
            options={"user": USER, "password": PASSWORD},
            poll_every="100 ms",
        )
    return rk.sources.Kafka(
        os.environ[SERVER],
        NAME,
        start={NAME: {0: HISTORY}},
        transform=lambda df: df.select(F.col("value").cast("string").cast("long").alias("v"), F.lit("new").alias("k")),
        options={"maxOffsetsPerTrigger": str(MOST)},
    )


class HybridWorld(BrokenWorld):
    """The history is two files; what continues it has the history's rows as well, and begins after them."""

    name = "hybrid"
    job_file = Path(__file__).with_name("hybrid_job_file.py")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.outs = {"out": self.out}
        connectors = [str(jar) for folder in ("spark-kafka", "spark-postgres") for jar in jars(folder)]
        self.arguments = ("--conf", f"spark.jars={','.join(connectors)}")

    def fill(self) -> HybridWorld:
        """Write the history."""
        (start, *_) = rows_of(0, 1)
        for number in range(2):
            own = [(start[0], "old", value) for value in range(1, HISTORY + 1) if value % 2 == number]
            write(self.history, f"{number}.parquet", own)
        return self

    def job(self, *, live: bool = True) -> rk.Job:
        """Every row as it comes."""
        job = rk.Job(self.name)
        history = rk.Files(str(self.history), transform=lambda df: df.select("v", "k"))
        both = job.source("rows", rk.sources.Hybrid(history, then=continuation()))  # type: ignore[arg-type]

        @job.task(both)
        def read(frame: DataFrame) -> DataFrame:
            return frame

        job.sink("out", read, rk.sinks.Parquet(self.out))
        return job

    def expected_of(self, *, live: bool = True) -> dict[str, Rows]:
        """Each number once, from where it is to come."""
        old = Counter((value, "old") for value in range(1, HISTORY + 1))
        return {"out": old + Counter((value, "new") for value in range(HISTORY + 1, HISTORY + AFTER + 1))}

    def outputs(self) -> dict[str, Rows]:
        """What is committed."""
        return {"out": Counter((row["v"], row["k"]) for row in committed(self.out))}

    def read_all(self, handle: JobHandle) -> None:
        """Its source has no end: all that there is has been read when a checkpoint has committed it."""

        def has_come() -> bool:
            handle.checkpoint()
            return self.outputs()["out"].total() >= HISTORY + AFTER

        until(lambda: handle.wait(0) is not None or has_come())
