"""`make bench-latency`: where the time of a single row goes, and what a job of many tasks uses while nothing comes.

1. A hop, part by part: from the batch record of a task to that of the task that reads it. The parts lie between durable
   steps, which a run announces. Two tasks in a chain, with event time, idle but for one row at a time.
2. What Spark reports of batches of one row: of a plain query with Spark's own file sink, and of the two tasks.
3. A row's way through one task, from its file to its batch record, and to the file that a reader sees, by the interval
   of checkpoints.
4. The CPU time of a chain of 20 tasks that is left alone.

Writes docs/performance.md unless the machine was busy.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from idle import SETTLE_S, define, newest, send, send_through
from measuring import ROOT, SETTINGS, arguments, middle, publish, settled, share_of_a_core, where
from rekindle.runtime.steps import heard_by
from rekindle.session.session import make_session
from start_profile import OF_SPARK, Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "performance.md"
WARM_UP = 40
PAUSE_S = 1
"""Between two rows: the batches that one has caused are over."""
INTERVALS_S = (1, 5, 10)
TASKS = 20

BEGUN = ("segment.write/after", "record.create/after")
"""The durable steps after which a row is on its way to the next task."""
HOP = {
    "inbox.admit/after": "ours: the protocol lets the next task read, its inbox has the row",
    "sink.prepare/before": "Spark's: the query is woken, looks at its inputs and plans the batch",
    "sink.prepare/after": "Spark's: the row is read and staged",
    "record.create/after": "ours: the batch is checked and recorded",
}
"""Durable step → the part of a hop that it ends."""


def hop(heard: Sequence[tuple[str, float]]) -> list[float]:
    """Return how long the parts of a hop took, by what was heard of one row, ms."""
    steps = iter(heard)
    times = [next(at for name, at in steps if name == step) for step in (*BEGUN, *HOP)]
    return [1_000 * (after - before) for before, after in pairwise(times[1:])]


def hops(spark: SparkSession, scratch: Path, rows: int) -> tuple[list[list[float]], Mapping[str, list[int]]]:
    """Send rows through two tasks; return the parts of the hop of each, ms, and what Spark has reported."""
    data, heard, parts = scratch / "rows", list[tuple[str, float]](), list[list[float]]()
    data.mkdir(parents=True)
    start = heard_by(lambda name: heard.append((name, time.perf_counter())), define(data, scratch / "out", 2).start)
    handle = start(spark, storage=str(scratch / "state"))
    for number in range(WARM_UP):
        send_through(data, scratch / "state", number, 2)
    with_reports = reported(spark, lambda: _measure(parts, heard, data, scratch / "state", rows))
    handle.stop()
    handle.wait()
    return parts, with_reports


def _measure(parts: list[list[float]], heard: list[tuple[str, float]], data: Path, state: Path, rows: int) -> None:
    for number in range(WARM_UP, WARM_UP + rows):
        time.sleep(PAUSE_S)
        heard.clear()
        send_through(data, state, number, 2)
        parts.append(hop(list(heard)))


def reported(spark: SparkSession, act: Callable[[], None]) -> Mapping[str, list[int]]:
    """Return what Spark reports of the batches with rows while `act` runs, ms."""
    reports = Reports(more_than=0)
    spark.streams.addListener(reports)
    act()
    time.sleep(PAUSE_S)  # Spark's last reports are on their way
    spark.streams.removeListener(reports)
    return reports.found


def plain(spark: SparkSession, scratch: Path, rows: int) -> Mapping[str, list[int]]:
    """Send rows through a plain query; return what Spark has reported of the batches that count."""
    data = scratch / "rows"
    data.mkdir(parents=True)
    read = spark.readStream.schema("number long, ts timestamp").parquet(str(data)).withWatermark("ts", "1 second")
    writer = read.writeStream.format("parquet").option("checkpointLocation", str(scratch / "progress"))
    query = writer.start(str(scratch / "out"))

    def run(first: int, count: int, pause_s: float) -> None:
        for number in range(first, first + count):
            time.sleep(pause_s)
            send(data, number)
            query.processAllAvailable()

    run(0, WARM_UP, 0)
    found = reported(spark, lambda: run(WARM_UP, rows, PAUSE_S))
    query.stop()
    return found


def to_reader(spark: SparkSession, scratch: Path, interval_s: int, rows: int) -> tuple[list[float], list[float]]:
    """Send rows through one task; return the time from each row's file to its record, and to its output, seconds."""
    data, out, state = scratch / "rows", scratch / "out", scratch / "state"
    data.mkdir(parents=True)
    config = {"checkpoint.interval": f"{interval_s} seconds"}
    handle = define(data, out, 1).start(spark, storage=str(state), config=config)
    recorded, visible = [], []
    for number in range(rows + 2):
        files, (before, _) = len(list(out.glob("*.parquet"))), newest(state, 0)
        began = time.time()
        send(data, number)
        while (found := newest(state, 0))[0] <= before:
            time.sleep(0.01)
        while len(list(out.glob("*.parquet"))) == files:
            time.sleep(0.01)
        if number > 1:
            visible.append(time.time() - began)
            recorded.append(found[1] - began)
        # Rows come at any time between two checkpoints.
        time.sleep(interval_s * (number % rows) / rows)
    handle.stop()
    handle.wait()
    return recorded, visible


