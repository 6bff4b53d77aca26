"""Plans that Spark's optimizer makes for batches of a streaming query, judged without running the query.

A batch is planned by what it holds, but the state of the query holds rows of all the other batches. So a plan is right
only if it is right whatever the inputs hold. A test says which inputs have rows in a batch, which have a watermark row,
and which have nothing. It takes the plan that Spark would run, and

- puts all rows of all inputs into it (`BatchPlan.with_all_rows`): what comes out has to be what a batch query gives;
- compares it with the plan of a batch in which each input has something (`BatchPlan.like`, `BatchPlan.stateful`).

Nothing is written, no query is started, and the rows of many plans are computed as one job.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rekindle.channels.marks import MARK_COLUMN
from rekindle.spark.inputs.watermark_rows import ABSENT
from tests.spark.dealing import DDL, Dealt, Row, micros, united, unpacked

Contents = tuple[bool, bool]
"""Whether a batch has rows of an input, and whether it has a watermark row."""

CONTENTS: tuple[Contents, ...] = ((True, True), (True, False), (False, True), (False, False))

_LINE = re.compile(r"([ :+-]*)~?(.*)")
_ID = re.compile(r"#(\d+)L?")
_UUID = re.compile(r"EventTimeWatermark ([0-9a-f-]{36})")
_MARKED = "SPARK_PARTITION_ID"
"""Only in the filter that drops watermark rows."""

_NOTHING = "nothing"
_INDENT = 3
_STATEFUL = ("Join", "Aggregate", "Deduplicate", "Distinct")


@dataclass(frozen=True)
class _Source:
    """One place of a query that reads an input: its rows, or its watermark rows."""

    name: str
    rows: bool
    #: in the query
    leaf: Any
    #: in a batch in which it has brought something, and in another one
    there: Any
    absent: Any
    #: the identity of its first column there, which the optimizer keeps
    key: str


@dataclass(frozen=True)
class _Step:
    """A node of a plan, by its number from the top, as its line of the plan's text has it."""

    number: int
    depth: int
    text: str


class BatchPlans:
    """Make plans of queries over the same inputs; all that the inputs hold has been dealt."""

    def __init__(self, spark: Any, inputs: Sequence[Dealt]) -> None:
        self.spark = spark
        self.inputs = {each.name: each for each in inputs}
        self.scala = spark._jvm.PythonUtils
        self._none = spark._jvm.scala.Option.apply(None)
        self._nil = self.scala.toSeq([])
        self.optimizer = spark._jsparkSession.sessionState().optimizer()
        self._one_task = spark._jvm.org.apache.spark.sql.catalyst.plans.logical.Repartition
        self.named = {
            found: each.name for each in inputs for found in _UUID.findall(_analyzed(each.frame).treeString())
        }
        self._rows: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._read = {(each.name, rows): self._relation(each, rows) for each in inputs for rows in (True, False)}
        self._empty = _optimized(spark.sql("SELECT * FROM VALUES (1) AS t(x) WHERE false"))

    def query(self, frame: Any) -> Planned:
        """Take a query apart."""
        return Planned(self, _analyzed(frame))

    def source(self, leaf: Any) -> _Source:
        """One source of a query, with what a batch has in its place: what it has brought, under the query's names."""
        found = re.search(r"/(inbox|marks)/(\w+)\]", leaf.productElement(1))
        assert found, leaf
        name, rows = found[2], found[1] == "inbox"
        read = _copy(self._read[name, rows].newInstance(), {3: True})
        there = self.renamed(read, leaf.output())
        key = str(read.output().head().exprId().id())
        return _Source(name, rows, leaf, there, self.empty(leaf.output(), streaming=True), key)

    def renamed(self, plan: Any, columns: Any) -> Any:
        """The plan with these columns' names and identities, by position."""
        catalyst = self.spark._jvm.org.apache.spark.sql.catalyst
        given = [
            catalyst.expressions.Alias(its, mine.name(), mine.exprId(), mine.qualifier(), self._none, self._nil)
            for its, mine in zip(_each(plan.output()), _each(columns), strict=True)
        ]
        return catalyst.plans.logical.Project(self.scala.toSeq(given), plan)

    def empty(self, columns: Any, *, streaming: bool) -> Any:
        """What a batch has in place of a source that has brought nothing."""
        return _copy(self._empty, {0: columns, 2: streaming})

    def all_rows(self, name: str, columns: Any) -> Any:
        """All rows of an input, as a relation that is no stream."""
        names = tuple(each.name() for each in _each(columns))
        if (name, names) not in self._rows:
            chosen = [each if each in ("ts", "k", "v") else "false" for each in names]  # they have no watermark row
            self._rows[name, names] = _optimized(self.table(name).selectExpr(*chosen)).collectLeaves().head()
        return self._one_task(1, False, _copy(self._rows[name, names], {0: columns}))

    def table(self, name: str) -> Any:
        """All rows of an input, as a batch."""
        rows = ", ".join(map(_literal, self.inputs[name].rows))
        typed = "timestamp_micros(_1) AS ts, bigint(_2) AS k, bigint(_3) AS v"
        return self.spark.sql(f"SELECT {typed} FROM VALUES {rows} AS t(_1, _2, _3)").coalesce(1)

    def compute(self, plans: Sequence[Any]) -> list[Counter[str]]:
        """What plans of one column of text give; none of them is a stream."""
        from pyspark.sql import DataFrame

        of_rows = self.spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        frames = [DataFrame(of_rows(self.spark._jsparkSession, plan), self.spark) for plan in plans]
        return unpacked((row[0] for row in united(frames).collect()), len(plans))

    def replaced(self, plan: Any, parts: Mapping[Any, Any]) -> Any:
        """The plan with other parts. A map of Scala's is a function, so this is one call."""
        return plan.transformDown(self.scala.toScalaMap(dict(parts)))

    def _relation(self, dealt: Dealt, rows: bool) -> Any:
        # A mark's file is read with one column for each of the data's, none of which it has.
        schema = DDL if rows else f"{MARK_COLUMN} timestamp, {ABSENT} int"
        return _analyzed(self.spark.read.schema(schema).parquet(dealt.path("inbox" if rows else "marks")))


