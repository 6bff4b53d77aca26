"""A pipeline of several tasks: orders from a history and a live stream, enriched once, read by three tasks.

    history (Files) ─┐                      ┌─► revenue    per hour and category (windows)
                     ├─► enrich (products) ─┼─► sessions   of each user (transformWithState, event-time timers)
    live (Stream) ───┘                      └─► archive    every order (stateless)

Each of the three has a sink of its own; all are committed by the same checkpoints. `enrich` is computed once, and its
output is kept in channels. The history's files are read in any order: no row is late on that account, in any task.

    python examples/orders.py            makes orders, runs the pipeline, drains it, and prints what came out
    rekindle run examples/orders.py      runs it on the orders below ORDERS_DATA, until it is stopped

Everything about order number `n` follows from `n` alone, so that the result can be computed in other ways too.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import rekindle as rk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEGIN_MS = 1_735_689_600_000
"""2025-01-01T00:00:00Z, the time of order 0."""
STEP_MS = 12_000
"""Event time between one order and the next."""
USERS, PRODUCTS = 40, 12
SESSION_GAP_MS = 15 * 60_000
"""A user who has ordered nothing for so long begins a new session."""
CATEGORIES = ("books", "garden", "music")
HISTORY_ORDERS, HISTORY_FILES = 6_000, 6
LIVE_ORDERS, LIVE_FILES = 1_200, 4

ORDERS = pa.schema(
    [
        ("order", pa.int64()),
        ("user", pa.int64()),
        ("product", pa.int64()),
        ("pieces", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def orders(first: int, last: int) -> pa.Table:
    """Make orders `first` to `last` - 1; schema `ORDERS`. Users come and go, so that there are sessions."""
    n = np.arange(first, last, dtype=np.int64)
    user = (n // 150 * 7 + _below(n, 1, 6)) % USERS
    times = (BEGIN_MS + n * STEP_MS) * 1_000
    return pa.table([n, user, _below(n, 2, PRODUCTS), 1 + _below(n, 3, 4), times], schema=ORDERS)


def _below(n: np.ndarray[Any, np.dtype[np.int64]], salt: int, limit: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    mixed = (n.astype(np.uint64) + np.uint64(salt << 40)) * _MIX
    mixed ^= mixed >> np.uint64(29)
    scaled: np.ndarray[Any, np.dtype[np.int64]] = ((mixed * _MIX) >> np.uint64(33)).astype(np.int64) % limit
    return scaled


def products() -> list[tuple[int, str, int]]:
    """Return number, category and price in cents of each product: the table that `enrich` joins."""
    return [(number, CATEGORIES[number % len(CATEGORIES)], 250 * (number + 1)) for number in range(PRODUCTS)]


def write_history(folder: Path, count: int = HISTORY_ORDERS, files: int = HISTORY_FILES) -> None:
    """Write the first `count` orders; the files' names are in no order of time."""
    for number in range(files):
        part = orders(count * number // files, count * (number + 1) // files)
        drop(folder, f"{number * 5 % files}-{number}.parquet", part)


def write_live(folder: Path, first: int = HISTORY_ORDERS, count: int = LIVE_ORDERS, files: int = LIVE_FILES) -> None:
    """Write `count` orders from `first` on, as the live stream brings them."""
    for number in range(files):
        part = orders(first + count * number // files, first + count * (number + 1) // files)
        drop(folder, f"{first:09d}-{number:04d}.parquet", part)


def drop(folder: Path, name: str, table: pa.Table) -> None:
    """Put a file there at once, as a file stream wants it."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


SESSION_COLUMNS = ("user", "begin", "end", "orders", "revenue")


def sessions_of(orders: DataFrame) -> DataFrame:
    """Compute each user's sessions; they come out once event time has passed their end and the gap after it.

    The processor is defined in here, so that it travels to Spark's workers itself: they need not have this file.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import LongType, StructField, StructType

    class Sessions(StatefulProcessor):
        """Sessions of a user: orders that lie no further than `SESSION_GAP_MS` apart, in whatever order they come."""

        def init(self, handle: Any) -> None:
            fields = ("begin", "end", "orders", "revenue")
            self._handle = handle
            self._open = handle.getListState("open", StructType([StructField(name, LongType()) for name in fields]))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            found = [tuple(session) for session in self._open.get()] if self._open.exists() else []
            for frame in rows:
                found += [(at, at, 1, revenue) for at, revenue in zip(frame["at"], frame["revenue"], strict=True)]
            merged: list[tuple[int, ...]] = []
            for session in sorted(tuple(map(int, session)) for session in found):
                if merged and session[0] - merged[-1][1] <= SESSION_GAP_MS:
                    before = merged.pop()
                    sums = (before[2] + session[2], before[3] + session[3])
                    merged.append((before[0], max(before[1], session[1]), *sums))
                else:
                    merged.append(session)
            self._open.put(merged)
            for _, end, _, _ in merged:
                self._handle.registerTimer(end + SESSION_GAP_MS)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
            import pandas as pd

            known = [tuple(session) for session in self._open.get()] if self._open.exists() else []
            over = [
                session for session in known if session[1] + SESSION_GAP_MS <= timerValues.getCurrentWatermarkInMs()
            ]
            left = [session for session in known if session not in over]
            if left:
                self._open.put(left)
            else:
                self._open.clear()
            if over:
                yield pd.DataFrame([(key[0], *session) for session in over], columns=list(SESSION_COLUMNS))

    users = orders.select("user", "revenue", F.unix_millis("ts").alias("at"), "ts").groupBy("user")
    columns = ", ".join(f"{name} long" for name in SESSION_COLUMNS)
    found = users.transformWithStateInPandas(Sessions(), columns, "Append", "EventTime")
    times = [F.timestamp_millis(name).alias(name) for name in ("begin", "end")]
    return found.select("user", *times, "orders", "revenue")


def define(data: Path, out: Path) -> rk.Job:
    """Define the pipeline over the orders below `data`; its sinks write below `out`."""
    pipeline = rk.Job("orders")
    history = pipeline.source("history", rk.Files(str(data / "history")), event_time="ts")
    live_folder = str(data / "live")
    live = pipeline.source(
        "live",
        rk.Stream(
            lambda spark: (
                spark.readStream.schema("order long, user long, product long, pieces long, ts timestamp")
                .option("maxFilesPerTrigger", 1)
                .parquet(live_folder)
            )
        ),
        event_time="ts",
        watermark="1 minute",
    )

    @pipeline.task(history, live, event_time="ts")
    def enrich(history: DataFrame, live: DataFrame) -> DataFrame:
        table = history.sparkSession.createDataFrame(products(), "product long, category string, cents long")
        known = history.unionByName(live).join(F.broadcast(table), "product")
        return known.select("order", "user", "category", (F.col("pieces") * F.col("cents")).alias("revenue"), "ts")

    @pipeline.task(enrich)
    def revenue(orders: DataFrame) -> DataFrame:
        hourly = orders.groupBy(F.window("ts", "1 hour"), "category")
        sums = hourly.agg(F.count("*").alias("orders"), F.sum("revenue").alias("revenue"))
        return sums.select(F.col("window.start").alias("hour"), "category", "orders", "revenue")

    @pipeline.task(enrich)
    def sessions(orders: DataFrame) -> DataFrame:
        return sessions_of(orders)

    @pipeline.task(enrich)
    def archive(orders: DataFrame) -> DataFrame:
        return orders

    for task in (revenue, sessions, archive):
        pipeline.sink(f"{task.uid}_files", task, rk.sinks.Parquet(out / task.uid))
    return pipeline


job = define(Path(os.environ.get("ORDERS_DATA", "orders-data")), Path(os.environ.get("ORDERS_OUT", "orders-out")))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_history(root / "history")
        write_live(root / "live", count=LIVE_ORDERS // 2)
        handle = define(root, root / "out").start(
            storage=str(root / "state"),
            config={"checkpoint.interval": "2 seconds"},
            spark_config={"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"},
        )
        # The second half of the live orders comes while the pipeline runs.
        write_live(root / "live", first=HISTORY_ORDERS + LIVE_ORDERS // 2, count=LIVE_ORDERS // 2)
        while handle.wait(0.1) is None and not _is_read(handle):
            time.sleep(0.1)
        handle.stop(drain=True)
        result = handle.wait()
        assert result is not None
        print(f"{result.state}, {HISTORY_ORDERS + LIVE_ORDERS} orders")
        _show(root / "out")


def _is_read(handle: Any) -> bool:
    inputs = next(task.inputs for task in handle.status().tasks if task.uid == "enrich")
    live = inputs["live"].position
    return inputs["history"].ended and live is not None and live["logOffset"] >= 2 * LIVE_FILES - 1


def _show(out: Path) -> None:
    hours, found = pq.read_table(out / "revenue"), pq.read_table(out / "sessions")
    by_category = hours.group_by("category").aggregate([("orders", "sum"), ("revenue", "sum")]).sort_by("category")
    print(f"{'category':10}{'orders':>8}{'revenue':>14}")
    for row in by_category.to_pylist():
        print(f"{row['category']:10}{row['orders_sum']:8}{row['revenue_sum'] / 100:14,.2f}")
    print(f"{found.num_rows} sessions, the dearest {pc.max(found['revenue']).as_py() / 100:,.2f}")
    print(f"{pq.read_table(out / 'archive').num_rows} orders in the archive")


if __name__ == "__main__":
    main()
