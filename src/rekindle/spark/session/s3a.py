"""Spark must reach the places in buckets that we reach: through Hadoop's S3A, which does not come with PySpark.

Endpoint and region of S3A are taken from the environment, where the other clients find them. Credentials are not: S3A
looks for them there by itself, and Spark hands what it finds there to its executors; so none pass through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, StorageError
from rekindle.spark.failures import brief
from rekindle.storage.addresses import is_bucket
from rekindle.storage.open import open_store

_S3A = "spark.hadoop.fs.s3a."
_S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def s3a_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session that lead S3A where AWS's own clients go."""
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    settings = {f"{_S3A}endpoint.region": region} if region else {}
    if endpoint:
        secure = str(endpoint.startswith("https:")).lower()
        # Few servers but S3 itself give each bucket a host name of its own.
        settings |= {
            f"{_S3A}endpoint": endpoint,
            f"{_S3A}path.style.access": "true",
            f"{_S3A}connection.ssl.enabled": secure,
        }
    return settings


def check_s3a(spark: SparkSession, place: str) -> None:
    """See that Spark has S3A, if `place` lies in a bucket.

    Raises:
        DefinitionError: ``S3A_MISSING``.
    """
    if not is_bucket(place):
        return
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_S3A_CLASS, True, False)
    except Py4JJavaError as error:
        version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        raise DefinitionError("S3A_MISSING", place=open_store(place).location, version=version) from error


def check_sees(spark: SparkSession, place: str, path: str) -> None:
    """See that Spark finds the object at `path` (`Store.spark_path`), which is there, if `place` lies in a bucket.

    Raises:
        StorageError: ``STORAGE_OTHER_FOR_SPARK``.
    """
    if not is_bucket(place):
        return
    jvm: Any = spark._jvm
    try:
        file = jvm.org.apache.hadoop.fs.Path(path)
        found = file.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(file)
        reason = f"it does not find {path}"
    except Py4JJavaError as error:
        found, reason = False, brief(error)
    if not found:
        raise StorageError("STORAGE_OTHER_FOR_SPARK", uri=place, reason=reason)
