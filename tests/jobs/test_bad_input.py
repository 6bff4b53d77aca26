"""Everything that can be wrong with what a job is given: the exact error, a way out, and nothing lost.

Each test breaks something, looks at the error, mends the cause as its next step says, runs the same job again and
compares its output. Job files that raise or define no job are in ``tests/cli``, stale and unreadable requests in
``tests/runtime``, wrong files of a source in ``test_inputs_formats``.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError, RekindleError, StorageError
from rekindle.runtime.steps import heard_by
from rekindle.storage import disk
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.jobs.kit import World, failing_at, has_read, rows, until

BY_HAND = {"checkpoint.interval": "0", "restart.delay": "100 ms"}
FAIL_AT_ONCE = {**BY_HAND, "restart.attempts": "0"}

JOB_FILE = """
import os
from pathlib import Path
from tests.jobs.kit import World

world = World.__new__(World)
world.history, world.live, world.out = (Path(os.environ["WORLD"], name) for name in ("history", "live", "out"))
job = world.hourly()
"""


def refused(
    world: World, job: rk.Job, code: str, hint: str, spark: SparkSession | None = None, **how: Any
) -> RekindleError:
    """Start the job, which must be refused with `code` and a next step that holds `hint`."""
    with pytest.raises(RekindleError) as caught:
        job.start(spark, **{"storage": world.storage, **how})
    check(caught.value.to_json(), code, hint)
    return caught.value


def fails(world: World, job: rk.Job, code: str, hint: str, spark: SparkSession, **how: Any) -> dict[str, Any]:
    """Run the job, which must start and fail with `code`; returns the error."""
    result = job.start(spark, **{"storage": world.storage, "config": FAIL_AT_ONCE, **how}).wait()
    assert result.state == "FAILED"
    assert result.error is not None
    check(result.error, code, hint)
    return result.error


def check(error: dict[str, Any], code: str, hint: str) -> None:
    assert error["code"] == code, error
    assert hint in error["next_step"], error
    for words in (error["message"], error["next_step"]):
        assert "\n" not in words and len(words) < 1_000


def drained(world: World, job: rk.Job, spark: SparkSession, files: int) -> None:
    """Run the job until it has read so many live files, drain it, and look at all that it ever wrote."""
    handle = job.start(spark, storage=world.storage, config=BY_HAND)
    until(lambda: has_read(handle, files))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


@contextmanager
def replaced(path: Path, data: bytes) -> Iterator[None]:
    """Other bytes for a while."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def command_line(world: World, *arguments: str) -> list[str]:
    """``rekindle run`` in a process of its own, which must fail without a traceback; returns its two lines."""
    job_file = world.root / "job.py"
    job_file.write_text(JOB_FILE)
    command = [sys.executable, "-m", "rekindle.cli", "run", str(job_file), "--storage", world.storage, *arguments]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    environment = {**os.environ, "WORLD": str(world.root), "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Starting ", "Spark logs to "))]
    assert len(lines) == 2, done.stderr
    assert lines[1].startswith("next: ")
    return lines


