"""State that expires, written again: Spark's own clearing finds what was kept, changed and put in, at its time."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from rekindle.progress.directory import read_offsets
from rekindle.progress.stored_state import find_state
from rekindle.state_rewriting import can_rewrite
from rekindle.state_rewriting.stores import Stores
from rekindle.state_rewriting.variables import ExpiringVariable
from tests.docs.test_docs import ROOT, blocks
from tests.jobs.kit import until
from tests.spark import test_state_of_all_types as every
from tests.spark.test_state_of_all_types import TypedQuery, many, schema
from tests.spark.test_state_rewriting import Query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark reads state since 4.0"),
]

UNKNOWN = ("time", "maps")
"""transformWithState cannot keep intervals, nor maps whose keys are no strings."""

KEYS, VALUES = (
    {name: kind for name, kind in kinds.items() if name not in UNKNOWN} for kinds in (every.KEYS, every.VALUES)
)

DAY_MS = 86_400_000
LONG_AGO_MS = 1


@pytest.fixture(autouse=True)
def _where_spark_can(spark: SparkSession) -> None:
    if not can_rewrite(spark):
        pytest.skip("this Spark cannot write state")


def run_a_batch(query: Query) -> tuple[list[Row], int]:
    """Run one batch; return the rows that it emits, and its time in milliseconds. A query that expires never idles."""
    found: list[Row] = []
    source = query.spark.readStream.schema(query.schema).parquet(str(query.root / "in"))
    writer = query.make(source).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda frame, _: found.extend(frame.collect()))
    running = writer.option("checkpointLocation", query.folder).trigger(once=True).start()
    running.awaitTermination()
    kept = find_state(query.folder).task(None)
    return found, int(read_offsets(kept.store, kept.folder, kept.batch).metadata["batchTimestampMs"])


class Value(NamedTuple):
    """What is to be, and until when."""

    value: Any
    expires_ms: int


class Model:
    """What the query of the tests is to know, by the rule: a value is there in batches before its time."""

    def __init__(self) -> None:
        self.totals: dict[int, Value] = {}
        self.names: dict[int, list[Value]] = defaultdict(list)
        self.each: dict[tuple[int, str], Value] = {}

    def batch(self, rows: list[tuple[int, str, int]], now_ms: int) -> set[tuple[int, int, str, str]]:
        """Return what a batch emits."""
        self.clear(now_ms)
        for k, s, _ in rows:
            fresh = now_ms + DAY_MS
            self.totals[k] = Value(self.totals.get(k, Value(0, 0)).value + 1, fresh)
            self.names[k].append(Value(s, fresh))
            self.each[k, s] = Value(self.each.get((k, s), Value(0, 0)).value + 1, fresh)
        return {
            (
                k,
                self.totals[k].value,
                ",".join(one.value for one in self.names[k]),
                ",".join(sorted(f"{s}{one.value}" for (of, s), one in self.each.items() if of == k)),
            )
            for k in {k for k, *_ in rows}
        }

    def clear(self, now_ms: int) -> None:
        """Forget what has expired."""
        self.totals = {k: one for k, one in self.totals.items() if one.expires_ms > now_ms}
        self.each = {k: one for k, one in self.each.items() if one.expires_ms > now_ms}
        for k, values in self.names.items():
            self.names[k] = [one for one in values if one.expires_ms > now_ms]

    def kept(self) -> dict[str, list[Any]]:
        """Return all that it knows."""
        return {
            "total": sorted((k, *one) for k, one in self.totals.items()),
            "names": sorted((k, *one) for k, values in self.names.items() for one in values),
            "each": sorted((*at, *one) for at, one in self.each.items()),
        }


COLUMNS = {
    "total": ["key.k", "value.value.n", "value.ttlExpirationMs"],
    "names": ["key.k", "list_element.value.s", "list_element.ttlExpirationMs"],
    "each": ["key.k", "user_map_key.s", "user_map_value.value.n", "user_map_value.ttlExpirationMs"],
}


class ExpiringQuery(Query):
    """Counts and collects names in three variables, each of whose values lasts a day."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root, counting, "update")
        self.model = Model()

    def batch(self, *rows: tuple[int, str, int]) -> int:
        """Run a batch over these rows, see that it is as it has to be, and return its time."""
        self.add(*rows)
        found, now_ms = run_a_batch(self)
        assert {tuple(row) for row in found} == self.model.batch(list(rows), now_ms)
        self.see()
        return now_ms

    def see(self) -> None:
        """See that Spark's reader finds what has to be there, and nothing else."""
        for part, wanted in self.model.kept().items():
            assert sorted(map(tuple, self.state(part).select(*COLUMNS[part]).collect())) == wanted, part


