"""A batch in which an input has only a watermark row takes nothing from the other inputs of a query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.channels.marks import MARK_COLUMN
from rekindle.errors import ConfigError
from rekindle.spark.inputs import watermark_rows as inputs
from rekindle.spark.query.optimizer import EXCLUDED, same_for_each_batch
from tests.spark.dealing import Dealt, Row, at, expected, lines, streamed, watermarked
from tests.versions import older_than

ROWS: list[Row] = [(at(minute), minute % 5, minute) for minute in range(10)]
TIMES = "l.ts between r.ts - interval 10 minutes and r.ts + interval 10 minutes"


def joined(how: str, condition: str) -> Any:
    def query(left: Any, right: Any) -> Any:
        from pyspark.sql import functions as F

        found = left.alias("l").join(right.alias("r"), F.expr(condition), how)
        return found.select("l.*") if how in ("left_semi", "left_anti") else found.select("l.k", "l.v", "r.k", "r.v")

    return query


def run(spark: Any, place: Path, query: Any, *, slower: bool = False) -> tuple[Any, Any]:
    """A history that ends first, and an input that goes on, or another history that is slower."""
    history, other = (
        Dealt(spark, place, "history", 0),
        Dealt(spark, place, "other", 2, **({} if slower else {"delay": "1 hour"})),
    )

    def both() -> None:
        history.mark()
        other.deal(ROWS[5:])

    batches = [lambda: history.deal(ROWS), both, lambda: other.deal(ROWS[:5]), other.mark]
    found = streamed(lines(query(history.frame, other.frame)), place / "query", batches)
    return found, expected(spark, query, [history, other])


@pytest.mark.parametrize(
    ("how", "condition"),
    [
        ("inner", "l.k = r.k"),
        ("inner", "l.k = r.k and l.v = r.v"),
        ("left_semi", f"l.k = r.k and {TIMES}"),
        ("left", f"l.k = r.k and l.v < 5 and {TIMES}"),
        ("full", f"l.k = r.k and l.v = r.v + 1 and {TIMES}"),
    ],
)
def test_a_finished_history_joined_with_a_live_stream_is_whole(
    spark: Any, tmp_path: Path, how: str, condition: str
) -> None:
    found, wanted = run(spark, tmp_path, joined(how, condition))
    assert wanted
    assert found == wanted


@pytest.mark.parametrize("how", ["inner", "full"])
def test_two_inputs_that_end_one_after_the_other_are_joined_whole(spark: Any, tmp_path: Path, how: str) -> None:
    found, wanted = run(spark, tmp_path, joined(how, f"l.k = r.k and {TIMES}"), slower=True)
    assert wanted
    assert found == wanted


def test_with_literal_nulls_in_watermark_rows_it_would_lose_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: this is the fault that they are for."""
    monkeypatch.setattr(inputs, "_computed_null", literal_null)
    found, wanted = run(spark, tmp_path, joined("inner", "l.k = r.k"))
    assert found < wanted


