"""A history as the initial state of a transformWithState: it counts once, whatever becomes of the first batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, World, committed, rows, until

pytestmark = pytest.mark.since("4.1")

Frame = Any


def sums(broken: Path) -> Any:
    """A processor that emits the sum of each key so far. It fails while there is a file `broken`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Sums(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.sum = handle.getValueState("sum", "v long")

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
            self.sum.update((initialState["v"],))

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            if broken.exists():
                raise RuntimeError("not yet")
            before = self.sum.get()[0] if self.sum.exists() else 0
            self.sum.update((before + sum(row["v"] for row in rows),))
            yield Row(k=key[0], v=self.sum.get()[0])

        def close(self) -> None:
            pass

    return Sums()


def job(world: World, broken: Path, *, from_history: bool = True) -> rk.Job:
    made = rk.Job("sums")
    live = made.source("live", world.stream(), event_time="ts", watermark="4 seconds")

    @made.task(live, uid="sums")
    def count(live: Frame) -> Frame:
        history = live.sparkSession.read.schema(DDL).parquet(str(world.history))
        before = history.groupBy("k").agg(F.sum("v").alias("v")).groupBy("k")
        first = {"initialState": before} if from_history else {}
        return live.groupBy("k").transformWithState(sums(broken), "k string, v long", "append", "none", **first)

    made.sink("out", count, rk.sinks.Parquet(world.out))
    return made


def test_a_history_as_initial_state_counts_once(spark: SparkSession, world: World) -> None:
    """The first batch fails once, a savepoint is resumed from elsewhere, the history leaves the query and returns."""
    broken = world.root / "broken"
    broken.touch()
    world.add_history(rows(0, 30), rows(1, 30))
    world.add_live(rows(2, 9))
    handle = job(world, broken).start(spark, storage=world.storage, config=QUICK)
    until(lambda: handle.status().restarts >= 1)
    broken.unlink()
    until(lambda: committed(world.out))
    handle.stop(savepoint=str(world.root / "saves"))
    stopped = handle.wait()
    assert stopped is not None

    restore = stopped.savepoint
    for new, from_history in (("d", True), ("e", False), ("f", True)):
        world.add_live(rows(ord(new), 9, f"bc{new}"))
        handle = job(world, broken, from_history=from_history).start(
            spark, storage=f"{world.storage}-2", restore=restore, config=QUICK, allow_shared_target=True
        )
        restore = None
        until(lambda new=new, handle=handle: handle.wait(0) or new in sums_of(world))
        handle.stop()
        handle.wait()
        keys = {key for _, key, _ in world.data}
        assert sums_of(world) == {key: sum(v for _, one, v in world.data if one == key) for key in keys}


def sums_of(world: World) -> dict[str, int]:
    """Return the last sum of each key that was put out."""
    found: dict[str, int] = {}
    for row in committed(world.out):
        found[row["k"]] = max(row["v"], found.get(row["k"], 0))
    return found