class Planned:
    """A query over some of the inputs."""

    def __init__(self, plans: BatchPlans, plan: Any) -> None:
        self._plans, self._plan = plans, plan
        self._sources = [plans.source(leaf) for leaf in _each(plan.collectLeaves())]

    def plan(self, contents: Mapping[str, Contents]) -> BatchPlan:
        """Return the plan of a batch that holds this of each input."""
        present = {each: contents[each.name][0 if each.rows else 1] for each in self._sources}
        parts = {each.leaf: each.there if there else each.absent for each, there in present.items()}
        optimized = self._plans.optimizer.execute(self._plans.replaced(self._plan, parts))
        return BatchPlan(self._plans, optimized, {each.key: each for each, there in present.items() if there})

    @cached_property
    def full(self) -> BatchPlan:
        """The plan of a batch in which each input has rows and a watermark row."""
        return self.plan({each.name: (True, True) for each in self._sources})


class BatchPlan:
    """What Spark would run as one batch."""

    def __init__(self, plans: BatchPlans, plan: Any, present: Mapping[str, _Source]) -> None:
        self._plans, self._plan, self._present = plans, plan, present
        found = map(_LINE.match, plan.treeString().splitlines())
        self._nodes = [_Step(number, len(each.group(1)), each.group(2)) for number, each in enumerate(found) if each]

    def stateful(self) -> list[str]:
        """Return the steps that have state, in the plan's order, without the numbers of columns."""
        return [_ID.sub("", node.text) for node in self._nodes if node.text.startswith(_STATEFUL)]

    def like(self, full: BatchPlan, *, filters: bool) -> bool:
        """Whether the batch is planned like one in which each input has something.

        Args:
            filters: the filters have to be the same, too. Fewer can be right: of what is computed of nothing the
                optimizer infers no filter for the other side of a join.
        """
        kept = [
            _numbered((each.depth, each.text) for each in (steps if filters else _without_filters(steps)))
            for steps in (self._steps(self._present), full._steps(self._present))
        ]
        return kept[0] == kept[1]

    def with_all_rows(self, full: BatchPlan) -> Any:
        """Return the plan over all rows of all inputs, in which nothing is a stream.

        An input of which the batch has no rows is replaced with what its filter of watermark rows lets through, since
        the optimizer may know, below that filter, that there are none. If it has no watermark, what the optimizer has
        computed of nothing is taken from the full plan, which has to be alike.
        """
        parts: dict[Any, Any] = {}
        inside: set[int] = set()
        for number, node in enumerate(self._nodes):
            if found := _UUID.match(node.text):
                below = self._below(number)
                inside.update(below)
                if not any(self._present[key].rows for each in below if (key := self._relation(each))):
                    top = self._filter_of(number)
                    parts[top] = self._plans.all_rows(self._plans.named[found[1]], top.output())
        for number, node in enumerate(self._nodes):
            if key := self._relation(number):
                leaf = self._plan.apply(number)
                parts[leaf] = self._filled(leaf, self._present[key])
            elif node.text.startswith("LocalRelation") and number in inside:
                leaf = self._plan.apply(number)
                parts[leaf] = self._plans.empty(leaf.output(), streaming=False)
        steps = (_without_filters(each._steps(self._present)) for each in (self, full))
        for mine, theirs in zip(*steps, strict=False):
            if mine.text == _NOTHING and mine.number not in inside:
                nothing = self._plan.apply(mine.number)
                parts[nothing] = self._plans.renamed(full._all_of(theirs.number), nothing.output())
        whole = self._plans.replaced(self._plan, parts)
        assert not whole.isStreaming(), whole.treeString()
        return whole

    def _steps(self, present: Mapping[str, _Source]) -> list[_Step]:
        """The nodes; what is computed of a source alone that is not present is one, nothing, as Spark has it."""
        steps: list[_Step] = []
        number = 0
        while number < len(self._nodes):
            end = number
            while self._nodes[end].text.startswith(("Project", "Filter")) and _MARKED not in self._nodes[end].text:
                end += 1
            node, leaf = self._nodes[number], self._nodes[end].text
            if leaf.startswith("LocalRelation") or ((key := self._relation(end)) and key not in present):
                steps.append(_Step(number, node.depth, _NOTHING))
                number = end
            else:
                steps.append(_Step(number, node.depth, node.text))
            number += 1
        return steps

    def _relation(self, number: int) -> str | None:
        """The key of the source that a node reads."""
        text = self._nodes[number].text
        return _ID.findall(text)[0] if text.startswith("Relation") else None

    def _filled(self, leaf: Any, source: _Source) -> Any:
        if source.rows:
            return self._plans.all_rows(source.name, leaf.output())
        return self._plans.empty(leaf.output(), streaming=False)

    def _all_of(self, number: int) -> Any:
        """What is computed of one source, over all rows of it."""
        leaf = next(each for each in range(number, len(self._nodes)) if self._relation(each))
        node, key = self._plan.apply(leaf), self._relation(leaf)
        assert key
        return self._plans.replaced(self._plan.apply(number), {node: self._filled(node, self._present[key])})

    def _below(self, number: int) -> list[int]:
        found = []
        for each in range(number + 1, len(self._nodes)):
            if self._nodes[each].depth <= self._nodes[number].depth:
                break
            found.append(each)
        return found

    def _filter_of(self, number: int) -> Any:
        """The filter that drops watermark rows, above a watermark; only what has one input is between them."""
        for each in range(number - 1, -1, -1):
            if _MARKED in self._nodes[each].text:
                return self._plan.apply(each)
        raise AssertionError(f"no filter of watermark rows in {self._plan.treeString()}")

    def text(self) -> list[str]:
        """Return the plan's text, with the columns numbered in its own order."""
        return text_of(self._plan)

    def __str__(self) -> str:
        return str(self._plan.treeString())


