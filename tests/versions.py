"""Which PySpark the tests run on."""

from __future__ import annotations


def older_than(version: str) -> bool:
    """Whether the PySpark that is installed comes before `version`, e.g. ``"4.0"``."""
    import pyspark

    return [int(part) for part in pyspark.__version__.split(".")[:2]] < [int(part) for part in version.split(".")]
