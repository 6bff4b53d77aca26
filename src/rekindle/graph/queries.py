"""The identity of a task's query, and the changes that alter what its state means.

Spark compares the types of a state and the names of its operators with those of a query, the names since 4.0, and when
it plans the first batch. A query whose windows have another length, whose ``max`` takes the place of a ``sum``, or
which drops duplicates by other columns finds its old state readable and continues with it. So each batch record has a
`QueryDescription`, and a start compares it with that of the new query. Some differences are refused: rows would
certainly be wrong or lost. Others are reported: only the user knows whether they are meant. `RULES` has both, and
docs/change.md is made from it.

A description comes from Spark's expressions, which another version may write in another way. Two descriptions that
different versions made are compared by the kinds of their operators only, whose names are our own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rekindle.errors import RestoreError

KEY = "by "
"""The prefix of the keys of an aggregate in `QueryDescription.computed`."""

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of a query whose meaning cannot be read from its state."""

    #: for example ``deduplication``
    kind: str
    #: property of the operator → its value, as Spark writes the expression
    says: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDescription:
    """A query, as far as its state depends on it."""

    #: version of Spark that described it, for example "4.3"
    spark: str
    #: for each aggregate with windows: the numbers of their definition in microseconds, or the gap of a session as text
    aggregates: tuple[tuple[str, ...], ...] = ()
    #: for each aggregate: its keys and functions, in the order of the state, for example "by k", "sum(v)"
    computed: tuple[tuple[str, ...], ...] = ()
    #: the other operators that keep state; empty where an older version wrote it
    operators: tuple[Operator, ...] = ()
    #: the kinds of all operators that keep state, in the order of the plan; None where an older version wrote it
    kinds: tuple[str, ...] | None = None


class Aspect(Enum):
    """A part of a query that can change. The value is the wording that a person reads."""

    KINDS = "the operators that keep state, or their order"
    WINDOWS = "the length, slide or offset of a window"
    FUNCTION = "another function in the place of an aggregate, or aggregates or keys that change places"
    EXPRESSION = "what an aggregate, or a key of one, is computed from"
    COLUMNS = "the columns by which duplicates are recognised"
    PLACES = "the same columns by which duplicates are recognised, in another order"
    JOIN = "the kind of a join"
    CONDITION = "the condition of a join, or its time range"
    DELAY = "the delay of a watermark, or its column"
    GROUPS = "the keys of groups with state of their own"
    FIELDS = "the fields of a state of groups (applyInPandasWithState)"
    FIELD_PLACES = "the same fields of a state of groups, in another order"
    VARIABLES = "the variables of a transformWithState"
    TIMES = "the time mode or time-out of groups with state of their own"
    LIMIT = "the number of rows of a limit"
    OUTPUT_MODE = "the output mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRule:
    """The decision of a start about a change of a query."""

    #: consequence for the rows
    then: str
    #: code of the error, if it is refused; None: Spark accepts it, and the start reports it
    code: str | None = None


