"""Sources and sinks by the names that OpenLineage has for them."""

from __future__ import annotations

import os

import pytest

import rekindle as rk
from rekindle.openlineage.datasets import Dataset, of_path, of_sink, of_source

JOB = Dataset("prod", "bids")


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("/data/bids", ("file", "/data/bids")),
        ("file:///data/my%20bids", ("file", "/data/my bids")),
        ("data/bids", ("file", os.path.abspath("data/bids"))),
        ("s3a://lake/raw/bids/", ("s3://lake", "raw/bids")),
        ("s3://lake", ("s3://lake", "/")),
        ("gs://lake/raw", ("gs://lake", "raw")),
        ("hdfs://me:hunter22@namenode:8020/raw", ("hdfs://namenode:8020", "raw")),
    ],
)
def test_a_path_has_a_namespace_and_a_name(path: str, dataset: tuple[str, str]) -> None:
    assert of_path(path) == dataset


def test_a_source_is_its_paths_or_a_name_of_the_job() -> None:
    assert of_source(JOB, "history", rk.Files(["/a", "/b"], schema="x long")) == (("file", "/a"), ("file", "/b"))
    assert of_source(JOB, "live", rk.Stream(lambda spark: spark.range(1))) == (("prod", "bids.live"),)


def test_a_table_that_is_read_is_named_as_the_sink_that_writes_it() -> None:
    url = "jdbc:postgresql://db/shop?user=me&password=hunter22"
    read = of_source(JOB, "orders", rk.sources.Jdbc(url, "orders", column="id"))
    assert read == (("postgres://db:5432", "shop.public.orders"),)
    assert read == (of_sink(JOB, "out", rk.sinks.Postgres("host=db dbname=shop password=hunter22", "orders")),)
    other = rk.sources.Jdbc("jdbc:postgresql://db:5433/shop", ("raw", "or.ders"), column="id")
    assert of_source(JOB, "orders", other) == (("postgres://db:5433", "shop.raw.or.ders"),)
    query = rk.sources.Jdbc(url, query="SELECT 1 AS id", column="id")
    assert of_source(JOB, "orders", query) == (("prod", "bids.orders"),)


def test_a_topic_that_is_read_is_named_as_the_sink_that_writes_it() -> None:
    read = of_source(JOB, "clicks", rk.sources.Kafka("one:9092,two:9092", "clicks"))
    assert read == (of_sink(JOB, "out", rk.sinks.Kafka("one:9092", "clicks")),)
    several = rk.sources.Kafka("one:9092", ["clicks", "views"])
    assert of_source(JOB, "clicks", several) == (("prod", "bids.clicks"),)


def test_sinks_are_named_as_others_name_their_targets() -> None:
    def broken() -> str:
        raise RuntimeError("no vault")

    assert of_sink(JOB, "out", rk.sinks.Parquet("s3a://lake/out")) == ("s3://lake", "out")
    assert of_sink(JOB, "out", rk.sinks.Delta("/lake/out")) == ("file", "/lake/out")
    assert of_sink(JOB, "out", rk.sinks.Kafka("one:9092, two:9092", "bids")) == ("kafka://one:9092", "bids")
    dsn = "postgresql://me:hunter22@db:5433/shop"
    assert of_sink(JOB, "out", rk.sinks.Postgres(dsn, "raw.bids")) == ("postgres://db:5433", "shop.raw.bids")
    assert of_sink(JOB, "out", rk.sinks.Postgres("dbname=shop", "bids")) == (
        "postgres://localhost:5432",
        "shop.public.bids",
    )
    assert of_sink(JOB, "out", rk.sinks.Postgres(broken, "bids")) == ("prod", "bids.out")
    iceberg = rk.sinks.Iceberg("cat", "raw.bids", properties={"warehouse": "s3://lake/house"})
    assert of_sink(JOB, "out", iceberg) == ("s3://lake/house", "raw.bids")
    assert of_sink(JOB, "out", rk.sinks.Iceberg("cat", "raw.bids")) == ("iceberg", "raw.bids")
