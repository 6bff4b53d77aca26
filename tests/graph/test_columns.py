"""Which columns of a channel may change while rows are in it."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.graph.changes import ChangeKind
from rekindle.graph.columns import column_changes, known_columns


def schema(**columns: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


def kinds(before: dict[str, Any], now: dict[str, Any], *, widens: bool = True) -> list[ChangeKind]:
    return [one.kind for one in column_changes("read", before, now, widens=widens)]


def test_columns_come_and_go_and_stand_in_any_order() -> None:
    assert kinds(schema(a="long", b="string"), schema(b="string", A="long")) == []
    assert kinds(schema(a="long"), schema(c="string")) == [ChangeKind.COLUMN_ADDED, ChangeKind.COLUMN_DROPPED]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("integer", "long"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(12,4)"),
        ({"type": "array", "elementType": "integer"}, {"type": "array", "elementType": "long"}),
        (
            {"type": "map", "keyType": "string", "valueType": "date"},
            {"type": "map", "keyType": "string", "valueType": "timestamp_ntz"},
        ),
        (schema(x="short"), schema(x="integer", y="string")),
    ],
)
def test_a_type_gets_wider_where_spark_reads_it_so(before: Any, now: Any) -> None:
    assert kinds(schema(a=before), schema(a=now)) == [ChangeKind.TYPE_WIDENED]
    assert kinds(schema(a=before), schema(a=now), widens=False) == [ChangeKind.TYPE_CHANGED]
    assert kinds(schema(a=now), schema(a=before)) == [ChangeKind.TYPE_CHANGED]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("string", "long"),
        ("long", "double"),
        ("decimal(10,2)", "decimal(11,4)"),
        ("decimal(10,2)", "string"),
        ("integer", schema(x="integer")),
        ({"type": "array", "elementType": "long"}, {"type": "map", "keyType": "long", "valueType": "long"}),
        ({"type": "udt", "class": "a"}, {"type": "udt", "class": "b"}),
        (schema(x="short", y="long"), schema(x="short")),
    ],
)
def test_any_other_type_is_refused(before: Any, now: Any) -> None:
    assert kinds(schema(a=before), schema(a=now)) == [ChangeKind.TYPE_CHANGED]


def test_a_column_that_was_dropped_is_remembered_until_it_comes_back() -> None:
    """What lies in the channels may still have it, with its old type."""
    known = known_columns(schema(a="long", x="string"), schema(a="long"))
    assert kinds(dict(known), schema(a="long")) == [ChangeKind.COLUMN_DROPPED]
    assert kinds(dict(known), schema(a="long", x="integer")) == [ChangeKind.TYPE_CHANGED]
    assert known_columns(known, schema(a="long", X="string")) == schema(a="long", X="string")