def test_a_stopped_job_is_not_started_from_what_is_damaged_unknown_or_anothers_and_then_goes_on(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 60), rows(3, 60))
    world.add_live(rows(100, 60))
    handle = world.hourly().start(spark, storage=world.storage, config=BY_HAND)
    until(lambda: has_read(handle, 1) and handle.status().tasks[0].inputs["history"].ended)
    assert handle.checkpoint().number == 1
    world.add_live(rows(103, 60))
    until(lambda: has_read(handle, 2))
    assert handle.checkpoint().number == 2

    # It runs: here, and as another process sees it.
    twice = refused(world, world.hourly(), "JOB_ALREADY_RUNNING", "rekindle stop hourly")
    assert twice.parameters["pid"] == os.getpid()
    assert command_line(world)[0].startswith("[JOB_ALREADY_RUNNING] The job 'hourly' is already running (run 1")

    savepoint = handle.stop(savepoint=str(world.root / "savepoints")).savepoint
    handle.wait()
    job = Path(world.storage, "hourly")
    last = max((job / f"tasks/count/0/{1:06d}/batches").iterdir())
    manifest = job / f"checkpoints/{3:09d}/manifest.json"

    # Damaged, and of a newer version.
    documents = [
        job / "job.json",
        job / f"runs/{1:06d}.json",
        job / f"runs/{1:06d}.result.json",
        job / f"lineages/{1:06d}.json",
        job / "sources/history/files.json",
        manifest,
        last,
    ]
    for document in documents:
        for data in (b"", document.read_bytes()[:-20]):
            with replaced(document, data):
                error = refused(world, world.hourly(), "OBJECT_CORRUPT", "backup", spark)
                assert error.parameters["path"] == str(document)
        with replaced(document, b'{"format": 99}'):
            refused(world, world.hourly(), "FORMAT_NEWER", "Upgrade", spark)
    with replaced(manifest, b"{"):
        lines = command_line(world)
        assert lines[0].startswith(f"[OBJECT_CORRUPT] {manifest} is damaged")
        # From an older one, with what it may have committed since accepted; or not.
        refused(world, world.hourly(), "SINK_AHEAD", "--allow-sink-ahead", restore="2")

    # Unknown, or another job's.
    refused(world, world.hourly(), "CHECKPOINT_UNKNOWN", "rekindle checkpoints", restore="99")
    refused(world, world.hourly(), "CHECKPOINT_UNKNOWN", "rekindle checkpoints", restore=str(world.root / "nowhere"))
    assert "no checkpoint or savepoint at" in command_line(world, "--from", "99")[0]
    elsewhere = str(world.root / "elsewhere")
    other = world.hourly(name="other")
    refused(world, other, "JOB_DIFFERENT", "that job's file", storage=elsewhere, restore=savepoint)
    assert not Path(elsewhere).exists()

    # Not the job that it was.
    more = world.hourly(more=rk.Files(str(world.history)))
    refused(world, more, "INPUT_TOO_LATE", "a task of its own")
    refused(
        world, _renamed(world), "STATE_NOT_RESTORED", "If 'renamed' is 'count' renamed, say so: @job.task(..., was="
    )
    refused(world, world.hourly(), "KEY_UNKNOWN", "checkpoint.interval, ", config={"checkpoint.intervall": "1 s"})

    # Nothing of that has left a trace; and what is damaged of an older checkpoint does not matter.
    (job / f"checkpoints/{1:09d}/manifest.json").write_bytes(b"{")
    drained(world, world.hourly(), spark, 2)


def run_cell_again(job: rk.Job, world: World) -> None:
    """Define the stream of a job once more, as a notebook does: code without a file."""
    cell = 'job.source("live", world.stream(), event_time="ts", watermark="4 seconds")'
    exec(compile(cell, "<cell>", "exec"), {"job": job, "world": world})


def _renamed(world: World) -> rk.Job:
    job = rk.Job("hourly")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")
    task = job.task(live, uid="renamed")(lambda live: live)
    job.sink("out", task, rk.sinks.Parquet(world.out))
    return job


def test_after_a_damaged_record_or_checkpoint_a_job_goes_on_from_another_checkpoint(
    spark: SparkSession, world: World
) -> None:
    world.add_live(rows(0, 60), rows(2, 60))
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=BY_HAND)
    until(lambda: has_read(handle, 2) and handle.checkpoint().number > 0 and world.has_hour(0))
    good = handle.checkpoint().number
    handle.cancel()
    handle.wait()
    last = max(Path(world.storage, f"hourly/tasks/count/0/{1:06d}/batches").iterdir())
    last.write_bytes(b"{")
    refused(world, world.hourly(history=False), "OBJECT_CORRUPT", "--from", spark)

    handle = world.hourly(history=False).start(spark, storage=world.storage, restore=str(good), config=BY_HAND)
    world.add_live(rows(4, 60))
    until(lambda: has_read(handle, 3) and handle.checkpoint().number > 0 and world.has_hour(2))
    later = handle.checkpoint().number
    handle.stop()
    handle.wait()
    newest = Path(world.storage, f"hourly/checkpoints/{later + 1:09d}/manifest.json")
    assert newest.exists()
    newest.write_bytes(b"")
    refused(world, world.hourly(history=False), "OBJECT_CORRUPT", "--from", spark)
    refused(world, world.hourly(history=False), "SINK_AHEAD", "--allow-sink-ahead", spark, restore=str(later))

    handle = world.hourly(history=False).start(
        spark, storage=world.storage, restore=str(later), allow_sink_ahead=True, config=BY_HAND
    )
    handle.checkpoint()
    handle.stop()
    assert handle.wait().state == "STOPPED"
    drained(world, world.hourly(history=False), spark, 3)


