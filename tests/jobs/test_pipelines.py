"""Jobs of several tasks on Spark: channels, event time across them, their checkpoints, and how they end."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.spark.query import polling
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.crash.pipeline_kit import SMALL_BATCHES, Gate, PipelineWorld, held_up, task
from tests.jobs.kit import FLUSHED, QUICK, committed, has_read, orphans, rows, until
from tests.jobs.test_storage_stays_bounded import kinds_of_files

NO_INTERVAL = {"checkpoint.interval": "0"}


@pytest.fixture(autouse=True)
def nobody_looks_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that reads channels and is not woken sleeps for ever here, and its test fails."""
    monkeypatch.setattr(polling, "INBOXES_MS", 3_600_000)


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


def storage_of(place: str, job: str = "pipeline") -> JobStorage:
    return JobStorage(open_store(place), job)


def newest(place: str, job: str = "pipeline") -> Manifest:
    manifest = storage_of(place, job).newest_manifest()
    assert manifest is not None
    return manifest


def test_a_bounded_pipeline_ends_by_itself_with_one_checkpoint_and_nothing_lost(
    spark: SparkSession, world: PipelineWorld
) -> None:
    world.fill()

    result = world.job(live=False).start(spark, storage=world.storage, config=NO_INTERVAL).wait()

    assert (result.state, result.checkpoint, result.error) == ("FINISHED", 1, None)
    world.check(live=False)
    manifest = newest(world.storage)
    assert storage_of(world.storage).checkpoints() == [1], "one checkpoint ends all the tasks"
    assert set(manifest.finished_tasks) == {"enrich", "hourly", "archive", "both"}
    assert manifest.kind == "final"
    assert manifest.in_flight_bytes == 0
    assert set(manifest.transactions) == {"hourly_out", "archive_out", "both_out"}
    assert orphans(world.storage) == []


def chain(world: PipelineWorld, length: int) -> rk.Job:
    """Each task passes on what it reads, without event times, and writes it to a sink; the last rows are left out."""
    job = rk.Job("chain")
    stream = job.source("history", rk.Files(str(world.history)))
    for number in range(length):

        @job.task(stream, uid=f"step{number}")
        def step(frame):
            return frame.filter("k <> 'z'")

        job.sink(f"out{number}", step, rk.sinks.Parquet(world.root / f"out{number}"))
        stream = step
    return job


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_chain_of_five_sinks_ends_with_one_checkpoint(spark: SparkSession, world: PipelineWorld) -> None:
    # Nothing of the last file comes through the first task: its last batch puts no segment into the channel.
    world.add_history(rows(0, 30), rows(1, 30, keys="z"))

    result = chain(world, 5).start(spark, storage=world.storage, config=NO_INTERVAL | SMALL_BATCHES).wait()

    assert (result.state, result.checkpoint) == ("FINISHED", 1)
    expected = Counter((key, value) for _, key, value in world.data if key != "z")
    for number in range(5):
        assert Counter((row["k"], row["v"]) for row in committed(world.root / f"out{number}")) == expected
    assert len(newest(world.storage, "chain").finished_tasks) == 5
    assert orphans(world.storage) == [], "the file of a batch without rows is its own"


def test_a_task_that_is_sent_nothing_ends_too(spark: SparkSession, world: PipelineWorld) -> None:
    world.add_history(rows(0, 3, keys="z"))

    result = chain(world, 2).start(spark, storage=world.storage, config=NO_INTERVAL).wait()

    assert (result.state, result.checkpoint) == ("FINISHED", 1)
    assert committed(world.root / "out1") == []


def test_event_time_crosses_channels_while_the_live_stream_goes_on_and_after_a_restart(
    spark: SparkSession, world: PipelineWorld
) -> None:
    world.fill()
    handle = world.job().start(spark, storage=world.storage, config=QUICK)
    # The history has ended and is far behind the live stream; windows of both come out while that goes on.
    until(lambda: world.has_window("hourly", 30))
    until(lambda: world.has_window("both", 30))
    assert handle.wait(0) is None and not task(handle, "enrich").inputs["live"].ended
    handle.stop()
    assert handle.wait().state == "STOPPED"
    assert orphans(world.storage) == []

    handle = world.job().start(spark, storage=world.storage, config=QUICK)
    # What a task without state knows of the time after a batch, its readers hear with the next one.
    world.add_live(rows(40, 60), rows(43, 60), rows(46, 60))
    until(lambda: world.has_window("hourly", 40))
    until(lambda: world.has_window("both", 40))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    world.check()
    assert newest(world.storage).drained
    assert orphans(world.storage) == []


def in_background(act: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(act()))
    thread.start()
    return thread, done


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_stop_names_the_backlog_and_leaves_it_to_the_next_run(
    spark: SparkSession, world: PipelineWorld, gate: Gate
) -> None:
    world.fill()
    handle = held_up(spark, world, gate, NO_INTERVAL)
    stopping, _ = in_background(handle.stop)
    until(lambda: task(handle, "enrich").status == "waiting_for_final_checkpoint")
    gate.open()
    stopping.join(300)

    assert handle.wait().state == "STOPPED"
    manifest = newest(world.storage)
    first, until_batch = manifest.tasks["archive"][0].in_flight["enrich"][0]
    assert manifest.kind == "stop"
    assert first < until_batch == manifest.tasks["enrich"][0].batch + 1
    assert manifest.in_flight_bytes > 0
    assert world.outputs()["archive"] != world.expected_of()["archive"], "a part of it is still in the channel"

    handle = world.job().start(spark, storage=world.storage, config=QUICK)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    world.check()