def counting(rows: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "n long", ttlDurationMs=DAY_MS)
            self.names = handle.getListState("names", "s string", ttlDurationMs=DAY_MS)
            self.each = handle.getMapState("each", "s string", "n long", ttlDurationMs=DAY_MS)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            for row in rows:
                self.total.update(((self.total.get()[0] if self.total.exists() else 0) + 1,))
                self.names.appendValue((row.s,))
                before = self.each.getValue((row.s,))
                self.each.updateValue((row.s,), ((before[0] if before else 0) + 1,))
            names = ",".join(name for (name,) in self.names.get())
            each = ",".join(sorted(f"{s}{n}" for (s,), (n,) in self.each.iterator()))
            yield Row(k=key[0], total=self.total.get()[0], names=names, each=each)

        def close(self) -> None:
            pass

    columns = "k long, total long, names string, each string"
    return rows.groupBy("k").transformWithState(Counting(), columns, "Update", "ProcessingTime")


def expiring(value: Column, expires_ms: Any) -> Column:
    time = expires_ms if isinstance(expires_ms, Column) else F.lit(expires_ms)
    return F.struct(value.alias("value"), time.cast("long").alias("ttlExpirationMs"))


def of(k: int) -> Column:
    return F.struct(F.lit(k).cast("long").alias("k")).alias("key")


def field(value: Any, name: str) -> Column:
    return F.struct(F.lit(value).alias(name))


def test_what_is_kept_changed_and_put_in_expires_at_its_time(spark: SparkSession, tmp_path: Path) -> None:
    query = ExpiringQuery(spark, tmp_path)
    model = query.model
    query.batch((1, "a", 0), (1, "b", 0), (2, "a", 0), (3, "a", 0), (4, "a", 0))

    soon_ms = round(time.time() * 1000) + 8_000
    later_ms = soon_ms + 2 * DAY_MS

    def totals(state: DataFrame) -> DataFrame:
        """1 is another value, 2 is gone, 3 has expired, 4 stays, 9 is new."""
        k = F.col("key.k")
        value = F.when(k == 1, expiring(field(10, "n"), later_ms)).when(k == 3, expiring(field(1, "n"), LONG_AGO_MS))
        new = spark.range(1).select(of(9), expiring(field(90, "n"), soon_ms).alias("value"))
        changed = state.where(k != 2).withColumn("value", F.coalesce(value, "value"))
        return changed.drop("partition_id").unionByName(new)

    query.edit(totals, "total")
    model.totals |= {1: Value(10, later_ms), 3: Value(1, LONG_AGO_MS), 9: Value(90, soon_ms)}
    del model.totals[2]

    def names(state: DataFrame) -> DataFrame:
        """Of 1 the first has expired, and a third one is put in; all of 3 has expired; 4 is gone; 9 is new."""
        k, name = F.col("key.k"), F.col("list_element.value")
        past = (k == 3) | ((k == 1) & (F.col("list_element.value.s") == "a"))
        element = F.when(past, expiring(name, LONG_AGO_MS)).otherwise(F.col("list_element"))
        new = [
            spark.range(1).select(of(k), expiring(field("z", "s"), time_ms).alias("list_element"))
            for k, time_ms in ((1, soon_ms), (9, soon_ms), (9, later_ms))
        ]
        kept = state.where(k != 4).withColumn("list_element", element).drop("partition_id")
        return kept.unionByName(new[0]).unionByName(new[1]).unionByName(new[2])

    query.edit(names, "names")
    first, second = model.names[1]
    model.names[1] = [first._replace(expires_ms=LONG_AGO_MS), second, Value("z", soon_ms)]
    model.names[3] = [one._replace(expires_ms=LONG_AGO_MS) for one in model.names[3]]
    model.names[4] = []
    model.names[9] = [Value("z", soon_ms), Value("z", later_ms)]

    def each(state: DataFrame) -> DataFrame:
        """Of 1 the first expires soon, and another one is put in; 2 is gone."""
        first = (F.col("key.k") == 1) & (F.col("user_map_key.s") == "a")
        value = F.when(first, expiring(field(7, "n"), soon_ms)).otherwise(F.col("user_map_value"))
        more = expiring(field(5, "n"), later_ms).alias("user_map_value")
        new = spark.range(1).select(of(1), field("y", "s").alias("user_map_key"), more)
        kept = state.where("key.k != 2").withColumn("user_map_value", value)
        return kept.drop("partition_id").unionByName(new)

    query.edit(each, "each")
    model.each |= {(1, "a"): Value(7, soon_ms), (1, "y"): Value(5, later_ms)}
    del model.each[2, "a"]
    query.see()

    # What these batches see follows from their own times; at the latest the second one is after the edited expiry.
    rows = [(k, "c", 0) for k in (1, 2, 3, 4, 9)]
    query.batch(*rows)
    until(lambda: time.time() * 1000 > soon_ms)
    assert query.batch(*rows) > soon_ms
    # The indexes are again those that would be written for these values, or this is refused.
    page: dict[str, Any] = {"F": F}
    code = next(code for code in blocks(ROOT / "docs/state.md", "python") if "def a_week_more" in code)
    exec(code.partition("rk.")[0], page)
    query.edit(page["a_week_more"], "total")
    model.totals = {k: one._replace(expires_ms=one.expires_ms + 7 * DAY_MS) for k, one in model.totals.items()}
    for part in ("names", "each"):
        query.edit(lambda state: state, part)
    query.see()
    query.batch(*rows)