RULES: dict[Aspect, QueryRule] = {
    Aspect.KINDS: QueryRule(
        then="Spark would leave old state out, or take it for that of another operator", code="STATE_OPERATORS_CHANGED"
    ),
    Aspect.WINDOWS: QueryRule(then="old windows would come out incomplete", code="STATE_WINDOWS_CHANGED"),
    Aspect.FUNCTION: QueryRule(
        then="the old values would be taken for those of the new functions", code="STATE_AGGREGATES_CHANGED"
    ),
    Aspect.EXPRESSION: QueryRule(then="the aggregate continues from the result of the old expression"),
    Aspect.COLUMNS: QueryRule(then="new rows are compared with the values of the old columns"),
    Aspect.PLACES: QueryRule(
        then="values of one column would be compared with those of another", code="STATE_AGGREGATES_CHANGED"
    ),
    Aspect.JOIN: QueryRule(then="waiting rows were kept for the old kind of join"),
    Aspect.CONDITION: QueryRule(
        then="waiting rows are joined by the new condition; rows that the old one let go are not kept"
    ),
    Aspect.DELAY: QueryRule(
        then="it applies from the next batch on; the watermark never goes back, and what was late stays dropped"
    ),
    Aspect.GROUPS: QueryRule(then="new rows find the groups that the old keys have made"),
    Aspect.FIELDS: QueryRule(then="values are found by their place: the first field has what the first one had"),
    Aspect.FIELD_PLACES: QueryRule(
        then="values of one field would be taken for those of another", code="STATE_AGGREGATES_CHANGED"
    ),
    Aspect.VARIABLES: QueryRule(then="a new one begins without values, and those of one that is gone are not read"),
    Aspect.TIMES: QueryRule(then="existing timers and time-outs were set under the old mode"),
    Aspect.LIMIT: QueryRule(then="rows that were counted stay counted"),
    Aspect.OUTPUT_MODE: QueryRule(then="sinks get rows of another kind from the next batch on"),
}
"""The rule for each part of a query that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChange:
    """One difference between a query and the query that left the state."""

    task: str
    aspect: Aspect
    before: str
    now: str

    @property
    def rule(self) -> QueryRule:
        """The rule for its aspect."""
        return RULES[self.aspect]

    def __str__(self) -> str:
        return f"{self.task}: {self.aspect.value} was {self.before}, and is now {self.now}: {self.rule.then}"


def query_changes(task: str, before: QueryDescription | None, now: QueryDescription) -> list[QueryChange]:
    """Return the changes since the query that left the state; [] if there is none to compare."""
    if before is None:
        return []
    found = [*_kinds(before, now)]
    # What each operator keeps is compared if they are the same operators, described by the same Spark.
    if not found and before.spark == now.spark:
        found = [*_windows(before, now), *_computed(before, now), *_operators(before.operators, now.operators)]
    return [QueryChange(task=task, aspect=which, before=old, now=new) for which, old, new in found]


def settle_query(task: str, before: QueryDescription | None, now: QueryDescription) -> list[QueryChange]:
    """Refuse a change that makes rows wrong; return the changes that Spark accepts and that alter the output.

    Raises:
        RestoreError: ``STATE_OPERATORS_CHANGED``, ``STATE_WINDOWS_CHANGED``, ``STATE_AGGREGATES_CHANGED``.
    """
    found = query_changes(task, before, now)
    for one in found:
        if one.rule.code is not None:
            raise RestoreError(one.rule.code, task=task, before=one.before, now=one.now)
    return found


def variable_changes(
    task: str, before: Mapping[int, Collection[str]], now: Mapping[int, Collection[str]]
) -> list[QueryChange]:
    """Return the changes of variables, which are in no description: Spark learns them when it plans the first batch.

    Args:
        before: number of an operator → names of the variables that it has left.
    """
    return [
        QueryChange(task=task, aspect=Aspect.VARIABLES, before=", ".join(sorted(old)), now=", ".join(sorted(new)))
        for number, old in before.items()
        if (new := now.get(number)) is not None and set(new) != set(old)
    ]


_Found = Iterator[tuple[Aspect, str, str]]


def _kinds(before: QueryDescription, now: QueryDescription) -> _Found:
    if before.kinds is not None and now.kinds is not None and before.kinds != now.kinds:
        yield Aspect.KINDS, ", ".join(before.kinds) or "none", ", ".join(now.kinds) or "none"


def _windows(before: QueryDescription, now: QueryDescription) -> _Found:
    if len(before.aggregates) == len(now.aggregates):
        for old, new in zip(before.aggregates, now.aggregates, strict=True):
            if old != new:
                yield Aspect.WINDOWS, _seconds(old), _seconds(new)


def _seconds(numbers: Sequence[str]) -> str:
    """Return the definition of a window in seconds; the gap of a session is text already."""
    spelled = [number if " " in number else f"{int(number) / _MICROSECONDS:g} seconds" for number in numbers]
    return ", ".join(spelled)


def _computed(before: QueryDescription, now: QueryDescription) -> _Found:
    if len(before.computed) != len(now.computed):
        return
    for old, new in zip(before.computed, now.computed, strict=True):
        # If an aggregate has more or fewer functions, its types differ and Spark refuses it.
        if old == new or len(old) != len(new):
            continue
        other = _functions(old) != _functions(new) or sorted(old) == sorted(new)
        yield Aspect.FUNCTION if other else Aspect.EXPRESSION, ", ".join(old), ", ".join(new)


def _functions(computed: Sequence[str]) -> list[str]:
    return [KEY if text.startswith(KEY) else text.partition("(")[0] for text in computed]


def _operators(before: Sequence[Operator], now: Sequence[Operator]) -> _Found:
    """Compare operators of one kind with each other, in their order."""
    for kind in dict.fromkeys(one.kind for one in before):
        old = [one.says for one in before if one.kind == kind]
        new = [one.says for one in now if one.kind == kind]
        for was, is_now in zip(old, new, strict=False):
            for name in (*was, *(name for name in is_now if name not in was)):
                one, other = was.get(name, "none"), is_now.get(name, "none")
                # A later version may say more; one before this said nothing of the fields, which are never none.
                unknown = name not in Aspect.__members__ or (name == Aspect.FIELDS.name and name not in was)
                if one != other and not unknown:
                    yield _of(Aspect[name], one, other), one, other


def _of(found: Aspect, before: str, now: str) -> Aspect:
    moved = _MOVED.get(found)
    return moved if moved is not None and sorted(before.split(", ")) == sorted(now.split(", ")) else found


_MOVED = {Aspect.COLUMNS: Aspect.PLACES, Aspect.FIELDS: Aspect.FIELD_PLACES}
"""The aspect if the same columns, or fields, come in another order."""
