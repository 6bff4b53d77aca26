"""``mode="batch"`` on Spark: what a bounded job writes is what its streaming run writes, row for row."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

import rekindle as rk
from rekindle.cli.verbs import rekindle
from rekindle.errors import DefinitionError, RekindleError, RestoreError
from rekindle.runtime.steps import heard_by
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import Moment, Moments
from tests.crash.kit import persist
from tests.crash.pipeline_kit import PipelineWorld
from tests.jobs.kit import DDL, World, committed, rows, until, write
from tests.jobs.test_table_sinks import TableWorld
from tests.servers.postgres import PostgresServer


class FormsWorld(World):
    """Every form of task over bounded sources of every kind, in one job."""

    def fill(self) -> FormsWorld:
        """Write what the job reads: times out of order, some null, twice, and before 1970."""
        before_1970 = (dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc), "b", 7)
        self.add_history([*rows(10, 90), (None, "a", 5)], rows(0, 90), [*rows(0.5, 20), before_1970])
        self._add(self.root / "table", rows(20, 30))
        for day in ("2025-01-01", "2025-01-02"):
            write(self.root / "days" / f"day={day}", "0.parquet", rows(30, 5))
        lines = [{"at": f"2025-01-01 {hour:02}:30:00", "k": key} for hour in range(12) for key in "ab"]
        (self.root / "lines.json").write_text("\n".join(map(json.dumps, lines)))
        return self

    def job(self, out: Path) -> rk.Job:
        """The job; its sinks lie below `out`."""
        job = rk.Job("forms")
        table = str(self.root / "table")
        history = job.source("history", rk.Files(str(self.history)), event_time="ts", late="drop")
        batch = job.source("table", rk.Batch(lambda spark: spark.read.parquet(table)), event_time="ts")
        days = job.source("days", rk.Files(str(self.root / "days")), event_time="ts")
        said = job.source(
            "said",
            rk.Files(
                str(self.root / "lines.json"),
                format="json",
                schema="at string, k string",
                transform=lambda lines: lines.select(F.to_timestamp("at").alias("said"), "k"),
            ),
            event_time="said",
        )

        @job.task(history, batch, event_time="ts")
        def enrich(history: DataFrame, table: DataFrame) -> DataFrame:
            return history.unionByName(table).withColumn("w", F.col("v") * 2)

        @job.task(enrich)
        def hourly(enriched: DataFrame) -> DataFrame:
            hours = enriched.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("w").alias("w"))
            return hours.groupBy(F.window(F.window_time("window"), "6 hours")).agg(F.sum("w").alias("w"), F.count("*"))

        @job.task(enrich)
        def sessions(enriched: DataFrame) -> DataFrame:
            return enriched.groupBy(F.session_window("ts", "5 minutes"), "k").agg(F.count("*").alias("rows"))

        @job.task(enrich, said)
        def joined(enriched: DataFrame, said: DataFrame) -> DataFrame:
            near = F.expr("enriched.k = said.k AND said BETWEEN ts - INTERVAL 10 MINUTES AND ts + INTERVAL 10 MINUTES")
            kept = enriched.alias("enriched").filter("ts IS NOT NULL").join(said.alias("said"), near, "left_outer")
            return kept.select("enriched.ts", "enriched.k", "said")

        @job.task(enrich)
        def once(enriched: DataFrame) -> DataFrame:
            return enriched.dropDuplicates(["k", "ts"]).select("k", "ts")

        @job.task(days, parallelism=2)
        def copied(days: DataFrame) -> DataFrame:
            return days.select("day", "ts", "k")

        for task in (enrich, hourly, sessions, joined, once, copied):
            job.sink(f"{task.uid}_out", task, rk.sinks.Parquet(out / task.uid))
        return job


def multiset(folder: Path) -> Counter[str]:
    """The rows of a folder, as text."""
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in committed(folder))


def storage_of(world: World, job: str) -> JobStorage:
    return JobStorage(open_store(world.storage), job)


def test_every_form_of_task_gives_the_rows_of_the_streaming_run(spark: SparkSession, tmp_path: Path) -> None:
    world = FormsWorld(tmp_path).fill()
    streamed, batched = tmp_path / "streamed", tmp_path / "batched"
    assert world.job(streamed).start(spark, storage=str(tmp_path / "a")).wait().error is None

    result = world.job(batched).start(spark, storage=world.storage, mode="batch").wait()

    assert (result.state, result.checkpoint, result.error) == ("FINISHED", 1, None)
    for task in ("enrich", "hourly", "sessions", "joined", "once", "copied"):
        assert multiset(batched / task) == multiset(streamed / task), task
        assert multiset(batched / task)
    staged = [path.relative_to(batched) for path in batched.rglob("*") if ".rekindle" in path.parts and path.is_file()]
    assert {path.parts[2] for path in staged} == {"owners"}
    assert not list(Path(world.storage).glob("forms/tasks/*/0/*/segments/*")), (
        "what tasks read of each other is deleted at the end"
    )


def test_the_verbs_show_it_like_any_other_run(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 90))
    world.hourly(live=False).start(spark, storage=world.storage, mode="batch").wait()

    again = world.hourly(live=False).start(spark, storage=world.storage, mode="batch").wait()
    shown = CliRunner().invoke(rekindle, ["status", "hourly", "--storage", world.storage]).stdout
    listed = CliRunner().invoke(rekindle, ["checkpoints", "hourly", "--json", "--storage", world.storage]).stdout
    held = CliRunner().invoke(rekindle, ["inspect", "hourly/checkpoints/000000001", "--storage", world.storage]).stdout

    assert (again.state, again.already_ended, again.run) == ("FINISHED", True, 1)
    assert "hourly  FINISHED  run 1  in batch mode\n" in shown
    assert "history  ended" in shown
    assert [(row["kind"], row["status"]) for row in json.loads(listed)] == [("final", "completed")]
    assert "kind   final of a batch run" in held
    assert "history  ended  1 file," in held
    assert world.output() == world.expected()


def test_how_a_job_runs_does_not_change_on_the_way(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 30))
    job = world.hourly(live=False)
    job.start(spark, storage=world.storage, mode="batch").wait()
    checkpoint = f"{world.storage}/hourly/checkpoints/000000001"

    with pytest.raises(RestoreError, match=r"MODE_FIXED.*begun in batch mode"):
        job.start(spark, storage=world.storage)
    with pytest.raises(RestoreError, match=r"MODE_FIXED.*begun in batch mode"):
        job.start(spark, storage=f"{world.storage}-2", restore=checkpoint)
    with pytest.raises(RestoreError, match="BATCH_FROM_CHECKPOINT"):
        job.start(spark, storage=f"{world.storage}-2", restore=checkpoint, mode="batch")

    job.start(spark, storage=f"{world.storage}-3", allow_shared_target=True).wait()
    with pytest.raises(RestoreError, match=r"MODE_FIXED.*begun in streaming mode"):
        job.start(spark, storage=f"{world.storage}-3", mode="batch")


def test_a_source_without_an_end_is_refused_before_spark_starts(world: World) -> None:
    with pytest.raises(DefinitionError, match=r"BATCH_UNBOUNDED.*'live'"):
        world.hourly().start(storage=world.storage, mode="batch")
    assert not Path(world.storage).exists()


class Counting:
    """A function that a sink calls; remembers how often, and fails when it is told to."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failing = ""

    def sink(self, name: str) -> rk.sinks.Foreach:
        def hear(df: DataFrame, batch: Any) -> None:
            self.calls[name] += 1
            df.collect()
            if name == self.failing:
                raise ValueError("no room")

        return rk.sinks.Foreach(hear)


