"""The lateness of a source (``watermark=``): a text that Spark reads as an interval.

Spark's versions read such texts by different rules, so only what none of them takes is refused here. Spark itself
refuses the rest when it is given the text (`rekindle.spark.inputs.watermark_rows`).
"""

from __future__ import annotations

import re
from fractions import Fraction

from rekindle.errors import ConfigError

_DAY_US = 86_400_000_000
_UNITS_US = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": _DAY_US, "week": 7 * _DAY_US, "month": 31 * _DAY_US, "year": 372 * _DAY_US,
}  # fmt: skip
"""Unit → its length for Spark, which takes 31 days for a month of a watermark, and 12 months for a year."""

_BLANK = r"[\s\x00-\x20\x7f]"
_PART = re.compile(rf"{_BLANK}*([+-]?){_BLANK}*([0-9]+\.?[0-9]*|\.[0-9]+){_BLANK}+([a-z]+)(?:{_BLANK}+|$)")
_SQL = re.compile(r"interval|.*['\"/]|.*--", re.DOTALL)
"""The beginning of a text that is SQL: with the word INTERVAL, a string or a comment."""


def check_lateness(key: str, value: object) -> None:
    """Refuse a text that is certainly no interval for Spark, or one below zero.

    Raises:
        ConfigError: ``VALUE_INVALID``.
    """
    text = str(value).lower()
    if _SQL.match(text.lstrip()):
        understood, total = any(letter.isdigit() for letter in text), Fraction(0)
    else:
        understood, total = _sum_of_parts(text)
    if not understood or total < 0:
        reason = "less than nothing" if understood else "not an interval of Spark's"
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason=reason, example="'10 minutes'")


def _sum_of_parts(text: str) -> tuple[bool, Fraction]:
    """Return whether a text is made of numbers with units, and their sum in microseconds."""
    total, place = Fraction(0), 0
    while match := _PART.match(text, place):
        sign, number, unit = match.groups()
        unit = unit if unit in _UNITS_US else unit.removesuffix("s")
        if unit not in _UNITS_US or ("." in number and unit != "second"):
            return False, total
        total += Fraction(f"{sign}0{number}") * _UNITS_US[unit]
        place = match.end()
    return place > 0 and place == len(text), total
