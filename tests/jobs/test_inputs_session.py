"""The session a job runs in: what is checked, what is set on it, and that all else of it stays the user's."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.session.session import NEEDED, prepare_session, quiet
from rekindle.session.settings import FILES, STREAMING, Decision, decided, of, refused
from rekindle.spark.plans import refuse
from tests.jobs.kit import DDL, QUICK, World, committed, rows, until

LOGGER = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


def code(call: Any) -> str:
    with pytest.raises(DefinitionError) as error:
        call()
    assert error.value.next_step
    return error.value.code


class Connect:
    """As far as one can see from outside, a Spark Connect session."""

    @property
    def _jvm(self) -> Any:
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.streaming.multipleWatermarkPolicy", "max"),
        ("spark.sql.streaming.fileSink.log.compactInterval", "5"),
        ("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "2"),
        ("spark.sql.files.ignoreMissingFiles", "TRUE"),
    ],
)
def test_a_session_with_which_rows_would_be_lost_is_refused_before_anything_is_claimed(
    spark: SparkSession, world: World, setting: str, value: str
) -> None:
    world.add_history(rows(0, 1))
    session = spark.newSession()
    session.conf.set(setting, value)
    with pytest.raises(DefinitionError) as error:
        world.hourly(live=False).start(session, storage=world.storage)
    assert error.value.code == "SPARK_SETTING_REFUSED" and setting in str(error.value)
    assert not (world.root / "storage").exists()


def test_every_streaming_and_file_setting_of_this_spark_has_a_decision(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    companion = jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$")
    entries = companion.getMethod("getConfigEntries", None).invoke(companion.getField("MODULE$").get(None), None)
    names = [str(entry.key()) for entry in entries.toArray()]
    ours = [name for name in names if name.startswith((STREAMING, FILES)) or "streaming" in name.lower()]
    assert len(ours) > 60
    assert [name for name in ours if not decided(name)] == [], "decide them in rekindle.session.settings"


def test_what_a_setting_must_be_is_what_this_spark_has_it_at(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = of(Decision.ONLY) | of(Decision.ONLY_OF_JOBS)
    found = {name: session.conf.get(name, None) for name in rows}
    assert list(refused(found)) == []
    defaults = {row["key"]: row["value"] for row in session.sql("SET -v").collect()}
    wrong = {name: row.value for name, row in rows.items() if defaults.get(name, row.value) != row.value}
    assert wrong == {}


def test_a_setting_that_is_changed_while_the_job_runs_is_refused_when_the_query_starts_again(
    spark: SparkSession, world: World
) -> None:
    session, setting = spark.newSession(), "spark.sql.streaming.fileStreamSink.ignoreMetadata"
    world.add_history(rows(0, 1))

    def change(rows: Any, batch: Any) -> None:
        session.conf.set(setting, "true")
        raise OSError("the target is away")

    job = rk.Job("changing")
    job.sink(
        "out", job.task(job.source("in", world.files()), uid="same")(lambda frame: frame), rk.sinks.Foreach(change)
    )
    result = job.start(session, storage=world.storage, config=QUICK).wait()
    assert result.state == "FAILED" and result.error is not None
    assert (result.error["code"], result.error["parameters"]["setting"]) == ("SPARK_SETTING_REFUSED", setting)


def test_spark_connect_is_refused_by_name(world: World) -> None:
    world.add_history(rows(0, 1))
    job = world.hourly(live=False)
    assert code(lambda: job.start(Connect(), storage=world.storage)) == "SPARK_CONNECT_UNSUPPORTED"  # type: ignore[arg-type]


def test_a_users_session_keeps_its_settings_but_those_that_are_needed(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    before = session.conf.getAll
    assert prepare_session(session) is session
    assert session.conf.getAll == {**before, **NEEDED}


def test_log_levels_are_put_back_when_the_last_job_ends_whatever_the_order(spark: SparkSession) -> None:
    log4j = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]

    def level() -> str:
        return str(log4j.LogManager.getLogger(LOGGER).getLevel().toString())

    before = level()
    first, second = quiet(spark), quiet(spark)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert level() == "OFF"
    second.__exit__(None, None, None)
    assert level() == before != "OFF"


def test_a_job_in_a_session_of_another_time_zone_gives_the_same_instants(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 60), rows(30, 60))
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    result = world.hourly(live=False).start(session, storage=world.storage).wait()
    assert result.error is None
    # Windows of an hour begin at the hour, wherever one is.
    assert world.output() == world.expected()


@pytest.mark.usefixtures("one_file_a_batch")
def test_watermarks_are_instants_where_timestamp_means_one_without_a_zone(spark: SparkSession, world: World) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    world.add_history(*(rows(hour, 20) for hour in range(4)))
    # A watermark that is taken for local time is hours ahead of these rows, which come after it.
    assert world.hourly(live=False).start(session, storage=world.storage).wait().error is None
    assert world.output() == world.expected()


def test_a_frame_of_another_session_is_a_query_like_any_other(spark: SparkSession, world: World) -> None:
    other = spark.newSession()
    job = rk.Job("elsewhere")
    live = job.source("live", rk.Stream(lambda _: other.readStream.schema(DDL).parquet(str(world.live))))
    job.sink("out", job.task(live, uid="same")(lambda frame: frame), rk.sinks.Parquet(world.out))
    world.add_live(rows(0, 3))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: len(committed(world.out)) == 3)
    world.add_live(rows(1, 2))
    until(lambda: len(committed(world.out)) == 5)
    handle.stop(drain=True)
    result = handle.wait()
    assert (result.state, result.error) == ("DRAINED", None)


def last_of_each(frame: Any) -> Any:
    """Each key's rows, counted by a processor of the user's whose timers fire with event time."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import LongType, StructField, StructType

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", StructType([StructField("n", LongType())]))

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            if not self.count.exists():
                self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 3_600_000)
            seen = self.count.get()[0] if self.count.exists() else 0
            self.count.update((seen + sum(len(frame) for frame in rows),))
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            import pandas as pd

            yield pd.DataFrame({"k": [key[0]], "n": [self.count.get()[0]]})
            self.count.clear()

    grouped = frame.groupBy("k")
    return grouped.transformWithStateInPandas(Counting(), "k string, n long", "Append", "EventTime")


def test_what_workers_need_for_transform_with_state_is_looked_for_before_anything_runs(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_history(rows(0, 30), rows(5, 6))

    def job_of(name: str, function: Any) -> rk.Job:
        job = rk.Job(name)
        task = job.task(job.source("in", rk.Files(str(world.history)), event_time="ts"), uid="work")(function)
        job.sink("out", task, rk.sinks.Parquet(world.root / "outs" / name))
        return job

    def hours(frame: Any) -> Any:
        return frame.groupBy(F.window("ts", "1 hour"), "k").count()

    with monkeypatch.context() as patched:
        patched.setattr(refuse, "_WORKER_MODULE", "no_such_module_anywhere")
        job = job_of("missing", last_of_each)
        with pytest.raises(DefinitionError) as error:
            job.start(spark, storage=world.storage)
        assert error.value.code == "WORKER_MODULE_MISSING"
        assert "no_such_module_anywhere" in str(error.value) and "pip install" in error.value.next_step
        # Who does not need it is not asked for it.
        assert job_of("needless", hours).start(spark, storage=world.storage).wait().error is None

    result = (
        job_of("present", last_of_each).start(spark, storage=world.storage, config={"restart.attempts": "0"}).wait()
    )
    assert result.error is None
    found = {row["k"]: row["n"] for row in committed(world.root / "outs" / "present")}
    assert found == {"a": 12, "b": 12, "c": 12}