def test_what_a_failed_run_had_finished_is_not_evaluated_again(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 30))
    counting = Counting()
    job = rk.Job("chain")
    history = job.source("history", rk.Files(str(world.history)))
    first = job.task(history, uid="first")(lambda rows: rows.withColumn("w", F.col("v") + 1))
    second = job.task(first, uid="second")(lambda rows: rows.groupBy("k").agg(F.sum("w").alias("w")))
    job.sink("one", first, counting.sink("one"))
    job.sink("two", second, counting.sink("two"))
    job.sink("out", second, rk.sinks.Parquet(world.out))

    counting.failing = "two"
    config = {"restart.attempts": "1", "restart.delay": "10 ms"}
    failed = job.start(spark, storage=world.storage, mode="batch", config=config).wait()
    counting.failing = ""
    done = job.start(spark, storage=world.storage, mode="batch").wait()

    assert failed.error is not None
    assert failed.error["code"] == "RESTARTS_EXHAUSTED"
    assert "no room" in failed.error["message"]
    assert (failed.checkpoint, done.state, done.checkpoint) == (None, "FINISHED", 1)
    assert counting.calls == {"one": 1, "two": 3}
    assert Counter((row["k"], row["w"]) for row in committed(world.out)) == {(key, 20): 1 for key in "abc"}


STEPS = ("sink.prepare", "segment.write", "record.create", "end.create", "manifest.create", "sink.commit")
IN_CI = ("segment.write/after", "manifest.create/before")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.crash)
        for step in (*STEPS, "inbox.admit", "sink.finish", "committed.create", "result.create", "sink.clean")
        for name in (f"{step}/before", f"{step}/after")
    ],
)
def test_a_fault_at_any_durable_step_leaves_every_row_once_and_nothing_staged(
    spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    world = PipelineWorld(tmp_path).fill()
    moments = Moments([Moment.parse(moment)])
    config = {"restart.delay": "10 ms"}

    def start() -> rk.JobHandle:
        return heard_by(moments, world.job(live=False).start)(spark, storage=world.storage, mode="batch", config=config)

    assert persist(start, "FINISHED").state == "FINISHED"
    assert moments.acted
    world.check(live=False)
    assert [path for out in world.outs.values() for path in out.rglob("*") if path.suffix == ".parquet"] == [
        path for out in world.outs.values() for path in out.glob("*.parquet")
    ]


def test_a_stop_is_refused_and_a_cancel_ends_it_with_nothing_to_see(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 30))
    job = rk.Job("long")
    history = job.source("history", rk.Files(str(world.history)), event_time="ts")

    @job.task(history)
    def slow(history: DataFrame) -> DataFrame:
        def wait(frames: Any) -> Any:
            import time

            time.sleep(600)
            yield from frames

        return history.mapInPandas(wait, DDL)

    job.sink("out", slow, rk.sinks.Parquet(world.out))
    handle = job.start(spark, storage=world.storage, mode="batch")
    tracker = spark.sparkContext.statusTracker()
    until(lambda: bool(tracker.getActiveStageIds()))

    for verb in (handle.stop, handle.checkpoint, handle.savepoint, lambda: handle.stop(drain=True)):
        with pytest.raises(RekindleError, match="BATCH_VERB_REFUSED"):
            verb()
    assert handle.status().state == "RUNNING"
    handle.cancel()
    result = handle.wait()

    assert result is not None
    assert (result.state, committed(world.out)) == ("CANCELED", [])
    until(lambda: not tracker.getActiveStageIds())
    assert storage_of(world, "long").records("long/tasks/slow/0/000001") == []


