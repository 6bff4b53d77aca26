"""What of a query is another than its state knows: some of it is refused, some of it named, each by its rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.errors import RestoreError
from rekindle.errors.conditions import CONDITIONS
from rekindle.graph.queries import (
    RULES,
    Aspect,
    Operator,
    QueryDescription,
    query_changes,
    settle_query,
    variable_changes,
)

HOUR = "3600000000"
KEYED = Operator(kind="deduplication", says={"COLUMNS": "a, b"})
GROUPED = Operator(kind="groups", says={"GROUPS": "k", "FIELDS": "n bigint, m bigint"})
JOINED = Operator(kind="join", says={"JOIN": "inner", "CONDITION": "(a = b)"})
LATE = Operator(kind="watermark", says={"DELAY": "4 seconds of ts"})
QUERY = QueryDescription(
    spark="4.3",
    aggregates=((HOUR,), ("10 minutes",)),
    computed=(("by window", "by k", "sum(v)", "max(w)"),),
    operators=(LATE, KEYED, GROUPED, JOINED, LATE),
    kinds=("aggregate", "aggregate", "deduplication", "applyInPandasWithState", "join"),
)


def found(**now: object) -> list[tuple[Aspect, str, str]]:
    """What has changed of the query."""
    return [(one.aspect, one.before, one.now) for one in query_changes("t", QUERY, replace(QUERY, **now))]  # type: ignore[arg-type]


def test_every_aspect_has_a_rule_and_every_refusal_a_code_that_says_what_to_do() -> None:
    assert set(RULES) == set(Aspect)
    assert all(rule.code is None or CONDITIONS[rule.code].next_step for rule in RULES.values())


def test_a_query_that_is_as_it_was_has_no_changes_and_one_that_cannot_be_compared_has_none_either() -> None:
    assert found() == []
    assert query_changes("t", None, QUERY) == []
    assert found(spark="4.2", aggregates=()) == [], "another version may write another expression"
    assert found(aggregates=((HOUR,),), computed=()) == [], "more or fewer: Spark sees that"
    assert found(computed=(("by window", "by k", "sum(v)"),)) == [], "more or fewer: Spark sees that"
    assert found(operators=()) == [], "more or fewer: Spark sees that"
    later = Operator(kind="join", says={**JOINED.says, "SOMETHING": "of a later version"})
    assert found(operators=(LATE, KEYED, GROUPED, later, LATE)) == []
    assert query_changes("t", replace(QUERY, operators=()), QUERY) == [], "an older version wrote none"


@pytest.mark.parametrize(
    "now",
    [(), QUERY.kinds[:-1], QUERY.kinds[::-1], (*QUERY.kinds, "limit")],  # type: ignore[index,misc]
    ids=["none", "fewer", "another_order", "more"],
)
def test_other_operators_with_state_are_refused_and_nothing_else_is_compared(now: tuple[str, ...]) -> None:
    before, other = ", ".join(QUERY.kinds or ()), replace(QUERY, kinds=now, aggregates=((HOUR,),), operators=())
    words = ", ".join(now) or "none"
    assert [(one.aspect, one.before, one.now) for one in query_changes("t", QUERY, other)] == [
        (Aspect.KINDS, before, words)
    ]
    with pytest.raises(RestoreError) as refused:
        settle_query("t", QUERY, other)
    assert refused.value.code == "STATE_OPERATORS_CHANGED"
    assert refused.value.parameters == {"task": "t", "before": before, "now": words}
    assert len(query_changes("t", replace(QUERY, spark="3.5"), other)) == 1, "their names are our own"
    assert query_changes("t", replace(QUERY, kinds=None), replace(QUERY, kinds=now)) == [], (
        "an older version wrote none"
    )


def test_windows_and_aggregates() -> None:
    assert found(aggregates=((HOUR,), ("20 minutes",))) == [(Aspect.WINDOWS, "10 minutes", "20 minutes")]
    assert found(aggregates=(("7200000000",), ("10 minutes",))) == [(Aspect.WINDOWS, "3600 seconds", "7200 seconds")]
    before = "by window, by k, sum(v), max(w)"
    for other in (("by window", "by k", "sum(v)", "min(w)"), ("by k", "by window", "sum(v)", "max(w)")):
        assert found(computed=(other,)) == [(Aspect.FUNCTION, before, ", ".join(other))]
    renamed = ("by window", "by j", "sum(v)", "max(w)")
    assert found(computed=(renamed,)) == [(Aspect.EXPRESSION, before, ", ".join(renamed))]


def test_other_operators_are_compared_with_those_of_their_kind() -> None:
    def swapped(was: Operator, **says: str) -> tuple[Operator, ...]:
        is_now = replace(was, says={**was.says, **says})
        return tuple(is_now if one is was else one for one in QUERY.operators)

    assert found(operators=swapped(KEYED, COLUMNS="a, c")) == [(Aspect.COLUMNS, "a, b", "a, c")]
    assert found(operators=swapped(KEYED, COLUMNS="b, a")) == [(Aspect.PLACES, "a, b", "b, a")]
    assert found(operators=swapped(JOINED, JOIN="left outer", CONDITION="(a = c)")) == [
        (Aspect.JOIN, "inner", "left outer"),
        (Aspect.CONDITION, "(a = b)", "(a = c)"),
    ]
    assert found(operators=(LATE, replace(LATE, says={"DELAY": "9 seconds of ts"}))) == [
        (Aspect.DELAY, "4 seconds of ts", "9 seconds of ts")
    ]
    named, moved = "n bigint, o bigint", "m bigint, n bigint"
    before = GROUPED.says["FIELDS"]
    assert found(operators=swapped(GROUPED, FIELDS=named)) == [(Aspect.FIELDS, before, named)]
    assert found(operators=swapped(GROUPED, FIELDS=moved)) == [(Aspect.FIELD_PLACES, before, moved)]
    older = replace(QUERY, operators=(replace(GROUPED, says={"GROUPS": "k"}),))
    assert query_changes("t", older, QUERY) == [], "an older version said nothing of the fields"
    assert found(operators=swapped(JOINED, LIMIT="5")) == [(Aspect.LIMIT, "none", "5")]


def test_a_start_is_refused_or_hears_what_has_changed() -> None:
    other = replace(QUERY, operators=(replace(KEYED, says={"COLUMNS": "a, c"}),))
    (named,) = settle_query("t", QUERY, other)
    assert str(named) == (
        "t: the columns by which duplicates are recognised was a, b, and is now a, c: "
        "new rows are compared with the values of the old columns"
    )
    with pytest.raises(RestoreError) as refused:
        settle_query("t", QUERY, replace(other, aggregates=((HOUR,), ("1 day",))))
    assert refused.value.code == "STATE_WINDOWS_CHANGED"
    assert refused.value.parameters == {"task": "t", "before": "10 minutes", "now": "1 day"}


def test_variables_are_compared_by_their_names_operator_by_operator() -> None:
    before = {0: ["seen", "last"], 1: ["seen"], 2: ["gone"]}
    now = {0: ["last", "known"], 1: ["seen"], 3: ["new"]}
    (change,) = variable_changes("t", before, now)
    assert (change.aspect, change.before, change.now) == (Aspect.VARIABLES, "last, seen", "known, last")
    assert change.rule.code is None
