"""Streams of Spark's that are bound to what is there now, as ``Trigger.AvailableNow`` binds them.

That trigger would end a query also where tasks in front of it have not written everything yet. So our queries keep
theirs, and their streams are asked, as that trigger asks them, to find nothing beyond what they have now. The streams
of a query that runs are no part of Spark's public interface; what is asked of them is.
"""

from __future__ import annotations

from collections.abc import Collection

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from rekindle.spark.streaming.running_plan import running_query

_BINDABLE = "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow"


def bind(spark: SparkSession, numbers: Collection[int]) -> Collection[int]:
    """Bind streams of the query whose batch is on this thread to what is there; return those that cannot be bound.

    Args:
        numbers: the streams, by their places among the sources of the query.
    """
    gateway, sources, unbound = spark.sparkContext._gateway, running_query(spark).sources(), set[int]()
    for number in numbers:
        source = sources.apply(number)
        if is_instance_of(gateway, source, _BINDABLE):
            source.prepareForTriggerAvailableNow()
        else:
            unbound.add(number)
    return unbound
