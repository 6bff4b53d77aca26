"""The data sources that Spark does not bring: the error where one is missing names its package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rekindle.errors import DefinitionError

_NOT_FOUND = re.compile(r"find (?:the )?data source: ([\w.-]*\w)")
"""Spark's words where it has no data source of a name."""

_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException")

_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "avro": "org.apache.spark:spark-avro_{scala}:{spark}",
    "delta": "io.delta:delta-spark_{scala}:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{line}_{scala}:VERSION",
}
"""Name of a data source → the Maven coordinates of its package; ``VERSION`` is not Spark's."""

_OTHERS = {("kafka", "4.3"): "4.2.0"}
"""Name of a data source and line of Spark → the version to take where Maven Central has none of Spark's own."""


def connector_missing(error: Exception, spark_version: str) -> DefinitionError | None:
    """Return ``CONNECTOR_MISSING`` if an error is Spark's of a data source that it does not have."""
    found = _NOT_FOUND.search(str(error))
    if found is None:
        return None
    name, line = found[1], ".".join(spark_version.split(".")[:2])
    scala = "2.12" if line.startswith("3.") else "2.13"
    version = _OTHERS.get((name.lower(), line), spark_version)
    package = _PACKAGES.get(name.lower(), "GROUP:ARTIFACT:VERSION").format(scala=scala, spark=version, line=line)
    return DefinitionError("CONNECTOR_MISSING", format=name, package=package)


@contextmanager
def driver_needed(url: str) -> Iterator[None]:
    """Raise ``JDBC_DRIVER_MISSING`` for the error of a JDBC driver which Spark does not have."""
    try:
        yield
    except Exception as error:
        if not _NO_DRIVER.search(str(error)):
            raise
        raise DefinitionError("JDBC_DRIVER_MISSING", kind=url.split(":")[1]) from error
