"""State of each operator written again as a function has changed it: read back by Spark's reader, and gone on from."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from rekindle.errors import RestoreError
from rekindle.progress.copies import copy_without_rows
from rekindle.progress.stored_state import StoredTaskState, find_state
from rekindle.spark.state import state_frame
from rekindle.state_rewriting import can_rewrite, prepare
from rekindle.storage.folder import Folder
from tests.docs.test_docs import ROOT, blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark reads state since 4.0"),
]

SCHEMA = "k long, s string, ts timestamp"


@pytest.fixture(autouse=True)
def _where_spark_can(spark: SparkSession) -> None:
    if not can_rewrite(spark):
        pytest.skip("this Spark cannot write state")


class Query:
    """A plain query over a folder of rows, and its checkpoint location."""

    schema: Any = SCHEMA

    def __init__(self, spark: SparkSession, root: Path, make: Callable[[DataFrame], DataFrame], mode: str) -> None:
        self.spark = spark
        self.root = root
        self.make = make
        self.mode = mode
        self.folder = str(root / "first")

    def add(self, *rows: tuple[int, str, int]) -> None:
        """Write a file of keys, names and seconds."""
        begin = dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc)
        times = [(k, s, begin + dt.timedelta(seconds=second)) for k, s, second in rows]
        self.spark.createDataFrame(times, SCHEMA).coalesce(1).write.mode("append").parquet(str(self.root / "in"))

    def run(self, **trigger: bool) -> list[Row]:
        """Run it until it has read all, or as `trigger` says; return the rows it emits."""
        found: list[Row] = []
        trigger = trigger or {"availableNow": True}
        source = self.spark.readStream.schema(self.schema).parquet(str(self.root / "in")).withWatermark("ts", "1 hour")
        writer = self.make(source).writeStream.outputMode(self.mode)
        writer = writer.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        query = writer.option("checkpointLocation", self.folder).trigger(**trigger).start()
        query.awaitTermination()
        return found

    def run_once(self) -> list[Row]:
        """Run one batch: with times of processing there is always another one to run."""
        return self.run(once=True)

    def state(self, part: str | None = None) -> DataFrame:
        """Return the state that it has."""
        kept = find_state(self.folder).task(None)
        (operator,) = kept.operators(0)
        return state_frame(self.spark, kept, operator, part)

    def edit(self, fn: Callable[[DataFrame], DataFrame], part: str | None = None, *, evolve: bool = False) -> None:
        """Continue in another folder, with the state that `fn` makes of it."""
        kept = find_state(self.folder).task(None)
        (operator,) = kept.operators(0)
        prepared = prepare(self.spark, kept, operator, part, fn, evolve=evolve)
        target = f"{kept.folder}-edited"
        copy_without_rows(Folder(kept.store, kept.folder), Folder(kept.store, target), kept.batch, 0)
        prepared.write(StoredTaskState(store=kept.store, folder=target, batch=kept.batch))
        self.folder += "-edited"

    def refused(self, fn: Callable[[DataFrame], Any], part: str | None = None) -> str:
        """Return why such a state is refused."""
        with pytest.raises(RestoreError) as refused:
            self.edit(fn, part)
        assert refused.value.code == "STATE_REWRITE_REFUSED"
        return str(refused.value.parameters["reason"])


def names(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.asDict(recursive=True).items() if name != "partition_id"}


def test_an_aggregate_is_changed_loses_keys_and_gets_new_ones(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(
        spark, tmp_path, lambda rows: rows.groupBy("k").agg(F.count("*").alias("n"), F.max("s"), F.max("ts")), "update"
    )
    query.add(*((k, f"n{k}", k) for k in range(20)))
    query.run()
    assert query.state().select("value.*").columns == ["count", "max", "max_2"]

    for fn, reason in (
        (lambda state: state.select("key"), "value is missing"),
        (lambda state: state.withColumn("more", F.lit(1)), "more is not known"),
        (lambda state: state.withColumn("value", F.col("value").dropFields("max")), "value.max is missing"),
        (lambda state: state.withColumn("value", F.col("value").withField("count", F.lit(1.5))), "double in place of"),
        (lambda state: state.union(state.where("key.k = 3")), 'a key comes twice, for example {"k":3}'),
        (lambda state: state.withColumn("key", F.when(F.col("key.k") != 3, F.col("key"))), "key is null"),
        (lambda state: state.withColumn("value", F.when(F.col("key.k") != 3, F.col("value"))), "value is null"),
        (lambda state: state.withColumn("value", F.raise_error("stop").cast(state.schema["value"].dataType)), "stop"),
        (lambda state: "nothing", "str in place of a DataFrame"),
    ):
        assert reason in query.refused(fn)

    def fn(state: DataFrame) -> DataFrame:
        rows = state.where("key.k % 2 = 0")
        changed = F.col("value").withField("count", F.when(F.col("key.k") == 4, 1000).otherwise(F.col("value.count")))
        new = rows.where("key.k < 10").withColumn("key", F.col("key").withField("k", F.col("key.k") + 100))
        return rows.withColumn("value", changed).unionByName(new)

    query.edit(fn)
    found = {row["key"]["k"]: (row["value"]["count"], row["value"]["max"]) for row in query.state().collect()}
    assert found == {
        **{k: (1000 if k == 4 else 1, f"n{k}") for k in range(0, 20, 2)},
        **{k + 100: (1, f"n{k}") for k in range(0, 10, 2)},
    }
    query.add((4, "z", 0), (5, "z", 0), (102, "z", 0), (2, "a", 0))
    assert {row["k"]: (row["n"], row["max(s)"]) for row in query.run()} == {
        4: (1001, "z"),
        5: (1, "z"),
        102: (2, "z"),
        2: (2, "n2"),
    }

    query.edit(lambda state: state.where("key.k < 0"))
    assert query.state().isEmpty()
    query.add((4, "z", 0))
    assert [row["n"] for row in query.run()] == [1]
    alone = F.struct(F.lit(7).alias("k")).alias("key")
    kept = F.struct(F.lit(70).alias("count"), F.lit("m").alias("max"), F.lit(None).alias("max_2")).alias("value")
    query.edit(lambda state: spark.range(1).select(alone, kept))
    query.add((7, "z", 0))
    assert [row["n"] for row in query.run()] == [71]


def test_an_aggregate_gets_another_column_loses_one_and_has_one_widened(spark: SparkSession, tmp_path: Path) -> None:
    small = F.max(F.col("k").cast("int")).alias("top")
    query = Query(spark, tmp_path, lambda rows: rows.groupBy("s").agg(F.count("*").alias("n"), small), "update")
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    total = F.col("value").dropFields("count").withField("max", F.col("value.max").cast("long"))
    total = total.withField("sum", F.lit(1000).cast("long"))
    assert "value.sum is not known" in query.refused(lambda state: state.withColumn("value", total))
    query.edit(lambda state: state.withColumn("value", total), evolve=True)
    query.make = lambda rows: rows.groupBy("s").agg(F.max("k").alias("top"), F.sum("k").alias("sum"))
    query.add((2**40, "a", 0), (7, "b", 0))
    assert {(row["s"], row["top"], row["sum"]) for row in query.run()} == {("a", 2**40, 2**40 + 1000), ("b", 7, 7)}


def test_the_page_begins_with_history_and_adds_a_sum(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    table = str(tmp_path / "counts-of-last-year")  # a relative name is below the folder that the JVM was started in
    for code in blocks(ROOT / "docs/state.md", "python"):
        defining = re.sub(r"^(rk\.|edited|print|saved|import rekindle).*$", "", code, flags=re.MULTILINE)
        exec(defining.replace("counts-of-last-year", table), names)

    def grouped(rows: DataFrame) -> Any:
        return rows.withColumnRenamed("k", "auction").groupBy(F.window("ts", "1 hour"), "auction")

    query = Query(spark, tmp_path, lambda rows: grouped(rows).agg(F.count("*").alias("n")), "update")
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    known = query.state().select("key.window", "key.auction", F.lit(1000).cast("long").alias("count"))
    new = known.where("auction = 1").withColumn("auction", F.lit(5).cast("long"))
    known.unionByName(new).write.parquet(table)
    query.edit(names["with_history"])
    query.edit(names["with_sum"], evolve=True)
    query.make = lambda rows: grouped(rows).agg(F.count("*").alias("n"), F.sum("auction").alias("sum"))
    query.add((1, "a", 0), (5, "a", 0), (6, "a", 0))
    assert {(row["auction"], row["n"], row["sum"]) for row in query.run()} == {(1, 2, 1), (5, 1001, 5), (6, 1, 6)}


def test_a_deduplication_forgets_keys_and_knows_others(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda rows: rows.dropDuplicates(["k", "s"]), "append")
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    new = F.struct(F.lit(3).alias("k"), F.lit("a").alias("s")).alias("key")
    query.edit(lambda state: state.select("key").where("key.k = 1").union(spark.range(1).select(new)))
    query.add((1, "a", 0), (2, "a", 0), (3, "a", 0), (3, "b", 0))
    assert {(row["k"], row["s"]) for row in query.run()} == {(2, "a"), (3, "b")}


def test_a_deduplication_within_the_watermark_forgets_keys(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda rows: rows.dropDuplicatesWithinWatermark(["k"]), "append")
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    query.edit(lambda state: state.where("key.k = 1"))
    query.add((1, "b", 0), (2, "b", 0))
    assert {(row["k"], row["s"]) for row in query.run()} == {(2, "b")}


def test_one_sum_over_all_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda rows: rows.groupBy().agg(F.sum("k").alias("sum")), "update")
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    query.edit(lambda state: state.withColumn("value", F.struct(F.lit(10).alias("sum"))))
    query.add((1, "b", 0))
    assert [row["sum"] for row in query.run()] == [11]


def test_sessions_are_changed_and_must_hold_their_keys(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(
        spark,
        tmp_path,
        lambda rows: rows.groupBy(F.session_window("ts", "10 minutes"), "k").agg(F.count("*").alias("n")),
        "append",
    )
    query.add((1, "a", 0), (2, "a", 0), (3, "a", 0))
    query.run()
    other = F.col("value").withField("k", F.lit(7).cast("long"))
    assert "holds another key" in query.refused(lambda state: state.withColumn("value", other))
    moved = F.col("key").withField("sessionStartTime", F.col("key.sessionStartTime") + F.expr("INTERVAL 1 SECOND"))
    assert "another start" in query.refused(lambda state: state.withColumn("key", moved))

    def fn(state: DataFrame) -> DataFrame:
        rows = state.where("key.k != 2").withColumn("value", F.col("value").withField("count", F.lit(10)))
        new = rows.where("key.k = 1").withColumn("key", F.col("key").withField("k", F.lit(9)))
        return rows.unionByName(new.withColumn("value", F.col("value").withField("k", F.lit(9))))

    query.edit(fn)
    query.add((1, "b", 60), (2, "b", 60), (9, "b", 60), (0, "b", 100_000))
    found = query.run()
    query.add((0, "b", 100_000))
    found += query.run()
    assert {(row["k"], row["n"]) for row in found} == {(1, 11), (2, 1), (3, 10), (9, 11)}


def test_state_of_functions_with_groups_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    def count(key: Any, frames: Any, state: Any) -> Any:
        before = state.get[0] if state.exists else 0
        state.update((before + sum(len(one) for one in frames),))
        yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]]})

    query = Query(
        spark,
        tmp_path,
        lambda rows: rows.groupBy("k").applyInPandasWithState(count, "k long, n long", "n long", "update", "NoTimeout"),
        "update",
    )
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    ten = F.struct(F.struct(F.lit(10).alias("n")).alias("groupState"))
    query.edit(lambda state: state.where("key.k = 1").withColumn("value", ten))
    query.add((1, "b", 0), (2, "b", 0))
    assert {(row["k"], row["n"]) for row in query.run()} == {(1, 11), (2, 1)}


def test_rows_of_a_join_are_taken_out_and_put_in(spark: SparkSession, tmp_path: Path) -> None:
    def joined(rows: DataFrame) -> DataFrame:
        others = rows.where("s = 'right'").select(F.col("ts").alias("its_ts"), F.col("k").alias("its_k"))
        near = "k = its_k AND its_ts BETWEEN ts AND ts + INTERVAL 10 MINUTES"
        return rows.where("s != 'right'").join(others, F.expr(near), "left_outer")

    query = Query(spark, tmp_path, joined, "append")
    query.add((1, "a", 0), (1, "b", 0), (2, "a", 0), (2, "b", 0), (3, "a", 0), (3, "right", 5))
    query.run()
    left = query.state("left")
    assert left.count() == 5
    assert "matched is missing" in query.refused(lambda state: state.select("key", "value"), "left")

    def fn(state: DataFrame) -> DataFrame:
        rows = state.where("NOT (key.field0 = 1 AND value.s = 'b')")
        new = rows.where("key.field0 = 2").withColumn("value", F.col("value").withField("s", F.lit("new")))
        return rows.unionByName(new)

    query.edit(fn, "left")
    assert query.state("right").count() == 1, "the other side is as it was"
    query.add((1, "right", 5), (2, "right", 5))
    assert sorted((row["k"], row["s"]) for row in query.run()) == [
        (1, "a"),
        (2, "a"),
        (2, "b"),
        (2, "new"),
        (2, "new"),
    ]
    query.add((0, "a", 100_000), (0, "right", 100_000))
    query.run()
    query.add((0, "b", 100_000))
    assert not [row for row in query.run() if row["k"] == 3], "a row that was matched is not emitted without a partner"


def test_state_variables_are_changed_and_timers_stay(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "n long")
            self.names = handle.getListState("names", "s string")
            self.each = handle.getMapState("each", "s string", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            seen = list(rows)
            self.total.update(((self.total.get()[0] if self.total.exists() else 0) + len(seen),))
            for row in seen:
                self.names.appendValue((row.s,))
                before = self.each.getValue((row.s,))
                self.each.updateValue((row.s,), ((before[0] if before else 0) + 1,))
            if not list(self.handle.listTimers()):
                self.handle.registerTimer(1_893_456_000_000)
            names = ",".join(name for (name,) in self.names.get())
            each = ",".join(sorted(f"{s}{n}" for (s,), (n,) in self.each.iterator()))
            timers = len(list(self.handle.listTimers()))
            yield Row(k=key[0], total=self.total.get()[0], names=names, each=each, timers=timers)

        def close(self) -> None:
            pass

    columns = "k long, total long, names string, each string, timers long"
    query = Query(
        spark,
        tmp_path,
        lambda rows: rows.groupBy("k").transformWithState(Counting(), columns, "Update", "EventTime"),
        "update",
    )
    query.add((1, "a", 0), (1, "b", 0), (2, "a", 0), (3, "a", 0))
    query.run()
    assert "a key comes twice" in query.refused(lambda state: state.union(state), "total")

    def of(k: int) -> Any:
        return F.struct(F.lit(k).cast("long").alias("k")).alias("key")

    ten = F.struct(F.when(F.col("key.k") == 1, F.lit(10)).otherwise(F.col("value.n")).alias("n"))
    new = spark.range(1).select(of(9), F.struct(F.lit(90).alias("n")).alias("value"))
    query.edit(
        lambda state: state.where("key.k != 2").withColumn("value", ten).drop("partition_id").unionByName(new), "total"
    )
    last = spark.range(1).select(of(1), F.struct(F.lit("z").alias("s")).alias("list_element"))
    query.edit(lambda state: state.where("list_element.s != 'a'").drop("partition_id").unionByName(last), "names")
    pair = F.struct(F.lit("z").alias("s")).alias("user_map_key"), F.struct(F.lit(7).alias("n")).alias("user_map_value")
    more = spark.range(1).select(of(1), *pair)
    query.edit(lambda state: state.drop("partition_id").unionByName(more), "each")
    later = F.lit(1_893_456_000_001).alias("expiration_timestamp_ms")
    query.edit(
        lambda state: state.where("key.k != 3").drop("partition_id").unionByName(spark.range(1).select(of(9), later)),
        "timers",
    )
    assert query.state("timers").count() == 3
    assert query.state("names").count() == 2
    query.add((1, "a", 0), (2, "a", 0), (3, "b", 0), (9, "b", 0))
    found = {row["k"]: (row["total"], row["names"], row["each"], row["timers"]) for row in query.run()}
    assert found == {
        1: (11, "b,z,a", "a2,b1,z7", 1),
        2: (1, "a", "a2", 1),
        3: (2, "b", "a1,b1", 1),
        9: (91, "b", "b1", 1),  # that was put in
    }


def collecting(rows: DataFrame, columns: str = "n long", more: int = 0) -> DataFrame:
    """Keep sums in a value, a list and a map, with these columns; the second one grows by `more`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Collecting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", columns)
            self.lasting = handle.getValueState("lasting", columns, ttlDurationMs=86_400_000)
            self.all = handle.getListState("all", columns)
            self.each = handle.getMapState("each", "s string", columns)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            def grown(kept: Any) -> tuple[int, ...]:
                first, *second = kept or ((0, 0) if more else (0,))
                return (first + 1, *(one + more for one in second))

            for row in rows:
                for one in (self.total, self.lasting):
                    one.update(grown(one.get()))
                self.each.updateValue((row.s,), grown(self.each.getValue((row.s,))))
                self.all.appendValue(grown(None))
            yield Row(
                k=key[0],
                total=str(self.total.get()),
                lasting=str(self.lasting.get()),
                all=str(sorted(self.all.get())),
                each=str(sorted((s, tuple(value)) for (s,), value in self.each.iterator())),
            )

        def close(self) -> None:
            pass

    found = "k long, total string, lasting string, all string, each string"
    return rows.groupBy("k").transformWithState(Collecting(), found, "Update", "ProcessingTime")


