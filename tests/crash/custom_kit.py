"""A job with a custom source, for the crash tests: a service that notes what it is asked, read by two subtasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rekindle as rk
from tests.crash.kit import BrokenWorld, Rows
from tests.jobs.kit import committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPTO = {"a": 6, "b": 5, "c": 0}
"""Split → its rows, of which a read gives two."""

SUBTASKS = 2


class Service(rk.SplitSource):
    """Notes each question in a file before it answers."""

    schema = "split string, n long"
    poll_every = "100 ms"

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    def splits(self) -> list[str]:
        """See `SplitSource`."""
        return list(UPTO)

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame, Any, bool]:
        """See `SplitSource`."""
        with self._asked.open("a") as file:
            file.write(f"{split} {position}\n")
        first = position or 0
        rows = [(split, n) for n in range(first, min(first + 2, UPTO[split]))]
        return spark.createDataFrame(rows, self.schema), first + len(rows), first + len(rows) == UPTO[split]


class CustomWorld(BrokenWorld):
    """Two subtasks that read the service, and a sink."""

    name = "custom"
    job_file = Path(__file__).with_name("custom_job_file.py")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.outs = {"out": self.out}
        self._asked = root / "asked.txt"

    def job(self, *, live: bool = False) -> rk.Job:
        """The job."""
        assert not live, "it has no live stream"
        job = rk.Job(self.name)
        service = job.source("service", Service(self._asked))

        @job.task(service, parallelism=SUBTASKS)
        def read(frame: DataFrame) -> DataFrame:
            return frame

        job.sink("out", read, rk.sinks.Parquet(self.out))
        return job

    def expected_of(self, *, live: bool = False) -> dict[str, Rows]:
        """Each row of each split."""
        return {"out": Counter((split, n) for split, upto in UPTO.items() for n in range(upto))}

    def outputs(self) -> dict[str, Rows]:
        """What is committed."""
        return {"out": Counter((row["split"], row["n"]) for row in committed(self.out))}

    def asked_again(self) -> int:
        """How many questions the service was asked that it had answered before with rows."""
        asked = Counter(line for line in self._asked.read_text().splitlines() if not line.startswith("c "))
        return sum(count - 1 for count in asked.values())
