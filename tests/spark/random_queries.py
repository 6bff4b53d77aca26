"""Random queries over a few inputs with an event time, and random ways to deal their rows out; each by its seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.channels.marks import UNORDERED_DELAY
from tests.spark.dealing import Dealt, Row, at

INPUTS = ("a", "b", "c", "d")
"""Names of inputs; a pack of queries has two to four."""

_KINDS = (UNORDERED_DELAY, UNORDERED_DELAY, "1 hour", "1 millisecond")
"""Histories and channels, streams, and histories in the order of time."""


@dataclass(frozen=True)
class Described:
    """A query and the words for it."""

    text: str
    make: Callable[[dict[str, Any]], Any]


def range_of(minutes: int, left: str = "l", right: str = "r") -> str:
    """A join's bounds in time."""
    span = f"interval {minutes} minutes"
    return f"{left}.ts between {right}.ts - {span} and {right}.ts + {span}"


def join(how: str, condition: str) -> Callable[[Any, Any], Any]:
    """A join of two frames; of an inner one the result can be joined again."""
    from pyspark.sql import functions as F

    def joined(left: Any, right: Any) -> Any:
        found = left.alias("l").join(right.alias("r"), F.expr(condition), how)
        if how == "left_semi":
            return found.select("l.ts", "l.k", "l.v")
        return found.selectExpr("l.ts", "l.k", "l.v", "r.ts AS ts2", "r.k AS k2", "r.v AS v2")

    return joined