@pytest.mark.usefixtures("one_file_a_batch")
def test_an_aligned_stop_waits_until_everything_in_the_channels_was_read(
    spark: SparkSession, world: PipelineWorld, gate: Gate
) -> None:
    world.fill()
    handle = held_up(spark, world, gate, {**NO_INTERVAL, "checkpoint.mode": "aligned"})
    stopping, _ = in_background(handle.stop)
    until(lambda: task(handle, "enrich").status == "waiting_for_final_checkpoint")
    assert task(handle, "archive").status == "running"
    gate.open()
    stopping.join(300)

    assert handle.wait().state == "STOPPED"
    manifest = newest(world.storage)
    assert manifest.in_flight_bytes == 0
    assert world.outputs()["archive"] == world.expected_of()["archive"]


@pytest.mark.usefixtures("one_file_a_batch")
def test_savepoints_under_a_backlog_are_restored_elsewhere_while_the_job_goes_on(
    spark: SparkSession, world: PipelineWorld, gate: Gate
) -> None:
    world.fill()
    savepoints = str(world.root / "savepoints")
    handle = held_up(spark, world, gate, NO_INTERVAL)

    unaligned = handle.savepoint(savepoints, unaligned=True).path
    committed_then = {unaligned: world.outputs()}
    copied = read_manifest(open_store(unaligned), "")
    assert copied.in_flight_bytes > 0
    assert copied.tasks["archive"][0].batch == -1
    asking, answers = in_background(lambda: handle.savepoint(savepoints).path)
    until(lambda: any(one.kind == "savepoint" and one.status == "in_progress" for one in handle.status().history))
    assert not answers, "an aligned one waits until the channels were read up to its barrier"
    gate.open()
    asking.join(300)
    (aligned,) = map(str, answers)
    committed_then[aligned] = world.outputs()
    copied = read_manifest(open_store(aligned), "")
    assert copied.in_flight_bytes == 0
    assert not [*Path(aligned.removeprefix("file://")).glob("tasks/*/*/segments/*/*")]
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    world.check()

    starts = [
        *((str(world.root / f"elsewhere{number}"), path) for number, path in enumerate(committed_then)),
        (world.storage, "1"),  # in place, from the checkpoint that the unaligned savepoint shares its barriers with
    ]
    for storage, path in starts:
        for folder in world.outs.values():
            shutil.rmtree(folder)
        handle = world.job().start(spark, storage=storage, restore=path, config=QUICK, allow_sink_ahead=True)
        handle.stop(drain=True)
        assert handle.wait().state == "DRAINED"
        world.check(already=committed_then.get(path, committed_then[unaligned]))


def test_a_task_that_fails_restarts_alone(spark: SparkSession, world: PipelineWorld) -> None:
    world.fill()
    once = world.root / "once"
    once.touch()

    def fails_once(frame):
        from pyspark.sql import functions as F

        path = str(once)

        def fails(_: int) -> bool:
            import os

            if os.path.exists(path):
                os.remove(path)
                raise ValueError("not yet")
            return True

        return frame.filter(F.udf(fails, "boolean")("v"))

    runs: dict[str, list[str]] = {}

    def note_runs() -> bool:
        for query in spark.streams.active:
            # A query's progress directory names its task.
            source = dict(query.lastProgress or {}).get("sources") or [{}]
            for uid in ("enrich", "hourly", "archive", "both"):
                if f"/tasks/{uid}/" in str(source[-1].get("description")):
                    known = runs.setdefault(uid, [])
                    known += [str(query.runId)] if str(query.runId) not in known else []
        return not once.exists()

    handle = world.job(seen=fails_once).start(spark, storage=world.storage, config=QUICK)
    until(lambda: note_runs() and all(folder.exists() for folder in world.outs.values()))
    until(lambda: note_runs() and world.has_window("hourly", 30))
    handle.stop(drain=True)
    result = handle.wait()

    assert (result.state, result.error) == ("DRAINED", None)
    world.check()
    assert {uid: len(found) for uid, found in runs.items() if uid != "archive"} == {"enrich": 1, "hourly": 1, "both": 1}


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_finished_task_is_not_started_again_and_what_it_wrote_is_read_on(
    spark: SparkSession, world: PipelineWorld, gate: Gate
) -> None:
    world.add_history(rows(10, 90), rows(0, 90), rows(20, 30))
    world.add_extra(rows(12, 90))
    handle = world.job(live=False, seen=gate).start(
        spark, storage=world.storage, config={"checkpoint.interval": "500 ms", **SMALL_BATCHES}
    )
    gate.await_held()
    until(lambda: task(handle, "enrich").status in FLUSHED)
    handle.checkpoint()
    stopping, _ = in_background(handle.stop)
    until(lambda: task(handle, "archive").status == "suspending")
    gate.open()
    stopping.join(300)
    assert handle.wait().state == "STOPPED"
    manifest = newest(world.storage)
    assert "enrich" in manifest.finished_tasks
    assert "archive" not in manifest.finished_tasks
    assert manifest.in_flight_bytes > 0

    started: list[str] = []
    progress = Path(world.storage) / "pipeline" / "tasks" / "enrich" / "0" / "000001" / "spark"
    before = {str(path) for path in progress.rglob("*")}
    handle = world.job(live=False).start(spark, storage=world.storage, config=QUICK)
    until(
        lambda: started.extend(str(query.lastProgress) for query in spark.streams.active) or handle.wait(0) is not None
    )

    assert handle.wait().state == "FINISHED"
    world.check(live=False)
    # What no retained checkpoint needs may go meanwhile.
    assert {str(path) for path in progress.rglob("*")} <= before, "its query was not started"
    assert not [one for one in started if str(world.history) in one or "/inbox/history" in one]


