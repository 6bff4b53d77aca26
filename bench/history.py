"""`make bench`: a long history in the order of its event times, and in any order: how large the state grows.

5 M bids in 64 Parquet files, counted per auction in windows of 10 seconds, with admissions small enough
that there are many batches: once as `rk.Files` reads them by the statistics of the files, once with ``ordered=False``.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.streaming.listener import StreamingQueryListener

import rekindle as rk
from contenders import SCHEMA, windows
from measuring import MB, ROOT, SETTINGS, arguments, publish, settled, where
from rekindle.session.session import make_session
from rekindle.spark.streaming import assembly

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
EVENTS, FILES = 5_434_783, 64
FIRST_ADMISSION_BYTES_PER_CORE = 2 * MB


@dataclass
class State(StreamingQueryListener):
    """The most that the state of a query held, as Spark reports it."""

    rows: int = 0
    batches: int = 0
    #: time at which the first rows came out of it
    first_s: float | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """See Spark."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """See Spark."""
        self.batches += 1
        for operator in event.progress.stateOperators:
            self.rows = max(self.rows, operator.numRowsTotal)
            if operator.numRowsRemoved and self.first_s is None:
                self.first_s = time.perf_counter()

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """See Spark."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """See Spark."""


def measure(spark: SparkSession, data: Path, work: Path, ordered: bool | None) -> tuple[float, float, State, int]:
    """Run the job; return seconds, seconds until the first rows came out, the peak of state, and rows written."""
    job = rk.Job("history")
    bids = job.source("bids", rk.Files(str(data), schema=SCHEMA, ordered=ordered), event_time="ts")
    job.sink("counts", job.task(bids, uid="windows")(windows), rk.sinks.Parquet(str(work / "out")))
    state = State()
    spark.streams.addListener(state)
    began = time.perf_counter()
    result = job.run(spark, storage=str(work / "state"), config={"input.target_batch_duration": "500 ms"})
    took = time.perf_counter() - began
    time.sleep(1)  # Spark's last reports are on their way
    spark.streams.removeListener(state)
    if result.state != "FINISHED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")
    rows = sum(pq.read_metadata(path).num_rows for path in (work / "out").glob("*.parquet"))
    shutil.rmtree(work)
    return took, (state.first_s or began + took) - began, state, rows


def main() -> None:
    parser = arguments("A history in the order of time, and in any order.", runs=1)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    given = parser.parse_args()
    load_before = settled()
    assembly.FIRST_ADMISSION_BYTES_PER_CORE = FIRST_ADMISSION_BYTES_PER_CORE
    spark = make_session("rekindle-bench", {**SETTINGS, COUNTED: "true"})
    lines, written = [], set()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder, "bids")
        bids = nexmark.write_history(data, given.events, FILES)
        for name, ordered in (("in the order of time", None), ("in any order", False)):
            took, first_s, state, rows = measure(spark, data, Path(folder, "work"), ordered)
            written.add(rows)
            line = f"| {name} | {state.rows:,} | {first_s:.1f} | {took:.1f} | {state.batches} | {rows:,} |"
            print(line, flush=True)
            lines.append(line)
        if len(written) != 1:
            sys.exit(f"bench: the runs wrote different rows: {written}")
        text = f"""\
| a history read | most rows in state | s to the first windows | s in all | batches | rows out |
| --- | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- {bids:,} bids in {FILES} files, 10-second windows per auction; one run of each; batches kept small
{where(spark, load_before)}"""
    spark.stop()
    publish("history", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