def test_a_value_without_a_time_is_refused_and_so_are_indexes_of_another_kind(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = ExpiringQuery(spark, tmp_path)
    query.batch((1, "a", 0), (2, "a", 0))
    value = F.col("value.value")
    for time_ms in (F.lit(None), F.lit(-1)):
        refused = query.refused(lambda state, t=time_ms: state.withColumn("value", expiring(value, t)), "total")
        assert "value.ttlExpirationMs is null or below 0" in refused
    nothing = F.lit(None).cast("struct<n: bigint>")
    gone = query.refused(lambda state: state.withColumn("value", expiring(nothing, DAY_MS)), "total")
    assert "value.value is null" in gone
    bare = query.refused(lambda state: state.withColumn("value", value), "total")
    assert "value.ttlExpirationMs is missing" in bare
    element = F.col("list_element").withField("ttlExpirationMs", F.lit(None).cast("long"))
    endless = query.refused(lambda state: state.withColumn("list_element", element), "names")
    assert "list_element.ttlExpirationMs is null" in endless
    assert "a key comes twice" in query.refused(lambda state: state.union(state), "each")

    class Elsewhere(ExpiringVariable):
        """Another Spark, which adds a minute."""

        def _indexes(self, edited: DataFrame) -> Any:
            (last,) = {"total": "value", "names": "list_element", "each": "user_map_value"}[str(self._part)].split()
            later = F.col(last).withField("ttlExpirationMs", F.col(f"{last}.ttlExpirationMs") + 60_000)
            return super()._indexes(edited.withColumn(last, later))

    kept = find_state(query.folder).task(None)
    (operator,) = kept.operators(0)
    for part in ("total", "names", "each"):
        stores = Stores(spark, kept, operator)
        assert ExpiringVariable(stores, part).unknown() == ""
        assert f"($ttl_{part})" in Elsewhere(stores, part).unknown()


def silent(rows: DataFrame) -> DataFrame:
    """Have a variable of each kind, and put nothing into them."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    values, keys = schema(VALUES), schema(KEYS)

    class Silent(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", values, ttlDurationMs=DAY_MS)
            self.names = handle.getListState("names", values, ttlDurationMs=DAY_MS)
            self.each = handle.getMapState("each", keys, values, ttlDurationMs=DAY_MS)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            yield Row(id=key[0])

        def close(self) -> None:
            pass

    return rows.select("id").groupBy("id").transformWithState(Silent(), "id long", "Update", "ProcessingTime")


COUNTER = iter(range(1000))
TIMES = st.sampled_from([LONG_AGO_MS, LONG_AGO_MS + 1, 4 * 10**12, 5 * 10**12])


@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_values_of_every_type_expire_by_sparks_own_clearing(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    rows = data.draw(many(VALUES))
    times = data.draw(st.lists(TIMES, min_size=len(rows), max_size=len(rows)))
    root = tmp_path_factory.mktemp(f"expiring{next(COUNTER)}")
    query: Any = TypedQuery(spark, root, VALUES, silent)
    nothing = [tuple(None for _ in VALUES)]
    query.put(query.rows(nothing))
    assert len(run_a_batch(query)[0]) == 1

    timed = spark.createDataFrame([(i, one) for i, one in enumerate(times)], "id long, expires long")
    known = query.rows(rows).join(timed, "id").localCheckpoint()
    key, group = F.struct("id").alias("key"), F.struct((F.col("id") % 20).alias("id")).alias("key")
    value = expiring(F.struct(*VALUES), F.col("expires"))
    user = F.struct(*KEYS).alias("user_map_key")
    query.edit(lambda state: known.select(key, value.alias("value")), "total")
    query.edit(lambda state: known.select(group, value.alias("list_element")), "names")
    query.edit(lambda state: known.select(key, user, value.alias("user_map_value")), "each")

    query.put(query.rows(nothing))
    assert len(run_a_batch(query)[0]) == 1
    left = known.where(F.col("expires") > round(time.time() * 1000))
    wanted = sorted(repr(tuple(row)) for row in left.select("id", "expires", *VALUES).collect())
    for part, column in (("total", "value"), ("each", "user_map_value")):
        found = query.state(part).select("key.id", f"{column}.ttlExpirationMs", f"{column}.value.*").collect()
        assert sorted(repr(tuple(row)) for row in found) == wanted, part
    wanted = sorted(repr(tuple(row)) for row in left.select(F.col("id") % 20, "expires", *VALUES).collect())
    found = query.state("names").select("key.id", "list_element.ttlExpirationMs", "list_element.value.*").collect()
    assert sorted(repr(tuple(row)) for row in found) == wanted
    for part in ("total", "names", "each"):
        query.edit(lambda state: state, part)
