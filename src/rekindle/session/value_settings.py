"""Settings of a session with which one query computes different values."""

from __future__ import annotations

from pyspark.sql import SparkSession

_VALUES_DEPEND_ON = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings with which one query computes different values, and which Spark does not keep for a query that resumes."""

_UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu"})


def value_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings that values depend on, with one name for UTC; see `Engine`."""
    found = {key: spark.conf.get(key) or "" for key in _VALUES_DEPEND_ON}
    return {key: "UTC" if value in _UTC else value for key, value in found.items()}
