"""Settings of a session that are changed only while something is written that needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark before 4.0 refuses to write dates before 1582 and timestamps before 1900: Spark 2 would misread them.
_OLD_TIMES = ("spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite")

_LOCK = threading.Lock()
_BEFORE: dict[tuple[int, str], tuple[int, str]] = {}
"""Session and setting → how many writers use it, and its value before. In a batch run tasks share one session."""


def for_old_times(session: SparkSession) -> dict[str, str]:
    """Return the settings with which Spark writes old times as they are, unless the user chose how it does."""

    def is_ours(name: str) -> bool:
        return (id(session), name) in _BEFORE or session.conf.get(name, "EXCEPTION") == "EXCEPTION"

    return {name: "CORRECTED" for name in _OLD_TIMES if is_ours(name)}


@contextmanager
def set_while(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Hold settings inside, in any number of threads; the last one out puts back what the first one found."""
    with _LOCK:
        for name, value in settings.items():
            inside, before = _BEFORE.get((id(session), name), (0, str(session.conf.get(name))))
            _BEFORE[id(session), name] = (inside + 1, before)
            session.conf.set(name, value)
    try:
        yield
    finally:
        with _LOCK:
            for name in settings:
                inside, before = _BEFORE.pop((id(session), name))
                if inside > 1:
                    _BEFORE[id(session), name] = (inside - 1, before)
                else:
                    session.conf.set(name, before)