def windows(frame: Any) -> Any:
    """Rows of each window and key."""
    from pyspark.sql import functions as F

    return frame.groupBy(F.window("ts", "5 minutes"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("v"))


def query(dice: random.Random, names: Sequence[str], *, unions: bool = True, runs: bool = True) -> Described:
    """Choose a query over some of the inputs.

    Args:
        unions: with unions of the user's own.
        runs: only what Spark runs as a stream, and gives the same rows as a batch.
    """
    kinds = [_pair, _pair, _pair, _outer, _outer, _chain, _windows_over_join]
    if unions:
        kinds += [_union_joined, _union_in_windows, _deduplicated]
    if not runs:
        kinds += [_narrowed, _narrowed, _outer_chain, _windows_over_outer]
        kinds += [_unions_joined] if unions else []
    return dice.choice(kinds)(dice, names)


def _keys(dice: random.Random) -> str:
    return dice.choice(["l.k = r.k", "l.k = r.k and l.v = r.v", "l.v = r.k", "l.k = r.k and l.v < 2", "l.k <=> r.k"])


def _pair(dice: random.Random, names: Sequence[str]) -> Described:
    left, right = dice.sample(names, 2)
    condition = _keys(dice) + dice.choice(["", f" and {range_of(dice.choice([3, 30]))}"])
    return Described(f"{left} inner {right} on {condition}", lambda of: join("inner", condition)(of[left], of[right]))


def _outer(dice: random.Random, names: Sequence[str]) -> Described:
    left, right = dice.sample(names, 2)
    how = dice.choice(["left", "right", "full", "left_semi"])
    condition = f"{_keys(dice)} and {range_of(dice.choice([3, 30]))}"
    if how == "full":  # Spark's own streaming full outer join matches a null key with a null key
        condition += " and l.k is not null and l.v is not null"
    return Described(f"{left} {how} {right} on {condition}", lambda of: join(how, condition)(of[left], of[right]))


def _chain(dice: random.Random, names: Sequence[str]) -> Described:
    order = dice.sample(names, len(names))
    conditions = [dice.choice(["l.k = r.k and l.v = r.v", "l.v = r.k", "l.k = r.v"]) for _ in order[1:]]

    def make(of: dict[str, Any]) -> Any:
        frame = of[order[0]]
        for name, condition in zip(order[1:], conditions, strict=True):
            frame = join("inner", condition)(frame, of[name]).select("ts", "k", "v2").withColumnRenamed("v2", "v")
        return frame

    return Described(f"{order} on {conditions}", make)


def _windows_over_join(dice: random.Random, names: Sequence[str]) -> Described:
    left, right = dice.sample(names, 2)
    how = dice.choice(["inner", "left"])
    condition = f"{_keys(dice)} and {range_of(dice.choice([3, 30]))}"
    return Described(
        f"windows over {left} {how} {right} on {condition}",
        lambda of: windows(join(how, condition)(of[left], of[right])),
    )


def _union(dice: random.Random, names: Sequence[str]) -> tuple[str, Callable[[dict[str, Any]], Any]]:
    from pyspark.sql import functions as F

    left, right = dice.sample(names, 2)
    marked = dice.choice([True, False])

    def make(of: dict[str, Any]) -> Any:
        frames = [of[left], of[right]]
        if marked:
            frames = [frame.withColumn("k", F.lit(number).cast("long")) for number, frame in enumerate(frames)]
        return frames[0].unionByName(frames[1])

    return f"({left} ∪ {right}{', k their number' if marked else ''})", make


def _union_joined(dice: random.Random, names: Sequence[str]) -> Described:
    text, union = _union(dice, names)
    other, condition = dice.choice(names), dice.choice(["l.k = r.k", "l.k = r.k and l.v = r.v"])
    how = dice.choice(["inner", "left", "left_semi"])
    condition += f" and {range_of(10)}"
    return Described(f"{text} {how} {other} on {condition}", lambda of: join(how, condition)(union(of), of[other]))


def _union_in_windows(dice: random.Random, names: Sequence[str]) -> Described:
    text, union = _union(dice, names)
    return Described(f"windows over {text}", lambda of: windows(union(of)))


def _deduplicated(dice: random.Random, names: Sequence[str]) -> Described:
    from pyspark.sql import functions as F

    text, union = _union(dice, names)
    if dice.random() < 0.5:
        return Described(f"{text} without duplicates", lambda of: union(of).select("ts", "k").dropDuplicates())
    return Described(
        f"distinct windows of {text}", lambda of: union(of).select(F.window("ts", "5 minutes"), "k").distinct()
    )


def _narrowed(dice: random.Random, names: Sequence[str]) -> Described:
    """Equalities and constants of the user's own beside a join, of which the optimizer can infer filters."""
    from pyspark.sql import functions as F

    left, right = dice.choice(names), dice.choice(names)
    kept = dice.choice(
        ["k = 1", "k = v", "k is null", "v in (0, 2)", "k > 0 or v is null", "ts > timestamp'2025-01-01'"]
    )
    made = dice.choice(["k", "v", "1L", "cast(null as long)", "coalesce(v, 1L)", "if(k = 1, v, null)"])
    how = dice.choice(["inner", "left", "right", "full", "left_semi"])
    condition, late = _keys(dice), dice.random() < 0.5

    def make(of: dict[str, Any]) -> Any:
        narrowed = of[left].withColumn("v", F.expr(made)).filter(kept)
        joined = join(how, condition)(narrowed, of[right])
        return joined.filter("k = 1 or v is not null") if late else joined

    text = f"({left} with v = {made} where {kept}) {how} {right} on {condition}{', narrowed after' if late else ''}"
    return Described(text, make)


def _outer_chain(dice: random.Random, names: Sequence[str]) -> Described:
    order = [dice.choice(names) for _ in range(3)]
    hows = [dice.choice(["inner", "left", "right", "full", "left_semi"]) for _ in order[1:]]
    conditions = [_keys(dice) for _ in order[1:]]

    def make(of: dict[str, Any]) -> Any:
        frame = of[order[0]]
        for name, how, condition in zip(order[1:], hows, conditions, strict=True):
            frame = join(how, condition)(frame, of[name]).select("ts", "k", "v")
        return frame

    return Described(f"{order} {hows} on {conditions}", make)


def _windows_over_outer(dice: random.Random, names: Sequence[str]) -> Described:
    left, right = dice.sample(names, 2)
    how, condition = dice.choice(["left", "right", "full"]), _keys(dice)
    return Described(
        f"windows over {left} {how} {right} on {condition}",
        lambda of: windows(join(how, condition)(of[left], of[right])),
    )


def _unions_joined(dice: random.Random, names: Sequence[str]) -> Described:
    (text, union), (other_text, other) = _union(dice, names), _union(dice, names)
    how, condition = dice.choice(["inner", "left", "full", "left_semi"]), _keys(dice)
    return Described(f"{text} {how} {other_text} on {condition}", lambda of: join(how, condition)(union(of), other(of)))


def dealt(dice: random.Random, spark: Any, root: Path) -> list[Dealt]:
    """Choose two to four inputs."""
    names = INPUTS[: dice.choice([2, 3, 3, 4])]
    return [Dealt(spark, root, name, 2 * index, dice.choice(_KINDS)) for index, name in enumerate(names)]


def deal_at_once(dice: random.Random, inputs: Sequence[Dealt]) -> None:
    """Deal all rows of all inputs, and a watermark row of each."""
    for each in inputs:
        each.deal([row for file in _files(dice, ordered=False) for row in file])
        each.mark(at(0))


def batches(dice: random.Random, inputs: Sequence[Dealt], steps: int = 4) -> list[Callable[[], None]]:
    """Choose what each batch holds: files of some inputs, only a watermark row of others, of the rest nothing.

    An input that has been read says that it has ended as soon as the dice want it, and in the last batch at the latest.
    """
    files = {each: _files(dice, ordered=each.delay == "1 millisecond") for each in inputs}
    ended: set[Dealt] = set()
    plan: list[list[tuple[Dealt, Any]]] = []
    for step in range(steps):
        acts: list[tuple[Dealt, Any]] = []
        last = step == steps - 1
        for each in inputs:
            left = files[each]
            if left and last:
                acts.append((each, [row for file in left for row in file]))
                left.clear()
            elif left and dice.random() < 0.5:
                acts.append((each, left.pop(0)))
            elif not left and each not in ended and dice.random() < 0.6:
                acts.append((each, None))
                ended.add(each)
            elif dice.random() < 0.4 and each not in ended:
                acts.append((each, at(-120)))
        if acts:
            plan.append(acts)
    # The watermark that a batch has found counts from the next one on.
    plan += [[(each, None) for each in inputs if each not in ended], [(each, None) for each in inputs]]
    return [lambda acts=acts: _deal(acts) for acts in plan if acts]


def _deal(acts: Sequence[tuple[Dealt, Any]]) -> None:
    for each, what in acts:
        if isinstance(what, list):
            each.deal(what)
        else:
            each.mark(what)


def _files(dice: random.Random, *, ordered: bool) -> list[list[Row]]:
    minutes: list[float] = [dice.randrange(0, 1200) / 60 for _ in range(dice.randrange(3, 12))]
    if ordered:
        minutes.sort()
    keys: list[int | None] = [0, 1, 2, None]
    rows: list[Row] = [(at(minute), dice.choice(keys), dice.choice(keys)) for minute in minutes]
    cut = dice.randrange(1, 4)
    return [rows[start : start + -(-len(rows) // cut)] for start in range(0, len(rows), -(-len(rows) // cut))]