def test_variables_get_another_column_lose_one_and_have_one_widened(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda rows: collecting(rows, "n int"), "update")
    query.add((1, "a", 0), (2, "a", 0))
    query.run_once()

    def with_sum(column: str, inner: str = "") -> Callable[[DataFrame], DataFrame]:
        def fn(state: DataFrame) -> DataFrame:
            value = F.col(f"{column}{inner}")
            new = F.struct(value.getField("n").cast("long").alias("n"), F.lit(1000).cast("long").alias("sum"))
            if inner:
                new = F.col(column).withField("value", new)
            return state.withColumn(column, new)

        return fn

    for part, fn in (
        ("total", with_sum("value")),
        ("lasting", with_sum("value", ".value")),
        ("all", with_sum("list_element")),
        ("each", with_sum("user_map_value")),
    ):
        assert "sum is not known" in query.refused(fn, part)
        query.edit(fn, part, evolve=True)
    query.make = lambda rows: collecting(rows, "n long, sum long", 7)
    query.add((1, "a", 0), (3, "a", 0))
    assert {tuple(row) for row in query.run_once()} == {
        (1, "(2, 1007)", "(2, 1007)", "[(1, 7), (1, 1000)]", "[('a', (2, 1007))]"),
        (3, "(1, 7)", "(1, 7)", "[(1, 7)]", "[('a', (1, 7))]"),
    }
    only = F.struct(F.col("value.sum").alias("n")).alias("value")
    query.edit(lambda state: state.select("key", only), "total", evolve=True)
    assert {(row["key"]["k"], row["value"]["n"]) for row in query.state("total").collect()} == {
        (1, 1007),
        (2, 1000),
        (3, 7),
    }
    assert query.state("total").schema["value"].dataType.simpleString() == "struct<n:bigint>"


