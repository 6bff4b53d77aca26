"""What a sink has committed is read back by another instance of it, without being opened: these rows and no others."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import SinkError
from rekindle.sinks.owners import Claim
from rekindle.sinks.reading import AS_TEXT
from rekindle.sinks.two_phase import Commits, TwoPhaseSink
from rekindle.spark.comparing import Side, columns_of, compared
from rekindle.storage.open import open_store
from rekindle.testing.effects import at_moments
from rekindle.testing.sink_under_test import batch_of, permit
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

DAY = dt.date(2025, 3, 1)
AT = dt.datetime(2025, 3, 1, 12, 30, 0, 123456)  # noqa: DTZ001 - it is of both types of times
ODD = ["a b", "50%", "x=y/z", "+1", "ä", "{}", "'q'", None]


def parquet(root: Path) -> TwoPhaseSink:
    return rk.sinks.Parquet(root / "out [1]", partition_by=["k", "day"])


def delta(root: Path) -> TwoPhaseSink:
    return rk.sinks.Delta(root / "out", partition_by=["k", "day"])


def iceberg(root: Path) -> TwoPhaseSink:
    properties = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
    return rk.sinks.Iceberg("shadow", "space.out", properties=properties, partition_by=["day"])


@pytest.mark.spark
@pytest.mark.parametrize("make", [parquet, delta, iceberg], ids=lambda make: make.__name__)
def test_rows_are_read_back_with_the_columns_that_only_folders_hold(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], TwoPhaseSink]
) -> None:
    sink = make(tmp_path)
    sink.open("job", "out")
    written = []
    for number, keys in enumerate((ODD, ODD[:3], ["never"])):
        frame = spark.createDataFrame([(key, DAY, at) for at, key in enumerate(keys)], "k string, day date, n long")
        written.append(sink.prepare(frame, batch_of(number)))
    sink.commit([*written[0], *written[1]], permit(1))

    frame = make(tmp_path).read_back(spark, {1: [*written[0], *written[1]]}, job="job", sink="out")
    found = Counter((row["k"], str(row["day"]), row["n"]) for row in frame.select("k", "day", "n").collect())
    assert found == Counter((key, "2025-03-01", at) for keys in (ODD, ODD[:3]) for at, key in enumerate(keys))
    assert set(frame.columns) == {"k", "day", "n"}
    in_folders = [field.name for field in frame.schema.fields if field.metadata.get(AS_TEXT)]
    assert in_folders == ([] if make is iceberg else ["k", "day"])
    assert rk.sinks.Foreach(print).cannot_read_back is not None and sink.cannot_read_back is None


TYPES = (
    "flag boolean, small short, n long, f float, d double, money decimal(12,2), k string, raw binary, day date, "
    "at timestamp, local timestamp_ntz, nested struct<a:int,b:array<string>>, m map<string,double>"
)
VALUES = [
    (
        True,
        1,
        2**40,
        0.1,
        1e-300,
        Decimal("10.10"),
        "a\tb\\N\n'",
        b"\x00\xff",
        DAY,
        AT,
        AT,
        (1, ["x", None]),
        {"a": 0.1},
    ),
    (False, -1, 0, float("nan"), float("-inf"), Decimal("-0.01"), "", b"", DAY, AT, AT, (None, []), {}),
    (None,) * 13,
]


@pytest.mark.spark
def test_rows_of_postgres_are_read_back_by_the_numbers_of_their_checkpoints(
    spark: SparkSession, postgres: PostgresServer
) -> None:
    dsn, table, quoted = postgres.dsn(), "read back %s", "read back %%s"
    sink = rk.sinks.Postgres(dsn, table, checkpoint_column="rk %")
    sink.open("job", "out")
    sink.claim(Claim(owner="job", sink="out", storage="here", now_ms=0))
    frame = spark.createDataFrame(VALUES, TYPES)
    commits = {number: sink.prepare(frame, batch_of(number)) for number in (1, 2, 3)}
    for number, made in commits.items():
        sink.commit(made, permit(number))
    postgres.query(f"ALTER TABLE \"{quoted}\" ADD COLUMN ours text DEFAULT 'x'")

    def read(commits: Commits, job: str = "job", **options: Any) -> DataFrame:
        made = rk.sinks.Postgres(dsn, table, **{"checkpoint_column": "rk %", **options})
        return made.read_back(spark, commits, job=job, sink="out")

    found = Side(due=read({1: commits[1], 3: commits[3]}), pending=None)
    shadow = Side(due=frame.union(frame), pending=None)
    columns = columns_of(found, shadow, ())
    assert columns.both == tuple(frame.columns) and not columns.gone, "a column of others is none of its rows"
    same = compared(found, shadow, columns.both, key=(), tolerance=0.0, examples=9)
    assert (same.equal, same.missing, same.extra, same.examples) == (6, 0, 0, ())
    other = Side(due=frame.union(frame.withColumn("nested", F.col("nested").withField("a", F.lit(7)))), pending=None)
    assert compared(found, other, columns.both, key=(), tolerance=0.0, examples=0).missing == 2

    with pytest.raises(SinkError, match="belongs to job/out, and not to other/out") as refused:
        read(commits, job="other")
    assert refused.value.code == "SINK_READ_BACK_FAILED"
    without = [{name: value for name, value in one.items() if name != "checkpoint_column"} for one in commits[1]]
    with pytest.raises(SinkError, match="rows of checkpoint 1 were written without checkpoint_column"):
        read({1: without})
    postgres.query(f'ALTER TABLE "{quoted}" DROP COLUMN ours, DROP COLUMN small')
    with pytest.raises(SinkError, match="has no column 'small' any more"):
        read(commits)
    assert "mode='append'" in str(rk.sinks.Postgres(dsn, table, mode="upsert", key="k").cannot_read_back)
    assert "checkpoint_column=" in str(rk.sinks.Postgres(dsn, table).cannot_read_back)


class Topic:
    """A topic of its own, and sinks of one job that write there."""

    def __init__(self, kafka: KafkaServer, name: str, root: Path) -> None:
        self.kafka, self.name, self.root = kafka, name, root
        kafka.make_topic(name)

    def sink(self, **options: Any) -> TwoPhaseSink:
        """Return one that is not opened."""
        return rk.sinks.Kafka(self.kafka.bootstrap, self.name, **options)

    def published(self, frames: dict[int, DataFrame], **options: Any) -> dict[int, Any]:
        """Publish a frame with each of these checkpoints; return what was committed."""
        sink = self.sink(**options)
        sink.stage_in(open_store(str(self.root)), "job/sinks/out")
        sink.open("job", "out")
        made = {number: sink.prepare(frame, batch_of(number)) for number, frame in frames.items()}
        for number, one in made.items():
            sink.commit(one, permit(number))
        sink.close()
        return made

    def compared(self, commits: Commits, wanted: DataFrame, **options: Any) -> tuple[int, int, int]:
        """Compare the messages of these checkpoints with rows: equal, missing, extra."""
        sink = self.sink(**options)
        found = Side(due=sink.read_back(wanted.sparkSession, commits, job="job", sink="out"), pending=None)
        shadow = Side(due=sink.as_read_back(wanted), pending=None)
        columns = columns_of(found, shadow, ())
        assert not columns.gone and not columns.new
        same = compared(found, shadow, columns.both, key=(), tolerance=0.0, examples=3)
        return same.equal, same.missing, same.extra


@pytest.mark.spark
def test_messages_of_kafka_are_read_back_by_the_offsets_of_their_checkpoints(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = Topic(kafka, "read-back", tmp_path)
    one, two = (F.lit("a"), F.lit(1.0)), (F.lit("b"), F.lit(2.0))
    frame = spark.createDataFrame(VALUES, TYPES).withColumns({"it's": F.lit("\\"), "two": F.create_map(*one, *two)})
    wanted = frame.withColumn("two", F.create_map(*two, *one))
    options = {"key": "k", "headers": ["n", "raw"], "producers": 3}
    commits = topic.published(dict.fromkeys((1, 2, 3), frame), **options)
    kafka.send(topic.name, [(None, "of others", 0)])
    commits |= topic.published({4: frame}, **options)
    some = {number: commits[number] for number in (1, 3, 4)}
    assert topic.compared(some, wanted.union(wanted).union(wanted), **options) == (9, 0, 0)
    other = wanted.withColumn("nested", F.col("nested").withField("a", F.lit(7)))
    assert topic.compared({2: commits[2]}, other, **options) == (1, 2, 2)

    whole = {"key": "k", "value": "raw", "headers": "day"}
    made = topic.published({6: frame}, **whole)
    assert topic.compared(made, frame, **whole) == (3, 0, 0)
    with pytest.raises(SinkError, match="key, value or headers are other columns since"):
        topic.compared({1: commits[1], **made}, frame, **options)


@pytest.mark.spark
def test_messages_that_cannot_be_distinguished_from_others_are_not_read_back(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = Topic(kafka, "not-read-back", tmp_path)
    rows = spark.range(30)
    commits = topic.published({1: rows})

    def refused(commits: Commits) -> str:
        with pytest.raises(SinkError) as error:
            topic.sink().read_back(spark, commits, job="job", sink="out")
        assert error.value.code == "SINK_READ_BACK_FAILED"
        return error.value.message

    assert "of checkpoint 2 is not in the topic of commits any more" in refused({2: commits[1]})
    [one] = commits[1]
    assert "an older version" in refused({1: [{name: value for name, value in one.items() if name != "message"}]})

    def between(moment: str) -> None:
        kafka.send(topic.name, [(None, "of others", 0)])

    with at_moments(between, ["rekindle.sinks.kafka.lanes.Lane._produce"]):
        commits = topic.published({2: rows})
    with pytest.raises(Exception, match=r"has 3\d messages where checkpoint 2 has published 30"):
        topic.compared(commits, rows)
    assert rk.sinks.Kafka("host:1", "topic").cannot_read_back is None