def test_tables_and_functions_have_every_row_once_though_the_commit_fails_half_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = TableWorld(tmp_path)
    tables.add_history(rows(10, 90), rows(0, 90))
    job = rk.Job("tables")
    history = job.source("history", rk.Files(str(tables.history)), event_time="ts")

    @job.task(history)
    def hourly(history: DataFrame) -> DataFrame:
        counted = history.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
        return counted.select(F.col("window.start").alias("hour"), "k", "v")

    job.sink("delta", hourly, rk.sinks.Delta(tables.delta, partition_by=["k"]))
    job.sink("iceberg", hourly, rk.sinks.Iceberg("local", "db.hourly", properties=tables.catalog, partition_by=["k"]))
    job.sink("function", hourly, rk.sinks.Foreach(tables.hear))
    faults = Moments([Moment.parse("sink.commit/after")])
    config = {"restart.delay": "10 ms"}
    timestamps = spark.conf.get("spark.sql.parquet.outputTimestampType")

    persist(lambda: heard_by(faults, job.start)(spark, storage=tables.storage, mode="batch", config=config), "FINISHED")

    assert not faults.waiting
    expected = tables.expected()
    assert tables.in_delta() == tables.in_iceberg() == sum(tables.told.values(), Counter()) == expected
    assert tables.calls == 1
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == timestamps, "the session is as it was"


def test_postgres_has_every_row_once(spark: SparkSession, world: World, postgres: PostgresServer) -> None:
    world.add_history(rows(0, 90))
    job = rk.Job("postgres")
    history = job.source("history", rk.Files(str(world.history)), event_time="ts")
    counted = job.task(history, uid="counted")(lambda rows: rows.groupBy("k").agg(F.sum("v").alias("v")))
    job.sink("out", counted, rk.sinks.Postgres(postgres.dsn(), "totals_of_a_batch"))

    assert job.start(spark, storage=world.storage, mode="batch").wait().error is None

    assert sorted(postgres.query("SELECT k, v FROM totals_of_a_batch")) == [("a", 30), ("b", 30), ("c", 30)]


def refusal(spark: SparkSession, world: World, function: Any) -> RekindleError:
    """With what a task is refused in batch mode; nothing has run by then."""
    world.add_history(rows(0, 5))
    job = rk.Job("refused")
    history = job.source("history", rk.Files(str(world.history)), event_time="ts")
    counting = Counting()
    first = job.task(history, uid="first", event_time="ts")(lambda rows: rows)
    job.sink("first_out", first, counting.sink("first"))
    job.sink("out", job.task(first, uid="task")(function), rk.sinks.Parquet(world.out))
    with pytest.raises(DefinitionError) as raised:
        job.start(spark, storage=world.storage, mode="batch")
    assert not counting.calls
    return raised.value


def with_timers(rows: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Nothing(StatefulProcessor):
        """Keeps nothing, emits nothing."""

        def init(self, handle: Any) -> None:
            """See Spark."""

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            yield from ()

    return rows.groupBy("k").transformWithStateInPandas(Nothing(), "k string", "Append", "EventTime")


def with_group_state(rows: DataFrame) -> DataFrame:
    keyed = rows.groupBy("k")
    return keyed.applyInPandasWithState(lambda *_: (), "k string", "n long", "append", GroupStateTimeout.NoTimeout)


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda rows: rows.dropDuplicatesWithinWatermark(["k"]), "dropDuplicatesWithinWatermark"),
        pytest.param(with_timers, "timers never fire", marks=pytest.mark.since("4.0")),
        (with_group_state, "applyInPandas"),
        (lambda rows: rows.sparkSession.readStream.format("rate").load(), "a streaming DataFrame"),
        (lambda rows: None, "NoneType"),
    ],
    ids=["deduplication within the watermark", "timers", "group state", "a stream", "no DataFrame"],
)
def test_what_spark_cannot_do_in_batch_mode_is_refused_before_anything_runs(
    spark: SparkSession, world: World, function: Any, word: str
) -> None:
    error = refusal(spark, world, function)

    assert error.code == "BATCH_UNSUPPORTED"
    assert word in error.message
