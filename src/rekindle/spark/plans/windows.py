"""How long the windows of a query are, so that none counts into old ones what belongs to new ones.

Spark keeps a window's begin and end as the key of its state and nothing of how it came to them. A query whose windows
have another length finds its old state readable: the old windows stay among the new ones, come out with what had been
counted until then, and the new ones begin at zero. So each batch record says what the windows of the query were.

A window is described by the numbers in the expression that Spark makes of it, which are its length, its slide and its
offset. Another version of Spark may make another expression, so descriptions are compared within one version only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyspark
from pyspark.sql import DataFrame

from rekindle.errors import RestoreError
from rekindle.spark.plan_text import tree
from rekindle.spark.plans.aggregates import computed_by
from rekindle.storage.documents.batch import Windows

_AGGREGATE = re.compile(r" *~Aggregate ")
_MADE = re.compile(r"named_struct\(start, .*?precisetimestampconversion.*?, end, .*?(?=named_struct\(|\) AS |$)")
"""The expressions of windows in a node; sessions are among them."""

_NUMBER = re.compile(r"(?<![#\w.])\d+(?: (?:micro|milli)?(?:second|minute|hour|day|week|month|year)s?\b)?")
_MICROSECONDS = 1_000_000


def windows_of(frame: DataFrame) -> Windows:
    """The windows of each aggregate of a query, and what it computes."""
    found: list[set[str]] = []
    for line in tree(frame):
        if _AGGREGATE.match(line):
            found.append(set())
        elif found:
            found[-1].update(number for made in _MADE.findall(line) for number in _NUMBER.findall(made))
    described = tuple(tuple(sorted(numbers - {"0", "1"})) for numbers in found)
    windows = tuple(each for each in described if each)
    return Windows(spark=_version(), aggregates=windows, computed=computed_by(frame))


def refuse_other_windows(task: str, before: Windows | None, now: Windows) -> None:
    """Compare a query with the one that left the state; what cannot be compared is accepted.

    Raises:
        RestoreError: ``STATE_WINDOWS_CHANGED``.
    """
    if before is None or before.spark != now.spark or len(before.aggregates) != len(now.aggregates):
        return
    for old, new in zip(before.aggregates, now.aggregates, strict=True):
        if old != new:
            raise RestoreError("STATE_WINDOWS_CHANGED", task=task, before=_said(old), now=_said(new))


def _said(numbers: Sequence[str]) -> str:
    """Spark counts windows in microseconds, and writes sessions out."""
    spelled = [number if " " in number else f"{int(number) / _MICROSECONDS:g} seconds" for number in numbers]
    return ", ".join(spelled)


def _version() -> str:
    return ".".join(pyspark.__version__.split(".")[:2])
