"""The common part of a stream of topics and a range of them: Spark's connector, and what a user says of a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from rekindle.errors import DefinitionError
from rekindle.sources.connectors import connector_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""Topic → partition → offset: the first message to be read, or the first that is not."""

Options: TypeAlias = Mapping[str, str]


def load(reader: Any, spark: SparkSession, options: Options) -> DataFrame:
    """Return the messages that the connector reads.

    Args:
        reader: ``spark.read`` or ``spark.readStream``.

    Raises:
        DefinitionError: ``CONNECTOR_MISSING``.
    """
    try:
        frame: DataFrame = reader.format("kafka").options(**options).load()
    except Exception as error:
        if (missing := connector_missing(error, spark.version)) is not None:
            raise missing from error
        raise
    return frame


def refused(argument: str, value: object, reason: str, hint: str) -> DefinitionError:
    """Return the error of an argument of `Kafka`."""
    return DefinitionError(
        "ARGUMENT_INVALID", what="rk.sources.Kafka", argument=argument, value=value, reason=reason, hint=hint
    )
