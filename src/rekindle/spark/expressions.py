"""Expressions of Spark's plans, and the collections of them, as Python reads them. Each look is a call to the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

CATALYST = "org.apache.spark.sql.catalyst"
"""The package of Spark's plans and expressions."""


def every(found: Any) -> Iterator[Any]:
    """Return what a sequence of Scala's holds."""
    return (found.apply(index) for index in range(found.size()))


def number_of(expression: Any) -> int:
    """Return the number by which a plan knows a column: the same wherever it is read."""
    return int(expression.exprId().id())


def numbers_read(expression: Any) -> set[int]:
    """Return the numbers of the columns that an expression reads."""
    iterator, found = expression.references().iterator(), set()
    while iterator.hasNext():
        found.add(number_of(iterator.next()))
    return found


def is_a(expression: Any, kind: str) -> bool:
    """Return whether an expression is of a kind: the name of Spark's class, e.g. ``Alias``."""
    return bool(expression.nodeName() == kind)


def is_of_class(found: Any, name: str) -> bool:
    """Return whether an object of Spark's is of a class, by its name without the package."""
    return bool(found.getClass().getSimpleName() == name)


def is_attribute(expression: Any) -> bool:
    """Return whether an expression is a column that something below has made."""
    return is_a(expression, "AttributeReference")
