"""`make bench-sinks`: bids into each sink, a checkpoint every 10 seconds, against the usual way into the same system.

The same rows, unchanged, from Parquet files: as a Rekindle job with one sink, and as a plain Structured Streaming query
with ``availableNow`` as people write it (Spark's file sink, `DataFrameWriter.jdbc` in a ``foreachBatch`` with rewritten
batches, Spark's Kafka sink). The ways into one system take turns in one Spark session; the clock runs from the start of
the job or query to its end, so for a job it has its opening and its final checkpoint in it. What was written is counted
afterwards, by another program where there is one, and has to be every row once.

PostgreSQL and Kafka are those that the tests start, on the same machine. A system that cannot be had is left out, and
the page says why.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rekindle as rk
from measuring import ROOT, SETTINGS, Agreement, agree, arguments, cpu_seconds, middle, publish, settled, where
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "examples"))

import nexmark
from tests.servers import kafka as kafka_server
from tests.servers import postgres as postgres_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rekindle.sinks import TwoPhaseSink

SCHEMA = "auction long, bidder long, price long, channel string, url string, ts timestamp"
JDBC = "org.postgresql:postgresql:42.7.7"
FILES = 16


@dataclass(frozen=True)
class Way:
    """One way into a system."""

    name: str
    system: str
    #: does it, into a fresh folder, table or topic
    write: Callable[[SparkSession, Path, Path], None]
    #: counts the rows that are there now
    count: Callable[[Path], int]
    #: makes room, before the clock runs
    prepare: Callable[[], None] = lambda: None


@dataclass
class Runs:
    """Figures of one way: one of each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def same(rows: DataFrame) -> DataFrame:
    """Return every row as it is."""
    return rows


def job_into(make: Callable[[Path], TwoPhaseSink]) -> Callable[[SparkSession, Path, Path], None]:
    """Return a function that runs a Rekindle job with one sink."""

    def run(spark: SparkSession, data: Path, work: Path) -> None:
        job = rk.Job("sinks")
        bids = job.source("bids", rk.Files(str(data), schema=SCHEMA))
        job.sink("out", job.task(bids)(same), make(work))
        result = job.run(spark, storage=str(work / "state"), config={"checkpoint.interval": "10s"})
        if result.state != "FINISHED":
            sys.exit(f"bench: the job ended {result.state}: {result.error}")

    return run


def query_into(
    start: Callable[[DataStreamWriter, Path], StreamingQuery], columns: Sequence[str] = ("*",)
) -> Callable[[SparkSession, Path, Path], None]:
    """Return a function that runs a plain query over all that is there; `start` sets its destination and starts it."""

    def run(spark: SparkSession, data: Path, work: Path) -> None:
        rows = spark.readStream.schema(SCHEMA).parquet(str(data)).selectExpr(*columns)
        writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", str(work / "progress"))
        start(writer, work).awaitTermination()

    return run


# --- files ------------------------------------------------------------------------------------------------------------


def file_ways() -> list[Way]:
    """Parquet, Delta and Iceberg against Spark's own Parquet sink."""
    return [
        Way(
            "Spark's Parquet sink",
            "files",
            query_into(lambda writer, work: writer.format("parquet").start(str(work / "out"))),
            _count_parquet,
        ),
        Way("`Parquet`", "files", job_into(lambda work: rk.sinks.Parquet(work / "out")), _count_parquet),
        Way("`Delta`", "files", job_into(lambda work: rk.sinks.Delta(work / "out")), _count_delta),
        Way("`Iceberg`", "files", job_into(_iceberg), _count_iceberg),
    ]


def _count_parquet(work: Path) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(work / "out", format="parquet", exclude_invalid_files=True).count_rows())


def _count_delta(work: Path) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(work / "out").to_pyarrow_dataset().count_rows())


def _iceberg(work: Path) -> rk.sinks.Iceberg:
    return rk.sinks.Iceberg("bench", "bench.bids", properties=_catalog(work))


def _catalog(work: Path) -> dict[str, str]:
    work.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{work / 'catalog.db'}", "warehouse": f"file://{work / 'warehouse'}"}


