"""`make bench-backlog`: a history before a live stream, streamed, computed as a batch before, and as a batch run.

Bids in Parquet, a history and a live stream that continues it, in Nexmark's windows: with ``backlog.mode=stream`` and
``backlog.mode=batch``, from the start of the job until its history is in batch records and all windows that the live
stream has closed are out; and beside them the same rows as a batch run, in which all windows come out. They take turns,
in one Spark session. The two streams are then drained, and must have written the same rows.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import rekindle as rk
from contenders import SCHEMA, windows
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, load, middle, publish, settled, where
from nexmark_queries import q5
from rekindle.session.session import make_session
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS, FILES, LIVE = 4_000_000, 16, 100_000
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {"windows per auction": windows, "q5": q5}
MODES = ("stream", "batch", "a batch run")
JOB, TASK = "backlog", "windows"
_POLL_S = 0.01


def make(query: Callable[[DataFrame], DataFrame], data: Path, out: Path, *, ends: bool) -> rk.Job:
    """Define the job; as a batch run its live stream is bounded."""
    job = rk.Job(JOB)
    folder = str(data / "live")
    history = job.source("history", rk.Files(str(data / "history"), schema=SCHEMA), event_time="ts")
    if ends:
        live = job.source("live", rk.Files(folder, schema=SCHEMA), event_time="ts")
    else:
        stream = rk.Stream(lambda spark: spark.readStream.schema(SCHEMA).parquet(folder))
        live = job.source("live", stream, event_time="ts", watermark="4 seconds")
    task = job.task(history, live, uid=TASK)(lambda past, now: query(past.unionByName(now)))
    job.sink("out", task, rk.sinks.Parquet(str(out)))
    return job


def measure(spark: SparkSession, mode: str, name: str, data: Path, work: Path) -> tuple[float, float, int, int]:
    """Run it; return seconds, CPU seconds, batches until the history was through, and rows in the end."""
    out, storage = work / "out", str(work / "state")
    job = make(QUERIES[name], data, out, ends=mode == "a batch run")
    began, cpu_began = time.perf_counter(), cpu_seconds()
    if mode == "a batch run":
        result: Any = job.run(spark, storage=storage, mode="batch")
        took, batches = time.perf_counter() - began, 1
        cpu = cpu_seconds() - cpu_began
    else:
        handle = job.start(spark, storage=storage, config={"backlog.mode": mode})
        documents = JobStorage(open_store(storage), JOB)
        last_us = max(
            pq.read_metadata(path).row_group(0).column(5).statistics.max_raw for path in (data / "live").glob("*")
        )
        while not through(documents, last_us // 1000 - 4_000):
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


def through(documents: JobStorage, watermark_ms: int) -> bool:
    """Return whether the history is recorded, and the watermark of the live stream is in force."""
    record = documents.last_record(layout.subtask(JOB, TASK, 0, 1))
    return record is not None and record.inputs["history"].files == FILES and record.watermark_ms == watermark_ms


def main() -> None:
    parser = arguments("A history as a batch, and then the stream.", runs=3)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    given = parser.parse_args()
    load_before = settled() if not given.no_page else load()
    spark = make_session("rekindle-bench", SETTINGS)
    lines = []
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder, "data")
        bids = nexmark.write_history(data / "history", given.events, FILES)
        (data / "live").mkdir()
        live = nexmark.bids(given.events, given.events + LIVE)
        pq.write_table(live, data / "live" / "0.parquet")
        for name in QUERIES:
            figures: dict[str, list[tuple[float, float, int, int]]] = {mode: [] for mode in MODES}
            for run in range(given.runs + 1):
                for mode in MODES if run % 2 else MODES[::-1]:
                    found = measure(spark, mode, name, data, Path(folder, "work"))
                    print(f"{name}, run {run or 'to warm up'}: {mode:11} {found}", flush=True)
                    if run:
                        figures[mode].append(found)
            if len(written := Counter(found[3] for of_mode in figures.values() for found in of_mode)) != 1:
                sys.exit(f"bench: the runs wrote different rows: {written}")
            batch_s = middle([found[0] for found in figures["a batch run"]])
            lines += [
                f"| {name} | {mode} | {middle([one[0] for one in of_mode]):.2f} "
                f"| {middle([one[1] for one in of_mode]):.2f} | {of_mode[0][2]} "
                f"| {batch_s / middle([one[0] for one in of_mode]):.2f} |"
                for mode, of_mode in figures.items()
            ]
        text = f"""\
| query | `backlog.mode` | median s | median CPU s | batches | speed, of a batch run's |
| --- | --- | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- {bids:,} bids in {FILES} files, and {live.num_rows:,} of a live stream; medians of {given.runs} runs in turn, after \
one more; the same rows in the end
{where(spark, load_before)}"""
    spark.stop()
    publish("backlog-mode", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
