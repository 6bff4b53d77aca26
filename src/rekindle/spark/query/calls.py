"""The function that Spark's thread of a query calls in Python, and the connection over which it does.

Each start of a query has a thread of its own in the JVM. py4j opens a connection for each thread that calls Python, and
keeps it after the thread has ended: a socket on either side, buffers, and a thread in Python that waits for the next
call. A query is started again after so many batches, and whenever its task has failed. So its connection is closed when
it has ended, by calls that py4j has made public.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.spark.query.unknown_offsets import give_offsets

_LOG = logging.getLogger(__name__)


class Calls:
    """A function for ``foreachBatch``, of one start of a query.

    Args:
        function: what is done with each batch.
    """

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], None]) -> None:
        self._spark = spark
        self._function = function
        #: called once; py4j's client of Python in the JVM, and its connection of the query's thread
        self._called = False
        self._client: Any = None
        self._connection: Any = None

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Carry out a batch."""
        if not self._called:
            self._called = True
            self._note_connection()
            give_offsets(self._spark)
        self._function(df, batch)

    def close(self) -> None:
        """Close the connection; the query has ended."""
        client, connection = self._client, self._connection
        self._client = self._connection = None
        if connection is None:
            return
        try:
            connection.shutdown()
            client.connectionStopped(connection)  # the client forgets it
        except Exception as error:  # the JVM is gone, and its connections with it
            _LOG.debug("The connection of a query could not be closed: %s", error)

    def _note_connection(self) -> None:
        """Ask for the connection of this thread: what Python asks for inside a call, the thread that calls answers."""
        context: Any = self._spark.sparkContext
        try:
            self._client = context._gateway.java_gateway_server.getCallbackClient()
            self._connection = self._client.getPerThreadConnection()
        except Exception as error:  # threads are not pinned (PYSPARK_PIN_THREAD): py4j then closes what is not used
            _LOG.debug("The connection of a query cannot be closed at its end: %s", error)