def _count_iceberg(work: Path) -> int:
    from pyiceberg.catalog import load_catalog

    return int(load_catalog("bench", **_catalog(work)).load_table("bench.bids").scan().count())


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def postgres_ways(server: postgres_server.PostgresServer) -> list[Way]:
    """Return prepared transactions and staging, and Spark's JDBC writer to compare them with."""
    columns = "auction bigint, bidder bigint, price bigint, channel text, url text, ts timestamptz"

    def empty() -> None:
        server.query("DROP TABLE IF EXISTS bids, rekindle_commits")
        server.query(f"CREATE TABLE bids ({columns})")

    def empty_with_key() -> None:
        empty()
        server.query("CREATE UNIQUE INDEX ON bids (auction, bidder, ts, price, url)")

    def count(_: Path) -> int:
        return int(server.query("SELECT count(*) FROM bids")[0][0])

    def append(rows: DataFrame, epoch: int) -> None:
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres?reWriteBatchedInserts=true"
        login = {"user": postgres_server.USER, "password": postgres_server.PASSWORD, "driver": "org.postgresql.Driver"}
        rows.write.jdbc(url, "bids", mode="append", properties=login)

    def sink(**more: Any) -> Callable[[SparkSession, Path, Path], None]:
        return job_into(lambda _: rk.sinks.Postgres(server.dsn(), "bids", **more))

    jdbc = query_into(lambda writer, _: writer.foreachBatch(append).start())

    key = ["auction", "bidder", "ts", "price", "url"]
    return [
        Way("Spark's JDBC writer", "PostgreSQL", jdbc, count, empty),
        Way("`Postgres`", "PostgreSQL", sink(), count, empty),
        Way("`Postgres(atomic=True)`", "PostgreSQL", sink(atomic=True), count, empty),
        Way('`Postgres(mode="upsert")`', "PostgreSQL", sink(mode="upsert", key=key), count, empty_with_key),
    ]


def jdbc_driver() -> Path | None:
    """Return PostgreSQL's JDBC driver, fetched by Maven; None where it cannot be had."""
    folder = ROOT / ".venv" / "jdbc"
    if not list(folder.glob("*.jar")):
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={JDBC}", f"-DoutputDirectory={folder}"]
        try:
            subprocess.run(command, check=True, cwd=tempfile.gettempdir())
        except (OSError, subprocess.CalledProcessError):
            return None
    return next(folder.glob("*.jar"), None)


# --- Kafka ------------------------------------------------------------------------------------------------------------


def kafka_ways(server: kafka_server.KafkaServer) -> list[Way]:
    """Compare one and several producers with Spark's Kafka sink, where its connector is to be had."""

    def empty() -> None:
        server.delete_topic("bids")
        server.delete_topic("bids-rekindle-commits")
        server.make_topic("bids", 4)

    def count(_: Path) -> int:
        return len(server.messages("bids"))

    def plain(writer: DataStreamWriter, _: Path) -> StreamingQuery:
        to = writer.format("kafka").option("kafka.bootstrap.servers", server.bootstrap)
        return to.option("topic", "bids").start()

    def sink(producers: int) -> Callable[[SparkSession, Path, Path], None]:
        return job_into(lambda _: rk.sinks.Kafka(server.bootstrap, "bids", key="auction", producers=producers))

    ways = [
        Way("`Kafka`", "Kafka", sink(1), count, empty),
        Way("`Kafka(producers=4)`", "Kafka", sink(4), count, empty),
    ]
    if kafka_server.why_no_connector():
        return ways
    message = ("CAST(auction AS string) AS key", "to_json(struct(*)) AS value")
    return [Way("Spark's Kafka sink", "Kafka", query_into(plain, message), count, empty), *ways]


# --- the systems ------------------------------------------------------------------------------------------------------

Measure = Callable[..., None]
"""Given the ways into a system, how many rows, and the processes of its server, runs them and keeps the figures."""


def into_files(measure: Measure, scale: float) -> list[str]:
    """Measure; return reasons why a part had to be left out, as the others do."""
    measure(file_ways(), int(16_000_000 * scale))
    return []


def into_postgres(measure: Measure, scale: float) -> list[str]:
    if why := postgres_server.why_not() or ("no JDBC driver could be fetched" if jdbc_driver() is None else None):
        return [why]
    postgres = postgres_server.PostgresServer()
    try:
        postgres.start()
        measure(postgres_ways(postgres), int(2_000_000 * scale))
    finally:
        postgres.remove()
    return []


