"""`make bench-profile`: where the time of a job goes, beside a plain query over the same files, in one Spark session.

1. A short job, phase by phase: from `run` to the first batch, its batches, its end. The phases lie between durable
   steps, which a run announces.
2. A batch of a stream with small files: what Spark reports of each batch, for both, and what of it is Rekindle's.
3. A row: what more rows cost more, for both, and for a plain query with what an input of a job has beside its rows.

They take turns; medians, after runs that do not count. Writes docs/performance.md unless the machine was busy.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

import rekindle as rk
from contenders import SCHEMA, plain, plain_with_marks, rekindle, windows
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from rekindle.runtime.steps import heard_by
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

PAGE = ROOT / "docs" / "performance.md"
WARM_UP = 4
SHORT, FILES = 100_000, 8
FEW, MANY = 1_000_000, 4_000_000
BATCHES, EVENTS_A_BATCH = 40, 2_000

PHASES = {
    "the start is decided, the run is claimed": "run.create/after",
    "files are listed, their statistics read": "files.freeze/after",
    "inputs are opened, the query is built and checked": "sink.clean/before",
    "Spark starts the query and plans its first batch": "sink.prepare/before",
    "batches: rows are computed and staged, state is flushed": "sink.finish/before",
    "the last checkpoint is written and committed": "result.create/after",
}
"""Phase → the durable step that ends it. That of the third is the last one of its kind before the fourth's."""

OF_SPARK = {
    "latestOffset": "what is there to read",
    "walCommit": "the plan of the batch is written down",
    "queryPlanning": "the query is planned",
    "addBatch": "rows are read, computed, written; state is committed",
    "commitOffsets": "the batch is noted as done",
    "triggerExecution": "**the whole batch**",
}
"""The parts of a batch that Spark reports → Spark's work in each."""