def test_what_was_prepared_is_neither_forgotten_nor_lost_without_a_word(spark: SparkSession, world: World) -> None:
    job = world.hourly(history=False)
    world.add_live(rows(0, 60), rows(2, 60))
    handle = job.start(spark, storage=world.storage, config=BY_HAND)
    staging = world.out / ".rekindle"
    until(lambda: has_read(handle, 2) and any(staging.rglob("*.parquet")))
    until(lambda: handle.status().tasks[0].batch >= 2)  # the batch without data, which emits the first hour
    with pytest.raises(DefinitionError, match="JOB_STARTED"):
        run_cell_again(job, world)
    handle.cancel()
    handle.wait()
    run_cell_again(job, world)
    assert not world.output()

    # The sink that prepared rows is gone from the job.
    without = world.hourly(history=False, sink="other")
    gone = refused(world, without, "SINK_UNSETTLED", "as it was")
    assert "Rows are prepared for sink 'out'" in gone.message

    # The rows are gone.
    world.out.rename(world.root / "aside")
    handle = job.start(spark, storage=world.storage, config=FAIL_AT_ONCE)
    with pytest.raises(RekindleError) as lost:
        handle.checkpoint()
    check(lost.value.to_json(), "SINK_STAGING_LOST", "--rewind-sinks")
    assert handle.wait().error["code"] == "SINK_STAGING_LOST"
    for left in world.out.rglob("*.parquet"):
        assert ".rekindle" in left.parts, "nothing of that checkpoint is visible"
    _merge(world.root / "aside", world.out)

    # Spark's own files are edited behind a batch that is recorded and not committed.
    world.add_live(rows(4, 60))
    failing = heard_by(failing_at("spark.commit/before"), fails)
    failing(world, job, "RESTARTS_EXHAUSTED", "run again", spark)
    offsets = max(Path(world.storage).glob("hourly/tasks/count/0/*/spark/offsets/[0-9]*"), key=lambda p: int(p.name))
    assert not (offsets.parents[1] / "commits" / offsets.name).exists()
    checksum = offsets.with_name(f".{offsets.name}.crc")
    planned = offsets.read_bytes()
    checksum.unlink(missing_ok=True)
    offsets.write_bytes(planned.replace(b'"batchTimestampMs":', b'"batchTimestampMs": '))

    # A stop while such a batch waits for its restart keeps what it has recorded.
    handle = heard_by(failing_at("spark.commit/before"), job.start)(
        spark,
        storage=world.storage,
        config={**BY_HAND, "restart.delay": "2 seconds"},
    )
    until(lambda: handle.status().tasks[0].status == "restarting")
    assert offsets.read_bytes() == planned, "a record puts back the plan that it was made for"
    handle.stop()
    assert handle.wait().state == "STOPPED"
    drained(world, job, spark, 3)


def _merge(source: Path, target: Path) -> None:
    for file in [file for file in source.rglob("*") if file.is_file()]:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)