def test_what_cannot_be_a_pipeline_is_refused(spark: SparkSession, world: PipelineWorld) -> None:
    world.add_history(rows(0, 3))

    def refused(make, *, event_time=None, name="refused", sinks=("end",), then=lambda frame: frame):
        job = rk.Job(name)
        history = job.source("history", rk.Files(str(world.history)), event_time="ts")

        @job.task(history, event_time=event_time)
        def begin(frame):
            return make(frame)

        @job.task(begin)
        def end(frame):
            return then(frame)

        for uid in sinks:
            job.sink(f"{uid}_out", {"begin": begin, "end": end}[uid], rk.sinks.Parquet(world.root / "refused"))
        with pytest.raises(rk.RekindleError) as caught:
            job.start(spark, storage=world.storage, config=NO_INTERVAL).wait()
        return caught.value

    error = refused(lambda frame: frame.drop("ts"), event_time="ts")
    assert error.code == "EVENT_TIME_MISSING"
    assert "begin" in str(error)
    assert refused(lambda frame: frame, sinks=("begin",)).code == "SINK_MISSING"
    error = refused(lambda frame: frame, event_time="ts", then=lambda frame: frame.dropDuplicatesWithinWatermark(["k"]))
    assert (error.code, error.parameters["source"]) == ("DEDUPLICATION_UNSUPPORTED", "begin")


@pytest.mark.slow
@pytest.mark.usefixtures("one_file_a_batch")
def test_what_a_pipeline_keeps_is_bounded(spark: SparkSession, world: PipelineWorld) -> None:
    world.add_history(*(rows(hour / 4, 2) for hour in range(60)))
    world.add_extra(rows(0, 2))
    config = {"checkpoint.interval": "1 second", "checkpoint.retained": "2", **SMALL_BATCHES}

    result = world.job(live=False).start(spark, storage=world.storage, config=config).wait()

    assert result.state == "FINISHED"
    world.check(live=False)
    kept = kinds_of_files(Path(world.storage) / "pipeline")
    assert max(count for kind, count in kept.items() if "/spark" not in kind) < 40, kept
    # Spark's logs of batches have a bound of their own (test_storage_stays_bounded).
    assert max(count for kind, count in kept.items() if "/sources/" in kind) < 80, kept
    assert sum(count for kind, count in kept.items() if "/segments/" in kind) < 60, kept


def test_windows_of_windows_in_two_tasks_lose_nothing_when_a_drain_is_taken_back(
    spark: SparkSession, world: PipelineWorld
) -> None:
    from pyspark.sql import functions as F

    def windows() -> rk.Job:
        job = rk.Job("windows")
        history = job.source("history", rk.Files(str(world.history)), event_time="ts")
        live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

        # The start of a window of an hour lies an hour behind what the task knows of the time.
        @job.task(history, live, event_time="ts", watermark="1 hour")
        def hourly(first, second):
            hours = first.unionByName(second).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
            return hours.select(F.col("window.start").alias("ts"), "k", "v")

        @job.task(hourly)
        def longer(hours):
            return hours.groupBy(F.window("ts", "3 hours"), "k").agg(F.sum("v").alias("w"))

        job.sink("longer_out", longer, rk.sinks.Parquet(world.outs["hourly"]))
        return job

    def expected() -> Counter:
        sums: Counter = Counter()
        for ts, key, value in world.data:
            sums[(ts.replace(hour=ts.hour // 3 * 3, minute=0, tzinfo=None), key)] += value
        return Counter((start, key, total) for (start, key), total in sums.items())

    world.add_history(rows(3, 90), rows(0, 90))
    world.add_live(rows(30, 60), rows(36, 60), rows(42, 60))
    handle = windows().start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 3) and world.has_window("hourly", 30))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.outputs()["hourly"] == expected()

    handle = windows().start(spark, storage=world.storage, config=QUICK, allow_drained=True)
    world.add_live(rows(48, 60), rows(54, 60), rows(60, 60))
    until(lambda: has_read(handle, 6) and world.has_window("hourly", 48))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.outputs()["hourly"] == expected()