def into_kafka(measure: Measure, scale: float) -> list[str]:
    if why := kafka_server.why_not():
        return [why]
    kafka = kafka_server.KafkaServer()
    try:
        kafka.start()
        measure(kafka_ways(kafka), int(1_000_000 * scale), [kafka.pid])
    finally:
        kafka.remove()
    return [why] if (why := kafka_server.why_no_connector()) else []


SYSTEMS = {"files": into_files, "postgres": into_postgres, "kafka": into_kafka}


# --- measuring --------------------------------------------------------------------------------------------------------


def compare(
    spark: SparkSession, scratch: Path, ways: list[Way], bids: int, runs: int, servers: Collection[int]
) -> tuple[dict[str, Runs], Agreement]:
    """Run one round to warm up, then `runs` that count, the ways in turn; leave out the CPU time of `servers`.

    Rounds that disagree are repeated.
    """
    data = scratch / "bids"
    bids = nexmark.write_history(data, bids * nexmark.PERIOD // 46, FILES)
    found = {way.name: Runs() for way in ways}

    def one(number: int) -> None:
        for way in ways if number % 2 else reversed(ways):
            way.prepare()
            work = scratch / "work"
            began, cpu_began = time.perf_counter(), cpu_seconds(servers)
            way.write(spark, data, work)
            seconds, cpu = time.perf_counter() - began, cpu_seconds(servers) - cpu_began
            if way.count(work) != bids:
                sys.exit(f"bench: {way.name} wrote {way.count(work):,} rows of {bids:,}")
            print(f"run {number or 'to warm up'}: {way.name}: {seconds:.2f} s, {cpu:.2f} s of CPU", flush=True)
            if number:
                found[way.name].seconds.append(seconds)
                found[way.name].cpu_seconds.append(cpu)
            shutil.rmtree(work)

    for number in range(runs + 1):
        one(number)
    return found, agree(found, one)


def table(ways: list[Way], runs: dict[str, Runs], bids: int) -> str:
    """Return the figures as rows of a Markdown table."""
    base = middle(runs[ways[0].name].seconds)
    return "\n".join(
        f"| {way.system} | {way.name} | {bids:,} | {bids / middle(runs[way.name].seconds):,.0f} "
        f"| {middle(runs[way.name].seconds):.2f} | {min(runs[way.name].seconds):.2f} to "
        f"{max(runs[way.name].seconds):.2f} | {middle(runs[way.name].cpu_seconds):.2f} "
        f"| {base / middle(runs[way.name].seconds):.2f} |"
        for way in ways
    )


def main() -> None:
    parser = arguments("Rows a second into each sink, against the usual way.", runs=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows that each system gets")
    parser.add_argument("--only", choices=SYSTEMS, help="only into this system; leaves docs/benchmarks.md alone")
    given = parser.parse_args()
    load_before, missing, rows = settled(), [], []
    agreements: list[Agreement] = []
    driver = jdbc_driver()
    jars = [*([driver] if driver else []), *kafka_server.jars("spark-kafka")]
    settings = SETTINGS | ({"spark.jars": ",".join(map(str, jars))} if jars else {})
    spark = make_session("rekindle-bench", settings)

    def measure(ways: list[Way], bids: int, servers: Collection[int] = ()) -> None:
        with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
            found, agreed = compare(spark, Path(folder), ways, bids, given.runs, servers)
        rows.append(table(ways, found, bids))
        agreements.append(agreed)

    for system, into in SYSTEMS.items():
        if given.only in (None, system):
            missing += into(measure, given.scale)
    left_out = "".join(f"- Left out: {why.replace(str(kafka_server.JARS), '.venv')}\n" for why in missing)
    text = f"""\
| into | way | rows | rows/s | median s | s | median CPU s | speed, of the first |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

- medians of {given.runs} runs in turn, after one to warm up; a checkpoint every 10 s, and one at the end; servers on
  the same machine, their CPU not counted
{left_out}{"".join(dict.fromkeys(one.said for one in agreements))}{where(spark, load_before)}"""
    spark.stop()
    disagreeing = sum(one.disagreeing for one in agreements)
    publish("sinks", text, load_before=load_before, page=not (given.no_page or given.only), disagreeing=disagreeing)


if __name__ == "__main__":
    main()
