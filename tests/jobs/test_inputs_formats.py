"""Every format, odd names, Hive folders: a job reads what `spark.read` reads (docs/architecture.md#event-time)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError, StorageError
from rekindle.graph.job_graph import Source
from rekindle.runtime.definition import SourceSpec
from rekindle.runtime.steps import heard_by, no_steps
from rekindle.spark.inputs.freezing import freeze
from rekindle.spark.streaming import assembly
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, World, rows, write

Frame = Any


def contents(frame: Frame) -> Counter[str]:
    return Counter(str(row) for row in frame.collect())


def copy_of(name: str, source: rk.Files, out: Path, **arguments: Any) -> rk.Job:
    """A job that writes what it reads."""
    job = rk.Job(name)
    task = job.task(job.source("in", source, **arguments), uid="same")(lambda frame: frame)
    job.sink("out", task, rk.sinks.Parquet(out))
    return job


def run_all(spark: SparkSession, world: World, jobs: list[rk.Job]) -> None:
    handles = [job.start(spark, storage=world.storage) for job in jobs]
    assert {handle.wait().state for handle in handles} == {"FINISHED"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("ts timestmp", '[UNSUPPORTED_DATATYPE] Unsupported data type "TIMESTMP"'),
        ("ts timestamp,,", "[PARSE_SYNTAX_ERROR] Syntax error at or near ','"),
        (5, "should be str or struct type"),
    ],
)
def test_a_wrong_schema_is_blamed_on_the_source_and_not_on_a_file(
    spark: SparkSession, tmp_path: Path, schema: Any, reason: str
) -> None:
    storage = JobStorage(open_store(str(tmp_path / "state")), "job")
    spec = SourceSpec(source=Source(uid="prices", bounded=True), spec=rk.Files(str(tmp_path / "none"), schema=schema))
    with pytest.raises(DefinitionError) as refused:
        freeze(spark, storage, spec, "1", no_steps)
    error = refused.value
    assert error.code == "ARGUMENT_INVALID" and reason in error.message
    assert error.message.startswith(f"rk.Files of source 'prices' has schema={schema!r}. ")
    assert error.message.count("UNSUPPORTED_DATATYPE") <= 1
    assert "StructType" in error.next_step


def test_each_format_is_read_as_spark_reads_it_with_its_options_and_an_event_time_parsed_in_transform(
    spark: SparkSession, world: World
) -> None:
    root = world.root / "formats"
    data = spark.createDataFrame(
        [("2025/01/01 10:00", 'ä, "b"', 1), ("2025/12/31 23:59", "", 2), (None, None, 3)],
        "date string, name string, n int",
    )
    plain = {"parquet": {}, "orc": {}, "json": {}, "csv": {"header": True, "inferSchema": True}, "text": {}}
    for kind in plain:
        frame = data.selectExpr("concat_ws('|', date, name, n) value") if kind == "text" else data
        frame.write.options(header=True).format(kind).save(str(root / kind))
    # Nothing of these is data.
    for kind in plain:
        for hidden in (".hidden", "_temporary-thing", "half._COPYING_"):
            (root / kind / hidden).write_bytes(b"\xff\xfe not data")

    def parsed(frame: Frame) -> Frame:
        text = F.split("value", r"\|")[0] if frame.columns == ["value"] else F.col("date")
        return frame.withColumn("ts", F.try_to_timestamp(text, F.lit("yyyy/MM/dd HH:mm")))

    pattern = {"timestampFormat": "yyyy/MM/dd HH:mm", "mode": "FAILFAST"}
    given = "date timestamp, name string, n int"
    sources = {
        **{
            kind: (rk.Files(str(root / kind), format=kind, options=options, transform=parsed), "ts")
            for kind, options in plain.items()
        },
        "json-given": (rk.Files(str(root / "json"), format="json", schema=given, options=pattern), "date"),
        "csv-given": (
            rk.Files(str(root / "csv"), format="csv", schema=given, options={**pattern, "header": True}),
            "date",
        ),
    }
    outs = {name: world.root / "outs" / name for name in sources}

    run_all(spark, world, [copy_of(n, spec, outs[n], event_time=time) for n, (spec, time) in sources.items()])

    for name, (spec, _) in sources.items():
        reader = spark.read.format(spec.format).options(**dict(spec.options or {}))
        frame = (reader if spec.schema is None else reader.schema(spec.schema)).load(spec.path)
        expected = frame if spec.transform is None else spec.transform(frame)
        found = spark.read.parquet(str(outs[name]))
        assert found.schema.simpleString() == expected.schema.simpleString(), name
        assert contents(found) == contents(expected), name
        assert sum(contents(found).values()) == 3


ODD = "a b%20ü 100% [x]{y}?*+&#;'=,ß"


def test_odd_names_of_files_folders_storage_and_target_and_times_that_run_backwards(
    spark: SparkSession, world: World
) -> None:
    folder = world.root / "in" / "a b%20ü 100% +&#;',ß"
    for number, name in enumerate([f"0 {ODD}.parquet", "1 b.parquet", "2%41é.parquet", "3.parquet"]):
        data = rows(10 * number, 20)
        write(folder, name, data)
        world.data += data
        # A week between two files, the first ones the youngest.
        os.utime(folder / name, (2e9 - 7e5 * number, 2e9 - 7e5 * number))
    world.storage = str(world.root / "st ä%20 100% &#")
    world.out = world.root / "out ö%41 100% #&"
    world.history = folder
    job = world.hourly(live=False)

    result = job.start(spark, storage=world.storage, config={"input.target_batch_duration": "1 ms"}).wait()

    assert result.error is None
    assert world.output() == world.expected()
    partitioned = rk.Job("partitioned")
    task = partitioned.task(partitioned.source("in", rk.Files(str(folder))), uid="same")(
        lambda frame: frame.withColumn("p", F.lit("x/y%=ä b"))
    )
    partitioned.sink("out", task, rk.sinks.Parquet(world.root / "p ä%20", partition_by=["p"]))
    assert partitioned.start(spark, storage=world.storage).wait().error is None
    found = spark.read.parquet(str(world.root / "p ä%20"))
    assert found.groupBy("p").count().collect() == [("x/y%=ä b", 80)]


@pytest.mark.parametrize("letter", list("{}[]*?\\"))
def test_a_storage_whose_path_spark_takes_for_a_pattern_is_refused_at_once(world: World, letter: str) -> None:
    world.add_history(rows(0, 1))
    with pytest.raises(StorageError) as error:
        world.hourly(live=False).start(storage=str(world.root / f"a{letter}b"))
    assert error.value.code == "STORAGE_PATH_UNSUPPORTED"
    assert "Choose a path" in error.value.next_step
    assert not (world.root / f"a{letter}b").exists()


def test_hive_folders_give_the_columns_and_types_that_spark_infers(spark: SparkSession, world: World) -> None:
    data = spark.sql(
        """
        select * from values
            (1, 'a b', date'2025-01-01', 1.5d, timestamp'2025-01-01 10:00:00', 'x'),
            (2, 'c/d', date'2025-01-02', 2.0d, timestamp'2025-01-01 10:00:00.5', '1'),
            (3, '100%', null, null, null, 'y=1'),
            (4, null, date'2025-01-03', 1e9d, timestamp'2025-06-01 00:00:00', 'ü{}[]*?+%2F'),
            (5, 'é"''#:', date'2025-01-03', -1d, timestamp'2025-06-01 00:00:00', 'x')
        as t(n, s, `D ay`, f, at, mixed)
        """
    )
    root = str(world.root / "hive")
    data.coalesce(1).write.partitionBy("s", "D ay", "f", "at", "mixed").parquet(root)
    sources = {
        "inferred": rk.Files(root),
        "given": rk.Files(root, schema="n bigint, f string, s string"),
        "pattern": rk.Files(f"{root}/s=*", options={"basePath": root}),
        "below": rk.Files(f"{root}/s=a b"),
    }
    outs = {name: world.root / "outs" / name for name in sources}

    run_all(spark, world, [copy_of(name, spec, outs[name]) for name, spec in sources.items()])

    for name, spec in sources.items():
        reader = spark.read.options(**dict(spec.options or {}))
        expected = (reader if spec.schema is None else reader.schema(spec.schema)).parquet(spec.path)
        found = spark.read.parquet(str(outs[name]))
        assert found.schema.simpleString() == expected.schema.simpleString(), name
        assert contents(found) == contents(expected), name


def test_many_small_files_are_admitted_together_and_no_set_before_the_one_before_is_recorded(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "FIRST_ADMISSION_BYTES_PER_CORE", 1_000)
    world.add_history(*(rows(hour, 2) for hour in range(60)))
    storage = JobStorage(open_store(world.storage), "hourly")
    folder = Path(world.storage) / "hourly/tasks/count/0/000001"
    ahead = []

    def watch(name: str) -> None:
        if name == "inbox.admit/after":
            log = folder / "inbox/history/_spark_metadata"
            admitted = [int(path.stem) for path in log.iterdir() if path.stem.isdigit()]
            ahead.append(max(admitted) - max(storage.records(str(folder.relative_to(world.storage))), default=-1))

    config = {"input.target_batch_duration": "1 hour"}
    result = heard_by(watch, world.hourly(live=False).start)(spark, storage=world.storage, config=config).wait()

    assert result.error is None
    assert world.output() == world.expected()
    assert set(ahead) == {1}
    # One file, then four times as many until a batch takes the time it should.
    assert 2 <= len(ahead) <= 5


@pytest.mark.usefixtures("one_file_a_batch")
def test_ordered_files_give_results_while_they_are_read_and_a_false_order_fails_instead_of_losing_rows(
    spark: SparkSession, world: World
) -> None:
    one_by_one = {**QUICK, "input.target_batch_duration": "1 ms"}
    files = [rows(0, 60), rows(0.5, 60), rows(6, 60), rows(9, 60), rows(12, 60), rows(6.5, 10), rows(15, 60)]
    world.add_history(*files)
    data, history = world.data, str(world.history)

    def hourly(name: str, live: bool, **arguments: Any) -> rk.Job:
        job = rk.Job(name)
        sources = [job.source("history", rk.Files(history, ordered=True), event_time="ts", **arguments)]
        if live:
            sources.append(job.source("live", world.stream(), event_time="ts", watermark="1 minute"))

        @job.task(*sources, uid="count")
        def count(*frames: Frame) -> Frame:
            union = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
            return union.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        job.sink("out", count, rk.sinks.Parquet(world.root / "outs" / name))
        return job

    seen: list[int] = []

    def watch(name: str) -> None:
        if name == "record.create/after":
            records = sorted((Path(world.storage) / "allowed/tasks/count/0/000001/batches").glob("*.json"))
            seen.append('"flush": false' in records[-1].read_text() and '"rows": ' in records[-1].read_text())

    allowed = heard_by(watch, hourly("allowed", False, watermark="7 hours").start)(
        spark, storage=world.storage, config=one_by_one
    ).wait()
    assert allowed.error is None
    world.out = world.root / "outs" / "allowed"
    assert world.output() == world.expected()
    assert any(seen), "rows come before the end"

    beyond = hourly("beyond", False, watermark="1 hour").start(spark, storage=world.storage, config=one_by_one).wait()
    assert (beyond.state, (beyond.error or {}).get("code")) == ("FAILED", "ROWS_DROPPED_AS_LATE")

    # Beside a stream, whose own late rows are nobody's fault.
    world.data = data
    world.add_live(rows(20, 5), rows(30, 5))
    mixed = hourly("mixed", True, watermark="1 hour").start(spark, storage=world.storage, config=one_by_one).wait()
    assert (mixed.state, (mixed.error or {}).get("code")) == ("FAILED", "ROWS_DROPPED_AS_LATE")
    for name in ("beyond", "mixed"):
        # The window was committed before its late rows came, and not again: no row was counted and then lost.
        storage = JobStorage(open_store(world.storage), name)
        [folder] = Path(world.storage, name, "tasks/count/0").iterdir()
        assert storage.last_record(str(folder.relative_to(world.storage))).inputs["history"].files == 5