class Reports(StreamingQueryListener):
    """Collects what Spark reports of the batches with more than so many rows, ms."""

    def __init__(self, more_than: int = EVENTS_A_BATCH // 2) -> None:
        self._more_than = more_than
        self.found: dict[str, list[int]] = defaultdict(list)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """See Spark."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """See Spark."""
        if event.progress.numInputRows > self._more_than:
            for name in OF_SPARK:
                self.found[name].append(event.progress.durationMs.get(name, 0))

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """See Spark."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """See Spark."""


@dataclass
class Runs:
    """Figures of runs that count: seconds, CPU seconds."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    @contextmanager
    def timed(self, *, counts: bool) -> Iterator[None]:
        """Measure what is done inside."""
        began, cpu_began = time.perf_counter(), cpu_seconds()
        yield
        if counts:
            self.seconds.append(time.perf_counter() - began)
            self.cpu_seconds.append(cpu_seconds() - cpu_began)


Contender = Callable[["SparkSession", Path, Path], None]
BOTH: dict[str, Contender] = {"plain": plain, "Rekindle": rekindle}
BETWEEN: dict[str, Contender] = {"plain": plain, "marks": plain_with_marks, "Rekindle": rekindle}
"""With a query that has what an input of a job has, and ends as a plain one."""


def compare(
    spark: SparkSession, data: Path, scratch: Path, runs: int, contenders: dict[str, Contender] = BOTH
) -> dict[str, Runs]:
    """Run all in turn, in a changing order."""
    found = {name: Runs() for name in contenders}
    for number in range(WARM_UP + runs):
        for name in sorted(contenders, reverse=number % 2 == 1):
            with found[name].timed(counts=number >= WARM_UP):
                contenders[name](spark, data, scratch / name)
            shutil.rmtree(scratch / name)
    return found


def phases(spark: SparkSession, data: Path, work: Path, runs: int) -> dict[str, float]:
    """Phase → seconds of a short job."""
    found: dict[str, list[float]] = defaultdict(list)
    heard: list[tuple[str, float]] = []
    for number in range(runs + 1):
        heard.clear()
        began = time.perf_counter()
        heard_by(lambda name: heard.append((name, time.perf_counter())), rekindle)(spark, data, work)
        ended = time.perf_counter()
        shutil.rmtree(work)
        if number:
            for name, seconds in _spans(heard, began, ended):
                found[name].append(seconds)
    return {name: middle(seconds) for name, seconds in found.items()}


def _spans(heard: list[tuple[str, float]], began: float, ended: float) -> Iterator[tuple[str, float]]:
    before = began
    for phase, step in PHASES.items():
        at = next(at for name, at in heard if name == step)
        yield phase, at - before
        before = at
    yield "tasks and sinks are closed, `run` returns", ended - before


def batches(spark: SparkSession, data: Path, scratch: Path) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Measure the parts of a batch that Spark reports, for both, and the times between a job's durable steps, ms."""
    found, steps = {}, {}
    for name, run in {"plain": _plain_stream, "Rekindle": _stream}.items():
        reports = Reports()
        spark.streams.addListener(reports)
        steps = run(spark, data, scratch / name)
        time.sleep(1)  # Spark's last reports are on their way
        spark.streams.removeListener(reports)
        shutil.rmtree(scratch / name)
        found[name] = {key: middle(each[BATCHES // 4 :]) for key, each in reports.found.items()}
    return found, steps


def _plain_stream(spark: SparkSession, data: Path, work: Path) -> dict[str, float]:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
    writer = windows(rows.withWatermark("ts", "4 seconds")).writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(work / "progress")).trigger(availableNow=True)
    writer.start(str(work / "out")).awaitTermination()
    return {}


def _stream(spark: SparkSession, data: Path, work: Path) -> dict[str, float]:
    """Run the same as a job, until each file is in a record; returns the medians between its steps, ms."""
    read = rk.Stream(lambda spark: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data)))
    job = rk.Job("profile")
    rows = job.source("bids", read, event_time="ts", watermark="4 seconds")
    job.sink("counts", job.task(rows, uid="windows")(windows), rk.sinks.Parquet(str(work / "out")))
    heard: list[tuple[str, float]] = []
    handle = heard_by(lambda name: heard.append((name, time.perf_counter())), job.start)(
        spark, storage=str(work / "state")
    )
    while sum(name == "record.create/after" for name, _ in heard) < BATCHES:
        time.sleep(0.05)
    handle.stop()
    handle.wait()
    return {
        "rows are computed and staged": _between(heard, "sink.prepare/before", "sink.prepare/after"),
        "the batch is recorded": _between(heard, "record.create/before", "record.create/after"),
    }


def _between(heard: list[tuple[str, float]], first: str, second: str) -> float:
    """Return the median time from one step to the next of another name, ms."""
    begun = [at for name, at in heard if name == first]
    done = [at for name, at in heard if name == second]
    return 1_000 * middle([end - begin for begin, end in zip(begun, done, strict=False)][BATCHES // 4 :])


def text_of_short(found: dict[str, Runs], parts: dict[str, float]) -> str:
    ours, theirs = found["Rekindle"], found["plain"]
    lines = [f"| {name} | {1_000 * seconds:.0f} |" for name, seconds in parts.items()]
    more = middle(ours.seconds) - middle(theirs.seconds)
    return f"""\
| a job of {SHORT:,} events | ms |
| --- | ---: |
{chr(10).join(lines)}
| **all**, without what listens to the steps | **{1_000 * middle(ours.seconds):.0f}** |
| the plain query, which leaves its last windows in state | {1_000 * middle(theirs.seconds):.0f} |
| so beyond plain | {1_000 * more:.0f} |
| CPU: the job, the plain query | {1_000 * middle(ours.cpu_seconds):.0f}, {1_000 * middle(theirs.cpu_seconds):.0f} |"""


def text_of_batch(found: dict[str, dict[str, float]], steps: dict[str, float]) -> str:
    lines = [
        f"| {what} (`{name}`) | {found['plain'][name]:.0f} | {found['Rekindle'][name]:.0f} |"
        for name, what in OF_SPARK.items()
    ]
    lines += [f"| of `addBatch`: {what} | | {ms:.0f} |" for what, ms in steps.items()]
    return f"""\
| a batch of {EVENTS_A_BATCH:,} events, ms | plain | Rekindle |
| --- | ---: | ---: |
{chr(10).join(lines)}"""


def text_of_rows(few: dict[str, Runs], many: dict[str, Runs]) -> str:
    def slope(name: str, figure: str) -> float:
        more = middle(getattr(many[name], figure)) - middle(getattr(few[name], figure))
        return more / (MANY - FEW) * 1e6

    lines = [
        f"| {name} | {slope('plain', figure):.2f} | {slope('marks', figure):.2f} | {slope('Rekindle', figure):.2f} "
        f"| {slope('Rekindle', figure) / slope('plain', figure):.2f} |"
        for name, figure in (("seconds", "seconds"), ("CPU seconds", "cpu_seconds"))
    ]
    return f"""\
| a million events more, {FEW:,} to {MANY:,} | plain | plain, with guard and watermark rows | Rekindle | of plain's |
| --- | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}"""


def main() -> None:
    parser = arguments("Where the time of a job goes.", runs=9)
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        scratch = Path(folder)
        for name, events, files in (("short", SHORT, FILES), ("few", FEW, FILES), ("many", MANY, FILES)):
            nexmark.write_history(scratch / name, events, files)
        nexmark.write_history(scratch / "small", BATCHES * EVENTS_A_BATCH, BATCHES)
        short = compare(spark, scratch / "short", scratch, given.runs)
        parts = phases(spark, scratch / "short", scratch / "phases", given.runs)
        text = text_of_short(short, parts)
        print(text, flush=True)
        text += "\n\n" + text_of_batch(*batches(spark, scratch / "small", scratch))
        few, many = (compare(spark, scratch / name, scratch, given.runs, BETWEEN) for name in ("few", "many"))
        text += "\n\n" + text_of_rows(few, many)
        text += f"\n\n- medians of {given.runs} runs in turn, after {WARM_UP} more\n{where(spark, load_before)}"
    spark.stop()
    publish("profile", text, load_before=load_before, page=not given.no_page, of=PAGE)


if __name__ == "__main__":
    main()
