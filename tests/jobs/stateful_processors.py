"""The sums of each hour by a user's own state and timers, in several ways, and by Spark's own words for them.

All give the rows of `hourly`: the sum and the number of the rows of each key and hour, when the hour has ended.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

Frame = Any
Query = Callable[..., Frame]

HOUR_MS = 3_600_000
SUMS = "k string, end long, v long, n long"

Sums = dict[int, list[int]]
"""The end of an hour, ms → the sum of its rows and their number."""

Variable = tuple[Callable[[], Sums], Callable[[Sums], None]]
"""Reads and writes all that a state variable keeps."""


def with_end(frame: Frame) -> Frame:
    """The end of its hour beside each row."""
    from pyspark.sql import functions as F

    return frame.withColumn("end", F.expr(f"(unix_millis(ts) div {HOUR_MS} + 1) * {HOUR_MS}"))


def hourly(frame: Frame) -> Frame:
    """What the others have to give."""
    from pyspark.sql import functions as F

    return with_end(frame).groupBy("k", "end").agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def timed(query: Query) -> Query:
    """With the end of the hour as a timestamp."""
    return lambda frame: query(frame).selectExpr("k", "timestamp_millis(end) AS ts", "v", "n")


def by_timers(
    kind: str, *, chained: bool = False, pandas: bool = False, mode: str = "append", timed: bool = False
) -> Query:
    """By a processor with a timer at the end of each hour.

    Args:
        kind: of the variable that keeps the sums.
        chained: rows set the first timer of a key, and each that fires sets the next.
        pandas: by transformWithStateInPandas.
        timed: the end is a timestamp, and the event time for what follows in the query.
    """

    def query(frame: Frame) -> Frame:
        keyed, made = with_end(frame).groupBy("k"), _processor(kind, chained=chained, pandas=pandas, timed=timed)
        if timed:
            columns = SUMS.replace("end long", "ts timestamp")
            return keyed.transformWithState(made, columns, mode, "EventTime", eventTimeColumnName="ts")
        run = keyed.transformWithStateInPandas if pandas else keyed.transformWithState
        return run(made, SUMS, mode, "EventTime")

    return query


def add(sums: Sums, end: int, v: int) -> None:
    """Take in a row."""
    before = sums.get(end, [0, 0])
    sums[end] = [before[0] + v, before[1] + 1]


def of_map(handle: Any) -> Variable:
    kept = handle.getMapState("kept", "end long", "v long, n long")

    def read() -> Sums:
        return {end: list(both) for (end,), both in kept.iterator()} if kept.exists() else {}

    def write(sums: Sums) -> None:
        for gone in read().keys() - sums.keys():
            kept.removeKey((gone,))
        for end, both in sums.items():
            kept.updateValue((end,), tuple(both))

    return read, write


def of_list(handle: Any) -> Variable:
    kept = handle.getListState("kept", "end long, v long, n long")

    def read() -> Sums:
        return {end: [v, n] for end, v, n in kept.get()} if kept.exists() else {}

    def write(sums: Sums) -> None:
        if sums:
            kept.put([(end, *both) for end, both in sums.items()])
        else:
            kept.clear()

    return read, write


def of_value(handle: Any) -> Variable:
    kept = handle.getValueState("kept", "text string")

    def read() -> Sums:
        return {int(end): both for end, both in json.loads(kept.get()[0]).items()} if kept.exists() else {}

    def write(sums: Sums) -> None:
        if sums:
            kept.update((json.dumps(sums),))
        else:
            kept.clear()

    return read, write


VARIABLES = {"map": of_map, "list": of_list, "value": of_value}


def _processor(kind: str, *, chained: bool, pandas: bool, timed: bool) -> Any:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Summing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.read, self.write = VARIABLES[kind](handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            given = list(of_frames(rows) if pandas else ((row.end, row.v) for row in rows))
            sums = self.read()
            for end, v in given:
                add(sums, end, v)
            self.write(sums)
            ends = {end for end, _ in given}
            for end in {min(ends)} if chained else ends:
                self.handle.registerTimer(end)
            return iter(())

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            sums, end = self.read(), expiredTimerInfo.getExpiryTimeInMs()
            due = sums.pop(end, None)
            if due is not None:
                self.write(sums)
                yield shown(key[0], end, *due, pandas=pandas, timed=timed)
            if chained and sums:
                self.handle.registerTimer(min(sums))

        def close(self) -> None:
            pass

    return Summing()


def of_frames(frames: Iterator[Any]) -> Iterator[tuple[int, int]]:
    """The end of the hour and the value of each row of pandas' frames."""
    for frame in frames:
        yield from zip(frame["end"].tolist(), frame["v"].tolist(), strict=True)


def shown(k: str, end: int, v: int, n: int, *, pandas: bool, timed: bool) -> Any:
    """A row of the output."""
    from pyspark.sql import Row

    if pandas:
        import pandas as pd

        return pd.DataFrame({"k": [k], "end": [end], "v": [v], "n": [n]})
    at = {"ts": dt.datetime.fromtimestamp(end / 1000, dt.timezone.utc)} if timed else {"end": end}
    return Row(k=k, **at, v=v, n=n)


def by_time_outs(frame: Frame) -> Frame:
    """By applyInPandasWithState, with a time-out at the end of the first hour that is kept."""

    def keep(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        import pandas as pd

        sums: Sums = {int(end): both for end, both in json.loads(state.get[0]).items()} if state.exists else {}
        for end, v in of_frames(frames):
            add(sums, end, v)
        due = [end for end in sums if end <= state.getCurrentWatermarkMs()]
        gone = [(key[0], end, *sums.pop(end)) for end in due]
        if sums:
            state.update((json.dumps(sums),))
            state.setTimeoutTimestamp(min(sums))
        elif state.exists:
            state.remove()
        if gone:
            yield pd.DataFrame(gone, columns=["k", "end", "v", "n"])

    keyed = with_end(frame).groupBy("k")
    return keyed.applyInPandasWithState(keep, SUMS, "kept string", "append", "EventTimeTimeout")
