"""`make bench-backlog`: a history before a live stream, streamed, computed as a batch before, and as a batch run.

Nexmark's events in Parquet, a history and a live stream that continues it, in windows, a join of windows (q8), sessions
(q11), and a join with bounds of time (bids with their auction, while that lasts): with ``backlog.mode=stream`` and
``backlog.mode=batch``, from the start of the job until its history is in batch records and all windows that the live
stream has closed are out; and beside them the same rows as a batch run, in which all windows come out. They take turns,
in one Spark session. The two streams are then drained, and must have written the same rows.

Prints the figures and writes them between the markers in docs/benchmarks.md. All of it takes some 25 minutes, most
of which are of the join where it is streamed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import rekindle as rk
from contenders import windows
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, load, middle, publish, settled, where
from nexmark_queries import SCHEMAS, q5, q8, q11
from rekindle.session.session import make_session
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS, FILES, LIVE = 16_000_000, 16, 100_000


def bids_in_time(bids: DataFrame, auctions: DataFrame) -> DataFrame:
    """Return the bids with their auction, while that lasts, which is 30 seconds at most."""
    opened = auctions.selectExpr("id", "item", "seller", "expires", "ts AS opened")
    times = "ts >= opened AND ts <= expires AND ts <= opened + INTERVAL 30 SECONDS"
    return bids.join(opened, F.expr(f"auction = id AND {times}")).select("auction", "bidder", "price", "ts", "item")


QUERIES: dict[str, Callable[..., DataFrame]] = {
    "windows per auction": windows,
    "q5": q5,
    "q8, a join of windows": q8,
    "q11, sessions": q11,
    "bids in time, a join": bids_in_time,
}
READS = {"bids in time, a join": ("bids", "auctions"), "q8, a join of windows": ("persons", "auctions")}
"""Queries that read something else than bids."""
TABLES = {"bids": nexmark.bids, "auctions": nexmark.auctions, "persons": nexmark.persons}
MODES = ("stream", "batch", "a batch run")
JOB, TASK = "backlog", "windows"
_POLL_S = 0.01


def make(name: str, data: Path, out: Path, *, ends: bool) -> rk.Job:
    """Define the job; as a batch run its live streams are bounded."""
    job, sources = rk.Job(JOB), []
    for table in read_by(name):
        history = rk.Files(str(data / table / "history"), schema=SCHEMAS[table])
        sources.append(job.source(f"{table}_history", history, event_time="ts"))
        folder = str(data / table / "live")
        if ends:
            live = job.source(f"{table}_live", rk.Files(folder, schema=SCHEMAS[table]), event_time="ts")
        else:
            stream = rk.Stream(partial(_stream, folder, SCHEMAS[table]))
            live = job.source(f"{table}_live", stream, event_time="ts", watermark="4 seconds")
        sources.append(live)

    def task(*frames: DataFrame) -> DataFrame:
        pairs = zip(frames[::2], frames[1::2], strict=True)
        return QUERIES[name](*(past.unionByName(now) for past, now in pairs))

    job.sink("out", job.task(*sources, uid=TASK)(task), rk.sinks.Parquet(str(out)))
    return job


def _stream(folder: str, schema: str, spark: SparkSession) -> DataFrame:
    return spark.readStream.schema(schema).parquet(folder)


def read_by(name: str) -> tuple[str, ...]:
    """Return the tables that a query reads."""
    return READS.get(name, ("bids",))


def write(data: Path, events: int, tables: Collection[str]) -> dict[str, list[int]]:
    """Write histories and live streams; return for each table how many rows of each there are."""
    counts = {table: [0, 0] for table in tables}
    for table in tables:
        step = events // FILES
        parts = [("history", first, first + step) for first in range(0, events, step)]
        for number, (folder, first, last) in enumerate([*parts, ("live", events, events + LIVE)]):
            (data / table / folder).mkdir(parents=True, exist_ok=True)
            rows = TABLES[table](first, last)
            pq.write_table(rows, data / table / folder / f"{number:03}.parquet")
            counts[table][folder == "live"] += rows.num_rows
    return counts


def measure(spark: SparkSession, mode: str, name: str, data: Path, work: Path) -> tuple[float, float, int, int]:
    """Run it; return seconds, CPU seconds, batches until the history was through, and rows in the end."""
    out, storage = work / "out", str(work / "state")
    job = make(name, data, out, ends=mode == "a batch run")
    began, cpu_began = time.perf_counter(), cpu_seconds()
    if mode == "a batch run":
        result: Any = job.run(spark, storage=storage, mode="batch")
        took, batches = time.perf_counter() - began, 1
        cpu = cpu_seconds() - cpu_began
    else:
        handle = job.start(spark, storage=storage, config={"backlog.mode": mode})
        documents = JobStorage(open_store(storage), JOB)
        watermark_ms = min(_last_ms(data / table / "live") for table in read_by(name)) - 4_000
        while not through(documents, name, watermark_ms):
            time.sleep(_POLL_S)
        took, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
        batches = len(documents.records(layout.subtask(JOB, TASK, 0, 1)))
        handle.stop(drain=True)
        result = handle.wait()
    if result.state not in ("FINISHED", "DRAINED"):
        sys.exit(f"bench: the job ended {result.state}: {result.error}")
    rows = sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
    shutil.rmtree(work)
    return took, cpu, batches, rows


def _last_ms(folder: Path) -> int:
    return max(int(pc.max(pq.read_table(path, columns=["ts"])["ts"]).value) for path in folder.glob("*")) // 1000


def through(documents: JobStorage, name: str, watermark_ms: int) -> bool:
    """Return whether the histories are recorded, and the watermark of the live streams is in force."""
    record = documents.last_record(layout.subtask(JOB, TASK, 0, 1))
    if record is None or record.watermark_ms != watermark_ms:
        return False
    return all(record.inputs[f"{table}_history"].files == FILES for table in read_by(name))


def main() -> None:
    parser = arguments("A history as a batch, and then the stream.", runs=3)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--queries", nargs="*", choices=QUERIES, help="only these")
    parser.add_argument(
        "--modes", nargs="+", choices=MODES[:-1], default=MODES[:-1], help="only these, a batch run too"
    )
    given = parser.parse_args()
    modes = (*given.modes, MODES[-1])
    load_before = settled() if not given.no_page else load()
    spark = make_session("rekindle-bench", SETTINGS)
    lines = []
    names = given.queries or list(QUERIES)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder, "data")
        counts = write(data, given.events, dict.fromkeys(chain.from_iterable(map(read_by, names))))
        for name in names:
            figures: dict[str, list[tuple[float, float, int, int]]] = {mode: [] for mode in modes}
            for run in range(given.runs + 1):
                for mode in modes if run % 2 else modes[::-1]:
                    found = measure(spark, mode, name, data, Path(folder, "work"))
                    print(f"{name}, run {run or 'to warm up'}: {mode:11} {found}", flush=True)
                    if run:
                        figures[mode].append(found)
            if len(written := Counter(found[3] for of_mode in figures.values() for found in of_mode)) != 1:
                sys.exit(f"bench: the runs wrote different rows: {written}")
            batch_s = middle([found[0] for found in figures[MODES[-1]]])
            lines += [
                f"| {name} | {mode} | {middle([one[0] for one in of_mode]):.2f} "
                f"| {middle([one[1] for one in of_mode]):.2f} | {of_mode[0][2]} "
                f"| {batch_s / middle([one[0] for one in of_mode]):.2f} |"
                for mode, of_mode in figures.items()
            ]
        of_tables = ", ".join(f"{history:,} {table}" for table, (history, _) in counts.items())
        text = f"""\
| query | `backlog.mode` | median s | median CPU s | batches | speed, of a batch run's |
| --- | --- | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- histories of {of_tables}, in {FILES} files each, and live streams of {LIVE:,} more events; \
medians of {given.runs} runs in turn, after \
one more; the same rows in the end
{where(spark, load_before)}"""
    spark.stop()
    publish("backlog-mode", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
