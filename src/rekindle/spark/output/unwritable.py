"""Rows that Spark refuses to write: columns that a format lacks, folders by a column that is missing, an unknown codec.

Each attempt would meet the same. Spark's driver says so before a task begins, by an exception with no cause: what a
server or a catalog has failed with is kept as the cause of what Spark raises then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame

from rekindle.errors import SinkError
from rekindle.session.classes import java_class
from rekindle.session.failures import brief
from rekindle.session.links import Link, chain

ANALYSIS = ("org.apache.spark.sql.AnalysisException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException")
_CODEC = "CODEC_NOT_AVAILABLE"
_LONGEST_NAME = 255
"""Bytes of a file's name, on Linux and on macOS; HDFS and buckets have limits of their own."""
_MKDIRS = re.compile(r"Mkdirs failed to create (.+?)(?: \(exists=.*)?$", flags=re.DOTALL)
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


def channel_of(task: str) -> str:
    """Return the name of a task's channel, for people."""
    return f"the channel of task {task!r}"


def refuse_unwritable(output: str, frame: DataFrame) -> None:
    """Refuse columns that Parquet has no type for, before anything is written.

    Raises:
        SinkError: ``ROWS_UNWRITABLE``.
    """
    made, schema = java_class(frame.sparkSession._jvm, _PARQUET)(), frame._jdf.schema()
    for number, field in enumerate(frame.schema):
        if not made.supportDataType(schema.apply(number).dataType()):
            reason = f"column {field.name!r} is {field.dataType.simpleString()}, which Parquet has no type for"
            raise SinkError("ROWS_UNWRITABLE", output=output, reason=reason)


@contextmanager
def named_where_unwritable(output: str) -> Iterator[None]:
    """Raise such a refusal as an error of the output.

    Raises:
        SinkError: ``ROWS_UNWRITABLE``.
    """
    try:
        yield
    except Exception as error:
        links = chain(error)
        if len(links) == 1 and (links[0].name in ANALYSIS or links[0].condition.startswith(_CODEC)):
            raise SinkError("ROWS_UNWRITABLE", output=output, reason=brief(error)) from error
        if (name := _too_long(links)) is not None:
            reason = f"the folder of a partition would have a name of {len(name.encode())} bytes: {name[:60]}..."
            raise SinkError("ROWS_UNWRITABLE", output=output, reason=reason) from error
        raise


def _too_long(links: Sequence[Link]) -> str | None:
    """Return the name of a folder that no file system takes; None where none failed for that."""
    for link in links:
        made = _MKDIRS.match(link.message) if link.raised_by.startswith("org.apache.hadoop.") else None
        for name in made[1].split("/") if made else ():
            if len(name.encode()) > _LONGEST_NAME:
                return name
    return None
