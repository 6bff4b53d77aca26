"""The refusal of Spark Connect, whose session has no JVM beside the driver."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError


def check_classic(spark: SparkSession) -> None:
    """Raise ``SPARK_CONNECT_UNSUPPORTED`` for a session without a JVM of its own."""
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jvm"):
        raise DefinitionError("SPARK_CONNECT_UNSUPPORTED")


def refuse_connect(settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise ``SPARK_CONNECT_UNSUPPORTED`` where PySpark would make such a session.

    It is known before PySpark asks for the libraries of Connect.
    """
    remote = settings.get("spark.remote") or environ.get("SPARK_REMOTE")
    if remote or settings.get("spark.api.mode", "").lower() == "connect":
        raise DefinitionError("SPARK_CONNECT_UNSUPPORTED")
