"""Spark reaches the buckets that Rekindle reaches, or the job is refused before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import DefinitionError, SinkError, StorageError
from rekindle.session import connectors
from rekindle.session.connectors import check_connector, check_sees, s3a_settings
from rekindle.storage.open import open_store
from tests.jobs.kit import World, rows
from tests.servers.s3 import S3Server


def test_endpoint_and_region_of_s3a_are_those_of_the_environment_and_no_credentials_are() -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert s3a_settings(environment) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    assert s3a_settings({"AWS_ENDPOINT_URL_S3": "https://s3.example", "AWS_ENDPOINT_URL": "https://x"}) == {
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "true",
    }
    assert s3a_settings({}) == {}


@pytest.mark.parametrize("place", ["storage", "sink"])
def test_a_job_on_a_session_without_s3a_is_refused_before_anything_is_written(
    spark: SparkSession, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(connectors, "_S3A_CLASS", "org.apache.hadoop.fs.s3a.NoSuchFileSystem")
    bucket, world = s3.make_bucket(), World(tmp_path)
    world.add_history(rows(0, 5))
    storage = f"s3://{bucket}/state" if place == "storage" else world.storage
    world.out = world.out if place == "storage" else f"s3://{bucket}/out"
    with pytest.raises(DefinitionError) as caught:
        world.hourly(live=False).start(spark, storage=storage)
    version = spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    assert caught.value.code == "S3A_MISSING"
    assert caught.value.next_step.endswith(f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}")
    assert open_store(storage).names("") == []


@pytest.mark.parametrize(
    ("place", "package"),
    [("gs://bucket/x", "hadoop-gcp:|gcs-connector:"), ("abfss://box@account.dfs.core.windows.net/x", "hadoop-azure:")],
)
def test_a_session_without_the_connector_of_another_cloud_is_refused_with_what_brings_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str, package: str
) -> None:
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for scheme in ("gs", "abfss"):
        conf.set(f"fs.{scheme}.impl", "no.such.FileSystem")
    monkeypatch.setattr(connectors, "_hadoop", lambda _: conf)
    with pytest.raises(DefinitionError) as caught:
        check_connector(spark, place)
    assert caught.value.code == "HADOOP_CONNECTOR_MISSING"
    assert re.search(package, caught.value.next_step)


def test_a_storage_that_spark_finds_elsewhere_or_not_at_all_is_refused(spark_on_s3: SparkSession, s3: S3Server) -> None:
    store = open_store(f"s3://{s3.make_bucket()}/a b")
    store.create("there", b"")
    check_connector(spark_on_s3, store.location)
    check_sees(spark_on_s3, store.location, store.spark_path("there"))
    for path in (store.spark_path("not there"), f"s3a://{s3.make_bucket()}-unknown/there"):
        with pytest.raises(StorageError) as caught:
            check_sees(spark_on_s3, store.location, path)
        assert caught.value.code == "STORAGE_OTHER_FOR_SPARK"


def test_each_target_in_a_bucket_is_one_that_spark_has_to_reach() -> None:
    assert rk.sinks.Parquet("s3://bucket/out").addresses == ("s3://bucket/out",)
    assert rk.sinks.Delta("s3://bucket/table").addresses == ("s3://bucket/table",)
    catalog = {"type": "sql", "warehouse": "s3://bucket/warehouse"}
    assert rk.sinks.Iceberg("local", "db.bids", properties=catalog).addresses == ("s3://bucket/warehouse",)
    assert rk.sinks.Iceberg("local", "db.bids").addresses == ()


def test_a_delta_table_in_another_kind_of_store_is_refused() -> None:
    with pytest.raises(SinkError, match="'hdfs' is not supported") as caught:
        rk.sinks.Delta("hdfs://one:8020/table").open("job-1234", "out")
    assert caught.value.code == "SINK_TARGET_INVALID"


@pytest.mark.parametrize("sink", [rk.sinks.Parquet, rk.sinks.Delta])
def test_credentials_in_an_address_are_refused_and_not_shown(sink: Any) -> None:
    with pytest.raises(SinkError, match=r"s3://\.\.\.@bucket/out: .*pass credentials in the environment") as caught:
        sink("s3://key:hunter2@bucket/out").open("job-1234", "out")
    assert "hunter2" not in str(caught.value.parameters)