def literal_null(kind: Any, absent: Any) -> Any:
    """What watermark rows once held."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    null: Any = F.lit(None)
    return Column(null._jc.cast(kind))


OF_ALL_KINDS = {
    "nested": "named_struct('a', array(map('x', 1)), 'b', named_struct('c', v))",
    "never_null": "coalesce(v, 0)",
    "char": "cast('ab' as char(5))",
    "varchar": "cast('ab' as varchar(5))",
    "interval_": "interval 1 month",
    "days": "interval '1' day",
    "calendar": "make_interval(1, 2, 3, 4)",
    "decimal": "cast(v as decimal(38, 10))",
    "nothing": "null",
    "bytes": "cast('x' as binary)",
    "local": "cast(ts as timestamp_ntz)",
    "`a b,c.d;{}()=`": "v",
    inputs.ABSENT: "'a name of ours'",
    MARK_COLUMN + "_": "v",
}
SINCE_4 = {
    "variant_": "parse_json('{\"a\": 1}')",
    "collated": "'a' collate UNICODE_CI",
}


def test_watermark_rows_have_columns_of_any_type_and_any_name(spark: Any, tmp_path: Path) -> None:
    kinds = OF_ALL_KINDS if older_than("4.0") else OF_ALL_KINDS | SINCE_4
    source = Dealt(spark, tmp_path, "source", 0)
    data = source.data.selectExpr("*", *(f"{made} AS {name}" for name, made in kinds.items()))
    frame = watermarked(spark, data, "source", str(tmp_path / "marks" / "source"))
    assert [(field.name, field.dataType) for field in frame.schema] == [
        (field.name, field.dataType) for field in data.schema
    ]
    rows: list[Any] = []

    def take(batch: Any, _: int) -> None:
        rows.extend(batch.selectExpr("k", "never_null", "string(nested)", "string(calendar)", "nothing").collect())

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "query")).start()
    try:
        for deal in (lambda: source.mark(at(1)), lambda: source.deal(ROWS[:2]), source.mark):
            deal()
            query.processAllAvailable()
    finally:
        query.stop()
    interval = "1 years 2 months 25 days"
    assert [tuple(row) for row in rows] == [
        (0, 0, "{[{x -> 1}], {0}}", interval, None),
        (1, 1, "{[{x -> 1}], {1}}", interval, None),
    ]


@pytest.mark.parametrize("delay", ["INTERVAL x1 MINUTES", "INTERVAL '-1' DAY"])
def test_a_watermark_that_spark_alone_knows_to_be_wrong_is_a_wrong_value(
    spark: Any, tmp_path: Path, delay: str
) -> None:
    with pytest.raises(ConfigError, match=r"VALUE_INVALID.*watermark of source other"):
        Dealt(spark, tmp_path, "other", 0, delay=delay)


def test_columns_alike_but_for_their_case_are_kept_apart(spark: Any, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        source = Dealt(spark, tmp_path, "source", 0)
        data = source.data.selectExpr("ts", "k", "v AS K", "'x' AS TS")
        frame = watermarked(spark, data, "source", str(tmp_path / "marks" / "source"))

        def both() -> None:
            source.mark()
            source.deal(ROWS[:1])

        found = streamed(lines(frame.select("k", "K", "TS")), tmp_path / "query", [source.mark, both])
        assert sum(found.values()) == 1
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_type_of_the_users_own_has_its_null(spark: Any) -> None:
    from pyspark.sql import functions as F

    vector = spark._jvm.org.apache.spark.ml.linalg.SQLDataTypes.VectorType()
    rows = spark.range(1).select(inputs._computed_null(vector, F.col("id").cast("int")).alias("vector"))
    assert rows.schema["vector"].dataType.typeName() == "vectorudt"
    assert [tuple(row) for row in rows.collect()] == [(None,)]


def test_a_union_of_the_users_own_with_a_constant_in_each_branch_is_joined_whole(spark: Any, tmp_path: Path) -> None:
    """In plain Spark 4.3 it is not: a batch in which one branch has nothing knows the constant of the other."""
    from pyspark.sql import functions as F

    zero, one, other = (Dealt(spark, tmp_path, name, 2 * index) for index, name in enumerate(("zero", "one", "other")))

    def query(zero: Any, one: Any, other: Any) -> Any:
        union = zero.withColumn("s", F.lit(0)).unionByName(one.withColumn("s", F.lit(1))).alias("u")
        return union.join(other.alias("o"), F.expr("u.s = o.v % 2 and u.k = o.k")).select("u.k", "u.v", "o.v")

    joined = lines(query(zero.data, one.data, other.data))  # as they are: no watermark row is in the union

    def both() -> None:
        zero.deal(ROWS[:5])
        other.deal(ROWS)

    found = streamed(joined, tmp_path / "query", [both, lambda: one.deal(ROWS[5:])], same_for_each_batch(joined))
    assert found == expected(spark, query, [zero, one, other])
    assert sum(found.values()) == 10


def test_a_query_without_a_join_is_planned_by_all_of_sparks_rules(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    source = Dealt(spark, tmp_path, "source", 0)
    assert same_for_each_batch(source.frame.groupBy(F.window("ts", "1 hour")).count()) == {}
    assert EXCLUDED in same_for_each_batch(source.frame.join(spark.range(1), F.expr("k = id")))
