"""Whatever a batch holds, Spark's optimizer plans it for the rows of all batches: random queries, planned and not run.

A case is a query and what one batch holds: of each input rows, a watermark row, both, or nothing. A failure shows the
seed. `test_joins_differential.py` runs such queries as streams.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from rekindle.spark.inputs import watermark_rows as inputs
from rekindle.spark.query.optimizer import same_for_each_batch, started_with
from tests.spark.batch_plans import CONTENTS, BatchPlans, Contents, text_of
from tests.spark.dealing import Dealt, at, having_set, lines, shown, streamed, united, unpacked
from tests.spark.random_queries import deal_at_once, dealt, join, query, range_of, windows
from tests.spark.test_watermark_rows import literal_null

# Before that a watermark in a plan has no name of its own.
pytestmark = pytest.mark.since("4.0")

QUERIES = 8
"""Of one seed."""

BATCHES = 5
"""Of one query."""

TINY = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.debug.maxToStringFields": "1000",
}
"""What is quick for plans over a few rows: one job for all of them, with one task for each."""


@pytest.fixture(scope="module")
def tiny(spark: Any) -> Iterator[Any]:
    with having_set(spark, TINY):
        yield spark


class Uses(dict[str, Any]):
    """Frames by their names, and how often a query takes each."""

    def __init__(self, frames: Mapping[str, Any]) -> None:
        super().__init__(frames)
        self.counts: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Any:
        self.counts[name] += 1
        return super().__getitem__(name)


def faults(
    spark: Any, root: Path, seed: int, *, as_jobs_do: bool, excluded: bool = True, queries: int = QUERIES
) -> list[str]:
    """The cases of a seed whose plan is not right, and what is wrong with each.

    Args:
        as_jobs_do: exclude the rules of the optimizer that plan a batch by its data; without that, queries that need it
            are left out.
        excluded: False plants a fault, these rules for the queries that need their exclusion.
    """
    dice = random.Random(seed)
    given = dealt(dice, spark, root)
    deal_at_once(dice, given)
    names = [each.name for each in given]
    plans = BatchPlans(spark, given)
    wanted: list[Any] = []
    cases: list[tuple[int, str, Any]] = []
    found: list[str] = []
    for number in range(queries):
        one = query(dice, names, unions=as_jobs_do, runs=False)
        uses = Uses({each.name: each.frame for each in given})
        timed = lines(one.make(uses))
        settings = same_for_each_batch(timed) if as_jobs_do else {}
        # Only where all batches are planned alike can an input be without watermark rows: where no rule is excluded,
        # nothing shows in a plan how much was computed of an input that has nothing. One that is used twice has columns
        # of other names where it has something.
        bare = {name for name in names if settings and dice.random() < 0.3 and uses.counts[name] == 1}
        frames = {each.name: each.data if each.name in bare else each.frame for each in given}
        planned = plans.query(lines(one.make(frames)) if bare else timed)
        wanted.append(lines(one.make({name: plans.table(name) for name in names})))
        with started_with(spark, settings if excluded else {}):
            full = planned.full
            cases.append((number, f"seed {seed}: {one.text}, all", full.with_all_rows(full)))
            for _ in range(BATCHES):
                contents = {name: dice.choice(CONTENTS) for name in names}
                plan = planned.plan(contents)
                text = f"seed {seed}: {one.text}, {_shown(contents)}, without watermarks {sorted(bare)}\n{plan}"
                alike = plan.stateful() == full.stateful() and (not settings or plan.like(full, filters=False))
                if not alike and not settings:
                    continue  # Spark joins in another order in this batch, which is what jobs exclude the rules for
                if not alike:
                    found.append(f"{text}\nis not planned like\n{full}")
                elif not (settings and plan.like(full, filters=True)):
                    cases.append((number, text, plan.with_all_rows(full)))
    rows = plans.compute([plan for _, _, plan in cases])
    right = unpacked((row[0] for row in united(wanted).collect()), queries)
    assert any(right)
    for (number, text, _), came in zip(cases, rows, strict=True):
        if came != right[number]:
            lost, more = shown(right[number] - came), shown(came - right[number])
            found.append(f"{text}\nlost {lost}\nmore {more}")
    return found


def _shown(contents: Mapping[str, Contents]) -> str:
    words = {(True, True): "rows and mark", (True, False): "rows", (False, True): "mark", (False, False): "nothing"}
    return ", ".join(f"{name}: {words[held]}" for name, held in contents.items())


@pytest.mark.parametrize("as_jobs_do", [True, False])
def test_a_plan_is_the_one_that_spark_runs(tiny: Any, tmp_path: Path, as_jobs_do: bool) -> None:
    given = [Dealt(tiny, tmp_path, name, 2 * index) for index, name in enumerate("abc")]
    a, b, c = given
    found = windows(join("left", f"l.k = r.k and {range_of(30)}")(a.frame, b.frame.filter("v > 1")))
    frame = lines(found.alias("f").join(c.frame.alias("c"), F.expr("f.window.start < c.ts and f.n = c.v")))
    settings = same_for_each_batch(frame) if as_jobs_do else {}

    def deal() -> None:
        a.mark(at(1))
        b.deal([(at(1), 1, 2)])
        c.deal([(at(1), 1, 2)])
        c.mark(at(2))

    executed: list[Any] = []
    streamed(frame, tmp_path / "query", [deal], settings, lambda query: executed.append(query.lastExecution()))
    a.deal([(at(1), 1, 2)])
    b.mark(at(2))
    planned = BatchPlans(tiny, given).query(frame)
    with started_with(tiny, settings):
        plan = planned.plan({"a": (False, True), "b": (True, False), "c": (True, True)})
    assert plan.text() == text_of(executed[0].optimizedPlan())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_random_batches_are_planned_for_the_rows_of_all_batches(tiny: Any, tmp_path: Path, seed: int) -> None:
    """Even seeds as jobs do, odd ones without the exclusions that jobs make as well."""
    assert faults(tiny, tmp_path, seed, as_jobs_do=seed % 2 == 0) == []


def test_literal_nulls_in_watermark_rows_are_found(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_computed_null", literal_null)
    assert any("lost" in fault for fault in faults(tiny, tmp_path, 1, as_jobs_do=False, queries=4))


def test_rules_that_plan_a_batch_by_its_data_are_found(tiny: Any, tmp_path: Path) -> None:
    found = faults(tiny, tmp_path, 0, as_jobs_do=True, excluded=False, queries=4)
    assert any("not planned like" in fault for fault in found)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_thousands_of_batches_are_planned_for_the_rows_of_all_batches(tiny: Any, tmp_path: Path, chunk: int) -> None:
    for seed in range(1000 + 20 * chunk, 1020 + 20 * chunk):
        assert faults(tiny, tmp_path / str(seed), seed, as_jobs_do=seed % 2 == 0) == []
