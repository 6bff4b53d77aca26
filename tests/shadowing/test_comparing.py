"""Rows of two sides, compared by Spark: as a multiset, and by key."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.spark.comparing import Difference, Side, columns_of, compared

pytestmark = pytest.mark.spark

DDL = "k string, v double, m map<string,int>"

Row = tuple[Any, ...]


def frame(spark: SparkSession, rows: list[Row], ddl: str = DDL) -> DataFrame | None:
    return spark.createDataFrame(rows, ddl) if rows else None


def side(spark: SparkSession, due: list[Row], pending: list[Row], ddl: str = DDL) -> Side:
    return Side(due=frame(spark, due, ddl), pending=frame(spark, pending, ddl))


def difference(ours: Side, theirs: Side, key: tuple[str, ...] = (), tolerance: float = 0.0) -> Difference:
    columns = columns_of(ours, theirs, ())
    return compared(ours, theirs, columns.both, key=key, tolerance=tolerance, examples=5)


def counts(found: Difference) -> tuple[int, int, int, int, tuple[int, int]]:
    return found.equal, found.different, found.missing, found.extra, found.pending


def row(key: str | None, value: float | None, **entries: int) -> Row:
    return key, value, entries


def test_duplicates_count_and_maps_are_the_same_in_any_order(spark: SparkSession) -> None:
    one = row("a", 1.0, x=1, y=2)
    turned = ("a", 1.0, {"y": 2, "x": 1})
    nothing, null = row("b", float("nan")), row(None, None)
    ours = side(spark, [one, one, nothing, null], [])
    assert counts(difference(ours, side(spark, [turned, turned, nothing, null], []))) == (4, 0, 0, 0, (0, 0))
    found = difference(ours, side(spark, [turned, nothing, null, null], []))
    assert counts(found) == (3, 0, 1, 1, (0, 0))
    assert sum(shadow is None for _, shadow in found.examples) == 1
    assert any(original and '"k":"a"' in original for original, _ in found.examples)


def test_rows_that_the_other_side_may_still_write_are_not_called_missing(spark: SparkSession) -> None:
    a, b, c, d = (row(key, 1.0) for key in "abcd")
    assert counts(difference(side(spark, [a], [b, c]), side(spark, [a, b], []))) == (2, 0, 0, 0, (1, 0))
    assert counts(difference(side(spark, [a], []), side(spark, [], [a, d]))) == (1, 0, 0, 0, (0, 1))
    assert counts(difference(side(spark, [a, c], []), side(spark, [], [a, d]))) == (1, 0, 1, 0, (0, 1))


def test_by_key_a_row_with_another_value_is_different_and_not_missing_and_extra(spark: SparkSession) -> None:
    ours = side(spark, [row("a", 1.0), row("b", 1.0), row("gone", 1.0)], [row("late", 1.0)])
    theirs = side(spark, [row("a", 1.0), row("b", 2.0), row("new", 1.0)], [])
    found = difference(ours, theirs, ("k",))
    assert counts(found) == (1, 1, 1, 1, (1, 0))
    [pair] = [example for example in found.examples if None not in example]
    assert '"v":1.0' in str(pair[0]) and '"v":2.0' in str(pair[1])
    # A row that is pending, and not the same, is different all the same: the other one has to have it as it is.
    assert counts(difference(side(spark, [row("a", 1.0)], []), side(spark, [], [row("a", 2.0)]), ("k",)))[1] == 1
    assert counts(difference(side(spark, [], [row("a", 1.0)]), side(spark, [], [row("a", 2.0)]), ("k",)))[4] == (1, 1)


def test_numbers_with_a_point_may_differ_by_a_part_if_that_is_asked_for(spark: SparkSession) -> None:
    ours = side(spark, [row("a", 0.1 + 0.2), row("b", 1.0), row("c", 1.0, x=1)], [])
    theirs = side(spark, [row("a", 0.3), row("b", 1.1), row("c", 1.0, x=2)], [])
    assert counts(difference(ours, theirs, ("k",)))[:2] == (0, 3)
    assert counts(difference(ours, theirs, ("k",), 1e-9))[:2] == (1, 2)
    assert counts(difference(ours, theirs, ("k",), 0.2))[:2] == (2, 1)


def test_columns_that_only_one_has_are_named_and_hostile_names_are_names(spark: SparkSession) -> None:
    ddl = "`a.b` string, `x``y` int, `row` int, gone int, other int"
    ours = side(spark, [("k", 1, 1, 1, 1)], [], ddl)
    theirs = side(spark, [("k", 1, 1, "1", 1)], [], "`a.b` string, `x``y` int, `row` int, other string, new int")
    columns = columns_of(ours, theirs, ())
    assert (columns.both, columns.gone, columns.new, columns.changed) == (
        ("a.b", "x`y", "row"),
        ("gone",),
        ("new",),
        ("other",),
    )
    found = compared(ours, theirs, columns.both, key=("x`y",), tolerance=0, examples=1)
    assert counts(found) == (1, 0, 0, 0, (0, 0))
    assert columns_of(ours, theirs, ("gone", "new", "other")).gone == ()
    assert columns_of(Side(due=None, pending=None), Side(due=None, pending=None), ()).both == ()


def test_a_column_that_came_later_is_null_before(spark: SparkSession) -> None:
    ours = Side(due=frame(spark, [("a", 1)], "k string, n int"), pending=frame(spark, [("b",)], "k string"))
    theirs = side(spark, [("a", 1), ("b", None)], [], "k string, n int")
    assert counts(difference(ours, theirs)) == (2, 0, 0, 0, (0, 0))


def test_maps_within_lists_and_structs_are_compared_too(spark: SparkSession) -> None:
    made = "SELECT array(map('x', {x}, 'y', 2)) AS l, named_struct('m', map('y', 2, 'x', {x}), 'n', 1) AS s"
    turned = "SELECT array(map('y', 2, 'x', {x})) AS l, named_struct('m', map('x', {x}, 'y', 2), 'n', 1) AS s"

    def of(text: str, x: int) -> Side:
        return Side(due=spark.sql(text.format(x=x)), pending=None)

    assert counts(difference(of(made, 1), of(turned, 1)))[0] == 1
    assert counts(difference(of(made, 1), of(turned, 3)))[2:4] == (1, 1)


def test_it_counts_as_multisets_do_whatever_the_rows(spark: SparkSession) -> None:
    """Against Python's own multisets, on random rows."""
    chance = random.Random(7)
    for _ in range(2):
        due, pending, their_due, their_pending = (
            [(chance.choice("abc"), chance.randrange(3)) for _ in range(chance.randrange(1, 9))] for _ in range(4)
        )
        ddl = "k string, n int"
        found = difference(side(spark, due, pending, ddl), side(spark, their_due, their_pending, ddl))
        ours, theirs = Counter(due + pending), Counter(their_due + their_pending)
        assert found.equal == (ours & theirs).total()
        assert found.missing == (Counter(due) - theirs).total()
        assert found.extra == (Counter(their_due) - ours).total()
        assert found.equal + found.missing + found.pending[0] == ours.total()
        assert found.equal + found.extra + found.pending[1] == theirs.total()


def test_columns_of_folders_take_the_type_that_the_shadow_has(spark: SparkSession) -> None:
    from rekindle.sinks.reading import AS_TEXT

    read = spark.createDataFrame([("2025-03-01",)], "day string").withMetadata("day", {AS_TEXT: True})
    theirs = Side(due=spark.createDataFrame([("2025-03-01",)], "day string").select(F.to_date("day").alias("day")),
                  pending=None)  # fmt: skip
    assert counts(difference(Side(due=read, pending=None), theirs))[0] == 1
