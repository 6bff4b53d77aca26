"""State in more or fewer partitions: chosen at the first run, changed by a start from a checkpoint or savepoint."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.progress.directory import last_committed
from rekindle.progress.partitions import state_partitions
from rekindle.progress.state_sizes import state_sizes
from rekindle.progress.stored_state import find_state
from rekindle.storage import layout
from rekindle.storage.open import open_store
from tests.jobs.kit import DDL, QUICK, World, committed, rows, until


def counting(frame: Any) -> Any:
    """Rows of each key, by a processor with a variable of each kind and an event-time timer."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            number = T.StructType([T.StructField("n", T.LongType())])
            self.handle = handle
            self.count = handle.getValueState("count", number)
            self.batches = handle.getListState("batches", number)
            self.last = handle.getMapState("last", T.StructType([T.StructField("k", T.StringType())]), number)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            seen = sum(len(frame) for frame in rows)
            if not self.count.exists():
                self.handle.registerTimer(1_893_456_000_000)  # 2030: at the end
            self.count.update(((self.count.get()[0] if self.count.exists() else 0) + seen,))
            self.batches.appendValue((seen,))
            self.last.updateValue(("seen",), (seen,))
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            import pandas as pd

            in_batches = sum(n for (n,) in self.batches.get())
            yield pd.DataFrame({"k": [key[0]], "n": [self.count.get()[0]], "in_batches": [in_batches]})

    columns = "k string, n long, in_batches long"
    return frame.groupBy("k").transformWithStateInPandas(Counting(), columns, "Append", "EventTime")


def hourly(frame: Any) -> Any:
    """Windows behind a deduplication."""
    return frame.dropDuplicates(["ts", "k"]).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))


def pairs(frame: Any) -> Any:
    """A stream-stream outer join."""
    others = frame.filter("k <> 'a'").select(F.col("ts").alias("its_ts"), F.col("k").alias("its_k"))
    near = F.expr("k = its_k AND its_ts BETWEEN ts AND ts + INTERVAL 3 MINUTES")
    return frame.join(others, near, "leftOuter").select("ts", "k", "its_ts")


def sessions(frame: Any) -> Any:
    """Session windows."""
    return frame.groupBy(F.session_window("ts", "20 minutes"), "k").agg(F.count("*").alias("n"))


def once_in_a_while(frame: Any) -> Any:
    """A deduplication that forgets."""
    return frame.dropDuplicatesWithinWatermark(["k"])


FUNCTIONS = {one.__name__: one for one in (hourly, counting, pairs, sessions, once_in_a_while)}


def job_of(world: World, uids: Sequence[str]) -> rk.Job:
    """No time passes before the end: all stays in state until then."""
    job = rk.Job("stateful")
    live = job.source("live", world.stream(), event_time="ts", watermark="100 days")
    for uid in uids:
        job.sink(f"{uid}_out", job.task(live, uid=uid)(FUNCTIONS[uid]), rk.sinks.Parquet(world.root / "outs" / uid))
    return job


def as_text(row: dict[str, Any]) -> str:
    """The same for a time of Python's, of pandas, with a zone and without: all are UTC."""
    plain = {name: value.isoformat()[:19] if hasattr(value, "isoformat") else value for name, value in row.items()}
    return str(sorted(plain.items()))


def outputs(world: World, uids: Sequence[str]) -> dict[str, Counter[str]]:
    return {uid: Counter(map(as_text, committed(world.root / "outs" / uid))) for uid in uids}


def expected(spark: SparkSession, world: World, uids: Sequence[str]) -> dict[str, Counter[str]]:
    """What Spark makes of all the data in one batch; and of each key, all its rows."""
    frame = spark.read.schema(DDL).parquet(str(world.live))
    in_a_batch = {hourly, pairs, sessions}
    found = {}
    for uid in uids:
        if FUNCTIONS[uid] in in_a_batch:
            FUNCTIONS[uid](frame).write.parquet(str(world.root / "expected" / uid))
            found[uid] = Counter(map(as_text, committed(world.root / "expected" / uid)))
    keys = Counter(key for _, key, _ in world.data)
    counts = ({"k": key, "n": count, "in_batches": count} for key, count in keys.items())
    firsts = (dict(zip(("ts", "k", "v"), min(row for row in world.data if row[1] == key), strict=True)) for key in keys)
    others = {"counting": Counter(map(as_text, counts)), "once_in_a_while": Counter(map(as_text, firsts))}
    return {uid: found.get(uid) or others[uid] for uid in uids}


def state_of(spark: SparkSession, progress_dir: str) -> dict[str, Counter[str]]:
    """All that a query has in its state, as Spark's own data source reads it."""
    stores = spark.read.format("state-metadata").load(progress_dir).collect()
    found = {}
    for store in stores:
        variables = ("count", "batches", "last", None) if "transformWithState" in store.operatorName else ("",)
        for variable in variables:
            reader = spark.read.format("statestore").option("operatorId", store.operatorId)
            if variable:
                reader = reader.option("stateVarName", variable)
            elif variable is None:
                reader = reader.option("readRegisteredTimers", True)
            else:
                reader = reader.option("storeName", store.stateStoreName)
            rows = reader.load(progress_dir).drop("partition_id").collect()
            found[f"{store.operatorId} {store.stateStoreName} {variable}"] = Counter(map(str, rows))
    return found