def at_rest(spark: SparkSession, scratch: Path, seconds: float) -> float:
    """Return the share of a core that a chain of tasks uses while nothing comes."""
    data = scratch / "rows"
    data.mkdir(parents=True)
    handle = define(data, scratch / "out", TASKS).start(spark, storage=str(scratch / "state"))
    for number in range(5):
        send_through(data, scratch / "state", number, TASKS)
    time.sleep(SETTLE_S)
    share = share_of_a_core(seconds)
    handle.stop()
    handle.wait()
    return share


def text_of_hop(parts: Sequence[Sequence[float]]) -> str:
    lines = [
        f"| {what} | {middle(each):.0f} |" for what, each in zip(HOP.values(), zip(*parts, strict=True), strict=True)
    ]
    whole = sorted(map(sum, parts))
    return f"""\
| a hop of one row | ms |
| --- | ---: |
{chr(10).join(lines)}
| **from record to record**, median | **{middle(whole):.0f}** |
| 95 % within | {whole[len(whole) * 95 // 100]:.0f} |"""


def text_of_batch(theirs: Mapping[str, Sequence[int]], ours: Mapping[str, Sequence[int]]) -> str:
    lines = [
        f"| {what} (`{name}`) | {middle(theirs[name]):.0f} | {middle(ours[name]):.0f} |"
        for name, what in OF_SPARK.items()
    ]
    return f"""\
| a batch of one row, ms | plain | the two tasks |
| --- | ---: | ---: |
{chr(10).join(lines)}"""


def text_of_way(found: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> str:
    lines = [
        f"| {interval} | {middle(recorded):.2f} | {middle(visible):.2f} | {max(visible):.2f} |"
        for interval, (recorded, visible) in found.items()
    ]
    return f"""\
| a checkpoint every, s | to its batch record, median s | visible, median s | visible, at most s |
| ---: | ---: | ---: | ---: |
{chr(10).join(lines)}"""


def main() -> None:
    parser = arguments("Where the time of a single row goes.", runs=20)
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure the idle job")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        scratch = Path(folder)
        parts, ours = hops(spark, scratch / "hops", given.runs)
        text = text_of_hop(parts)
        print(text, flush=True)
        text += "\n\n" + text_of_batch(plain(spark, scratch / "plain", given.runs), ours)
        ways = {every: to_reader(spark, scratch / f"{every}", every, max(given.runs // 2, 1)) for every in INTERVALS_S}
        text += "\n\n" + text_of_way(ways)
        share = at_rest(spark, scratch / "idle", given.seconds)
        text += f"\n\n- {TASKS} tasks in a chain, idle for {given.seconds:.0f} s: {share:.1%} of one core"
        text += f"\n- medians of {given.runs} rows, after {WARM_UP} more\n{where(spark, load_before)}"
    spark.stop()
    publish("latency", text, load_before=load_before, page=not given.no_page, of=PAGE)


if __name__ == "__main__":
    main()
