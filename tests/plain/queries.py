"""Queries that run without Rekindle, each in a folder of its own, and what they read. Runs on PySpark 3.5 too.

`make_checkpoints.py` runs them on several versions of Spark and keeps what they leave behind; the tests flush and adopt
that with the version that is installed.
"""

from __future__ import annotations

import json
import os
from typing import Any

from pyspark.sql import functions as F

SCHEMA = "ts timestamp, k string, v long"

ROWS = {
    "0.json": [("00:05", "a", 1), ("00:10", "b", 2), ("00:50", "a", 4)],
    "1.json": [("01:20", "a", 8), ("01:30", "b", 16), ("02:40", "b", 32)],
    "2.json": [("03:10", "a", 64), ("03:15", "c", 128)],
    "3.json": [("00:20", "a", 1000), ("02:50", "b", 64), ("03:20", "c", 128), ("05:20", "a", 256)],
}
"""What is read, a file a batch: time of the first of January 2025, key, value. The last file begins with a late row."""

DELAY = "10 minutes"


def put(folder: str, *names: str) -> None:
    """Write files of `ROWS` where the queries read; the later the name, the later the file."""
    os.makedirs(f"{folder}/in", exist_ok=True)
    for name in names:
        rows = [{"ts": f"2025-01-01T{time}:00Z", "k": k, "v": v} for time, k, v in ROWS[name]]
        with open(f"{folder}/in/.{name}", "w") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        written = 1_735_689_600 + 60 * int(name[0])
        os.utime(f"{folder}/in/.{name}", (written, written))
        os.rename(f"{folder}/in/.{name}", f"{folder}/in/{name}")


def stream(spark: Any, folder: str) -> Any:
    """The rows as they come."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{folder}/in")


def watermarked(rows: Any) -> Any:
    """The rows with the watermark that the queries have, which all look alike behind it."""
    return rows.withWatermark("ts", DELAY)


def windows(rows: Any) -> Any:
    """Sums for each hour and key."""
    return hourly(watermarked(rows))


def hourly(rows: Any) -> Any:
    """The same, with the watermark below."""
    return rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))


def chained(rows: Any) -> Any:
    """Windows over windows."""
    return windows(rows).groupBy(F.window("window", "2 hours")).agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def sessions(rows: Any) -> Any:
    """Sums for each session of a key."""
    by = F.session_window("ts", "30 minutes")
    return rows.withWatermark("ts", DELAY).groupBy(by, "k").agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def joined(rows: Any) -> Any:
    """Each row with those of the same key within the hour that follows, or alone."""
    return near(watermarked(rows), second(rows).withWatermark("ts2", DELAY))


def second(rows: Any) -> Any:
    """The rows under other names."""
    return rows.select(F.col("ts").alias("ts2"), F.col("k").alias("k2"), F.col("v").alias("v2"))


def near(left: Any, right: Any) -> Any:
    """The join, with the watermarks below."""
    return left.join(right, F.expr("k = k2 AND ts2 > ts AND ts2 <= ts + INTERVAL 1 HOUR"), "leftOuter")


def timed(rows: Any) -> Any:
    """For each key how many rows came, an hour after the last of them: a user's own state with a timeout."""
    import pandas as pd

    def count(key: Any, frames: Any, state: Any) -> Any:
        if state.hasTimedOut:
            (seen,) = state.get
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [seen]})
            return
        seen = state.get[0] if state.exists else 0
        latest = 0
        for frame in frames:
            seen += len(frame)
            latest = max(latest, int(frame["ts"].max().timestamp() * 1000))
        state.update((seen,))
        state.setTimeoutTimestamp(max(latest, state.getCurrentWatermarkMs()) + 3_600_000)

    return (
        watermarked(rows)
        .groupBy("k")
        .applyInPandasWithState(count, "k string, n long", "n long", "append", "EventTimeTimeout")
    )


def timers(rows: Any) -> Any:
    """The same with transformWithState, which Spark has since 4.0."""
    return counted(watermarked(rows))


def counted(rows: Any, mode: str = "append") -> Any:
    """The same, with the watermark below."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.seen = handle.getValueState("seen", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 (Spark's names)
            seen = self.seen.get()[0] if self.seen.exists() else 0
            for frame in rows:
                seen += len(frame)
                latest = int(frame["ts"].max().timestamp() * 1000)
                for timer in list(self.handle.listTimers()):
                    self.handle.deleteTimer(timer)
                self.handle.registerTimer(max(latest, timerValues.getCurrentWatermarkInMs()) + 3_600_000)
            self.seen.update((seen,))
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            (seen,) = self.seen.get()
            self.seen.clear()
            yield pd.DataFrame({"k": [key[0]], "n": [seen]})

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithStateInPandas(Count(), "k string, n long", mode, "eventTime")


RELAYED = [{"k": key, "n": 3} for key in "ab"]
"""What `relayed` says, at its end."""


def relayed(rows: Any) -> Any:
    """Each key's first row sets a timer, which sets another, and that a third, which says so."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Relay(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.fired = handle.getValueState("fired", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 (Spark's names)
            if not self.fired.exists():
                self.fired.update((0,))
                self.handle.registerTimer(1_893_456_000_000)  # 2030: in the flush
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            (fired,) = self.fired.get()
            self.fired.update((fired + 1,))
            if fired + 1 < 3:
                self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + 1)
                return iter(())
            return iter((pd.DataFrame({"k": [key[0]], "n": [fired + 1]}),))

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithStateInPandas(Relay(), "k string, n long", "append", "eventTime")
