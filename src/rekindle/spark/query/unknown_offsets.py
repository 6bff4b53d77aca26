"""The newest offsets of a topic, which a Kafka source of Spark 4.1 has to know when its first batch ends.

After a batch, Spark reports how far each source lags. The Kafka source of Spark 4.1 then fails if it has not asked for
the newest offsets before (SPARK-55271), and the query dies. It has not where the first batch of a query was planned
earlier: by a run that was cut off, or by a flush, all of whose batches are planned so. Such a source is given an empty
map, and reports no lag.
"""

from __future__ import annotations

import logging
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from rekindle.session.classes import java_class

_LOG = logging.getLogger(__name__)

_FAILS = pyspark.__version__.startswith("4.1.")
_FIELD = "latestPartitionOffsets"


def give_offsets(spark: SparkSession) -> None:
    """Let the Kafka sources of a query report in any case; called by its own thread, in its first batch.

    Args:
        spark: the session in which it runs.
    """
    if not _FAILS:
        return
    try:
        own_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        query: Any = spark.streams._jsqm.get(own_id)
        sources = query.streamingQuery().sources()
        for index in range(sources.length()):
            source = sources.apply(index)
            if source.getClass().getSimpleName() == "KafkaMicroBatchStream":
                _give(spark, source)
    except Exception as error:
        _LOG.debug("The Kafka sources of a query cannot be reached: %s", error)


def _give(spark: Any, source: Any) -> None:
    field = source.getClass().getDeclaredField(_FIELD)
    field.setAccessible(True)
    if field.get(source) is None:
        field.set(source, getattr(java_class(spark._jvm, "scala.collection.immutable.Map$EmptyMap$"), "MODULE$"))
