"""Let Spark reach the places in buckets that we reach: by Hadoop's connectors, which do not come with PySpark.

Endpoint and region of S3A are taken from the environment, where the other clients find them. Credentials are not: S3A
looks for them there by itself, and Spark hands what it finds there to its executors; so none pass through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, StorageError
from rekindle.session.classes import java_class
from rekindle.session.failures import brief
from rekindle.storage.addresses import hadoop_scheme
from rekindle.storage.open import open_store

_S3A = "spark.hadoop.fs.s3a."
_GOOGLES_OWN = "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26"
_S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def s3a_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that lead S3A where AWS's own clients go."""
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


def check_connector(spark: SparkSession, place: str) -> None:
    """See that Spark has what Hadoop reaches `place` through, if it lies in a bucket.

    Raises:
        DefinitionError: ``S3A_MISSING``, ``HADOOP_CONNECTOR_MISSING``.
    """
    scheme = hadoop_scheme(place)
    if scheme is None:
        return
    jvm: Any = spark._jvm
    try:
        if scheme == "s3a":
            java_class(jvm, "org.apache.spark.util.Utils").classForName(_S3A_CLASS, True, False)
        else:
            java_class(jvm, "org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, _hadoop(spark))
    except Py4JJavaError as error:
        version = java_class(jvm, "org.apache.hadoop.util.VersionInfo").getVersion()
        where = open_store(place).location
        if scheme == "s3a":
            raise DefinitionError("S3A_MISSING", place=where, version=version) from error
        package = _package(scheme, version)
        raise DefinitionError("HADOOP_CONNECTOR_MISSING", scheme=scheme, place=where, package=package) from error


def _package(scheme: str, version: str) -> str:
    """Return the package that brings the connector. Hadoop has one of its own for Google since 3.5."""
    if scheme != "gs":
        return f"org.apache.hadoop:hadoop-azure:{version}"
    newer = tuple(int(part) for part in version.split(".")[:2]) >= (3, 5)
    return f"org.apache.hadoop:hadoop-gcp:{version}" if newer else _GOOGLES_OWN


def _hadoop(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def check_sees(spark: SparkSession, place: str, path: str) -> None:
    """See that Spark finds the object at `path` (`Store.spark_path`), which is there, if `place` lies in a bucket.

    Raises:
        StorageError: ``STORAGE_OTHER_FOR_SPARK``.
    """
    if hadoop_scheme(place) is None:
        return
    try:
        file = java_class(spark._jvm, "org.apache.hadoop.fs.Path")(path)
        found = file.getFileSystem(_hadoop(spark)).exists(file)
        reason = f"it does not find {path}"
    except Py4JJavaError as error:
        found, reason = False, brief(error)
    if not found:
        raise StorageError("STORAGE_OTHER_FOR_SPARK", uri=place, reason=reason)