def text_of(plan: Any) -> list[str]:
    """Return a plan's text, with the columns numbered in its own order."""
    return [text for _, text in _numbered((0, line) for line in str(plan.treeString()).splitlines())]


def _without_filters(steps: Iterable[_Step]) -> list[_Step]:
    """The steps that are no filters, as if these were not there."""
    kept: list[_Step] = []
    above: list[int] = []
    for each in steps:
        while above and each.depth <= above[-1]:
            above.pop()
        if each.text.startswith("Filter") and _MARKED not in each.text:
            above.append(each.depth)
        else:
            kept.append(replace(each, depth=each.depth - _INDENT * len(above)))
    return kept


def _numbered(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Number the columns in their own order."""
    numbers: dict[str, str] = {}
    return [(depth, _ID.sub(lambda m: numbers.setdefault(m[1], f"#{len(numbers)}"), text)) for depth, text in lines]


def _literal(row: Row) -> str:
    time, *rest = row
    values = [None if time is None else micros(time), *rest]
    return "(" + ", ".join("null" if each is None else f"{each}L" for each in values) + ")"


def _analyzed(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _optimized(frame: Any) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _copy(node: Any, changes: Mapping[int, Any]) -> Any:
    """A node of a plan with other arguments, by position; how many there are depends on the version of Spark."""
    given = (node.productElement(index) for index in range(node.productArity()))
    return node.copy(*(changes.get(index, each) for index, each in enumerate(given)))