def state_in(spark: SparkSession, savepoint: str, uid: str) -> dict[str, Counter[str]]:
    """The same of a savepoint, by `rk.state`; the stores of a join, which are two for each side, are not told apart."""
    found = {}
    for operator in find_state(savepoint).task(uid).operators():
        for part in operator.parts or (None,):
            frame = rk.state(savepoint, uid, operator=operator.number, part=part, spark=spark)
            name = {None: "", "timers": None}.get(part, part)
            rows = frame.drop("partition_id").collect()
            found[f"{operator.number} default {name}"] = Counter(map(str, rows))
    return found


def progress_dir_of(uid: str) -> str:
    return layout.spark_progress_dir(layout.subtask("stateful", uid, 0, 1))


def states_of(spark: SparkSession, storage: str, uids: Sequence[str]) -> dict[str, dict[str, Counter[str]]]:
    return {uid: state_of(spark, f"file://{storage}/{progress_dir_of(uid)}") for uid in uids}


def rows_told(storage: str, uid: str) -> dict[str, int | None]:
    """How many rows `inspect` says each operator keeps."""
    store = open_store(storage)
    batch = last_committed(store, progress_dir_of(uid))
    return {f"{one.operator} default ": one.rows for one in state_sizes(store, progress_dir_of(uid), batch)}


def partitions(storage: str, uids: Sequence[str]) -> set[int | None]:
    return {state_partitions(open_store(storage), progress_dir_of(uid)) for uid in uids}


def run_to(handle: rk.JobHandle, files: int) -> None:
    def has_read(task: Any) -> bool:
        position = task.inputs["live"].position
        return position is not None and position["logOffset"] >= files - 1

    until(lambda: handle.status().tasks and all(map(has_read, handle.status().tasks)), 300)


def moved(spark: SparkSession, world: World, uids: Sequence[str], counts: Sequence[int]) -> None:
    """A job begins with its state in so many partitions, and is moved, each time into others; nothing is left behind.

    Each stop leaves a savepoint; the storage that it was made of is deleted before the next one is made of it.
    """
    number, first, *others = 0, *counts
    spark = spark.newSession()
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "true")
    storage = str(world.root / "storage0")
    world.add_live(rows(0, 90), rows(1, 60))
    handle = job_of(world, uids).start(spark, storage=storage, config=QUICK | {"state.partitions": first})
    run_to(handle, 2)
    for number, count in enumerate(others, 1):
        handle.stop(savepoint=str(world.root / "saves"))
        saved = handle.wait().savepoint
        assert partitions(storage, uids) == {counts[number - 1]}
        state = states_of(spark, storage, uids)
        assert all(all(one.values()) for one in state.values()), "there is something in each of them"
        told = rows_told(storage, "hourly")
        assert told == {store: rows.total() for store, rows in state["hourly"].items()}
        shutil.rmtree(storage)
        for uid in {"hourly", "counting", "sessions", "once_in_a_while"}.intersection(uids):
            assert state_in(spark, str(saved), uid) == state[uid]

        storage = str(world.root / f"storage{number}")
        handle = job_of(world, uids).start(
            spark,
            storage=storage,
            config=QUICK | {"state.partitions": count},
            restore=saved,
            allow_shared_target=True,
        )
        handle.stop()
        assert handle.wait().state == "STOPPED"
        assert partitions(storage, uids) == {count}
        assert states_of(spark, storage, uids) == state, "it is laid out differently, and the same"
        # In place it goes on without a word of the number, or with the same.
        world.add_live(rows(1.5 + number, 60))
        handle = job_of(world, uids).start(spark, storage=storage, config=QUICK)
        run_to(handle, 2 + number)
    assert partitions(storage, uids) == {others[-1]}
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert outputs(world, uids) == expected(spark, world, uids)


def test_a_savepoint_goes_on_elsewhere_with_its_state_in_more_partitions_and_nothing_is_lost(
    spark: SparkSession, world: World
) -> None:
    moved(spark, world, ["hourly", "counting"], [2, 5])
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "the session is as it was"


@pytest.mark.slow
def test_the_state_of_each_stateful_operator_goes_into_more_partitions_and_into_fewer(
    spark: SparkSession, world: World
) -> None:
    moved(spark, world, list(FUNCTIONS), [3, 5, 2])


def test_what_cannot_be_changed_is_refused(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 90))
    provider = "spark.sql.streaming.stateStore.providerClass"
    session = spark.newSession()
    session.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    handle = job_of(world, ["hourly"]).start(session, storage=world.storage, config=QUICK | {"state.partitions": 3})
    run_to(handle, 1)
    handle.stop()
    assert handle.wait().state == "STOPPED"
    latest = str(handle.status().latest_checkpoint)
    begin = partial(job_of(world, ["hourly"]).start, spark, storage=world.storage)

    with pytest.raises(RestoreError) as refused:
        begin(config=QUICK | {"state.partitions": 4})
    assert refused.value.code == "STATE_PARTITIONS_FIXED"
    assert (refused.value.parameters["found"], refused.value.parameters["wanted"]) == (3, 4)

    with pytest.raises(RestoreError) as refused:
        begin(config=QUICK | {"state.partitions": 4}, restore=latest)
    assert refused.value.code == "STATE_PARTITIONS_UNCHANGEABLE"
    assert "UNSUPPORTED_PROVIDER" in str(refused.value)

    # What was refused has left nothing behind that anybody goes on from.
    handle = begin(config=QUICK | {"state.partitions": 3})
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert outputs(world, ["hourly"]) == expected(spark, world, ["hourly"])