def test_a_job_that_never_came_to_start_may_be_mended_in_every_way_and_then_runs(
    spark: SparkSession, world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    def job(function: Callable[[Any], Any], path: str = str(world.history), event_time: str | None = "ts") -> rk.Job:
        made = rk.Job("hourly")
        source = made.source("history", rk.Files(path), event_time=event_time)
        made.sink("out", made.task(source, uid="count")(function), rk.sinks.Parquet(world.out))
        return made

    def hourly(frame: Any) -> Any:
        return frame.filter("v > 0").groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    def broken(frame: Any) -> Any:
        raise LookupError("no such customer\nand a second line")

    def misspelt(frame: Any) -> Any:
        return frame.select("no_such_column")

    def nothing(frame: Any) -> Any:
        return None

    def failing_udf(frame: Any) -> Any:
        class CustomerUnknown(Exception):  # a name of the user's own, and words that look like something else
            pass

        @F.udf("boolean")
        def known(key: str) -> bool:
            raise CustomerUnknown(f"{key} does not exist\nand a second line")

        return hourly(frame.filter(known("k")))

    capfd.readouterr()
    missing = refused(world, job(hourly), "PATH_MISSING", "Check the path", spark)
    assert missing.parameters["path"] == str(world.history)
    world.history.mkdir()
    refused(world, job(hourly), "PATH_EMPTY", "options that choose files", spark)
    other = World(world.root / "other")
    other.add_history([(row[0], row[1], 1_000) for row in rows(0, 5)])
    refused(world, job(hourly, str(other.history), "when"), "EVENT_TIME_MISSING", "existing column", spark)
    world.add_history(rows(0, 90), rows(5, 60))

    error = refused(world, job(broken), "TASK_FUNCTION_FAILED", "Fix", spark)
    assert "LookupError: no such customer" in error.message
    error = refused(world, job(misspelt), "TASK_FUNCTION_FAILED", "Fix", spark)
    assert "no_such_column" in error.message
    refused(world, job(nothing), "TASK_BATCH_FRAME", "DataFrame", spark)
    refused(world, job(hourly, event_time=None), "EVENT_TIME_UNDECLARED", "event_time=", spark)
    shutil.rmtree(world.out)
    world.out.write_text("in the way")
    refused(world, job(hourly), "SINK_TARGET_INVALID", "target", spark)
    world.out.unlink()
    assert capfd.readouterr() == ("", ""), "Spark prints nothing of its own"

    live = rk.Job("unending")
    source = live.source("live", world.stream())
    live.sink("out", live.task(source, uid="count")(hourly), rk.sinks.Parquet(world.root / "unending"))
    fails(world, live, "QUERY_REFUSED", "output_mode", spark)

    failed = fails(world, job(failing_udf), "RESTARTS_EXHAUSTED", "run again", spark)
    assert failed["parameters"]["reason"] == "CustomerUnknown: a does not exist"

    assert job(hourly).start(spark, storage=world.storage, config=BY_HAND).wait().state == "FINISHED"
    assert world.output() == world.expected()


@pytest.mark.parametrize(("error", "code"), [(errno.EROFS, "STORAGE_READ_ONLY"), (errno.ENOSPC, "STORAGE_FULL")])
def test_a_storage_that_cannot_be_written_is_named_at_the_start_and_on_the_way(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, error: int, code: str
) -> None:
    def opened(path: str, mode: str) -> Any:
        if mode == "xb":
            raise OSError(error, os.strerror(error))
        return open(path, mode)

    hints = {"STORAGE_READ_ONLY": "writable", "STORAGE_FULL": "room"}
    world.add_live(rows(0, 60), rows(2, 60))
    job = world.hourly(history=False)
    with monkeypatch.context() as refusing:
        refusing.setattr(disk, "open", opened, raising=False)
        refused(world, job, code, hints[code], spark)

    handle = job.start(spark, storage=world.storage, config={**FAIL_AT_ONCE, "checkpoint.interval": "200 ms"})
    until(lambda: has_read(handle, 2))
    with monkeypatch.context() as refusing:
        refusing.setattr(disk, "open", opened, raising=False)
        with pytest.raises(StorageError) as caught:
            handle.wait(60)
    check(caught.value.to_json(), code, hints[code])

    drained(world, job, spark, 2)


def test_a_storage_that_cannot_be_made_is_named(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 60))
    (world.root / "file").write_text("in the way")
    for place in ("file", "file/below"):
        refused(
            world,
            world.hourly(live=False),
            "STORAGE_UNAVAILABLE",
            "--storage",
            spark,
            storage=str(world.root / place),
        )
    assert world.hourly(live=False).start(spark, storage=world.storage).wait().state == "FINISHED"
    assert world.output() == world.expected()


def test_a_disk_that_is_really_full_loses_nothing_and_the_state_says_so(spark: SparkSession, world: World) -> None:
    disk = world.root / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    world.storage = str(disk / "storage")
    try:
        world.add_history(*(rows(hour, 30) for hour in range(6)))
        job = world.hourly(live=False)
        (disk / "ballast").write_bytes(b"x" * 100_000)
        with suppress(StorageError):
            job.start(spark, storage=world.storage, config=FAIL_AT_ONCE).wait()
        stored = JobStorage(LocalStore(world.storage), "hourly")
        result = stored.result(1)
        assert stored.state() == "FAILED" and result is not None and result.error is not None
        assert "No room is left in " in result.error["message"], result.error
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        (disk / "ballast").unlink()

        assert job.start(spark, storage=world.storage, config=BY_HAND).wait().state == "FINISHED"
        assert world.output() == world.expected()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