def test_values_that_are_kept_as_avro_do_not_get_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    name = "spark.sql.streaming.stateStore.encodingFormat"
    query = Query(spark, tmp_path, lambda rows: collecting(rows, "n int"), "update")
    query.add((1, "a", 0))
    spark.conf.set(name, "avro")
    try:
        query.run_once()
    finally:
        spark.conf.unset(name)
    seven = F.struct(F.struct(F.lit(7).alias("n")).alias("value"), F.col("value.ttlExpirationMs"))
    with pytest.raises(RestoreError, match="its rows are kept as avro") as refused:
        query.edit(lambda state: state, "total", evolve=True)
    assert refused.value.code == "STATE_REWRITE_UNSUPPORTED"
    query.edit(lambda state: state.withColumn("value", F.struct(F.lit(7).alias("n"))), "total")
    query.edit(lambda state: state.withColumn("value", seven), "lasting")
    query.add((1, "a", 0))
    [row] = query.run_once()
    assert (row["total"], row["lasting"]) == ("(8,)", "(8,)")


def test_a_variable_of_a_processor_in_pandas_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            before = self.total.get()[0] if self.total.exists() else 0
            self.total.update((before + sum(len(frame) for frame in rows),))
            yield pd.DataFrame({"k": [key[0]], "n": [self.total.get()[0]]})

        def close(self) -> None:
            pass

    query = Query(
        spark,
        tmp_path,
        lambda rows: rows.groupBy("k").transformWithStateInPandas(Counting(), "k long, n long", "Update", "None"),
        "update",
    )
    query.add((1, "a", 0), (2, "a", 0))
    query.run()
    ten = F.struct(F.lit(10).alias("n"))
    query.edit(lambda state: state.where("key.k = 1").withColumn("value", ten), "total")
    query.add((1, "b", 0), (2, "b", 0))
    assert {(row["k"], row["n"]) for row in query.run()} == {(1, 11), (2, 1)}
