"""The list of durable steps: it is this one, each of them is reached, and nothing durable is written beside them."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime import steps
from rekindle.runtime.steps import SteppedStore, heard_by
from rekindle.testing.crash import ALL_MOMENTS, WHEN, Moments
from tests.crash.kit import CONFIG, OF_OTHERS, OF_PIPELINES, CrashWorld, lose_the_first_record
from tests.crash.pipeline_kit import Gate, PipelineWorld, held_up


def test_the_durable_steps_are_these() -> None:
    assert steps.ALL == (
        "answer.create",
        "committed.create",
        "drain.create",
        "end.create",
        "files.freeze",
        "history.replace",
        "inbox.admit",
        "inbox.open",
        "job.create",
        "lineage.create",
        "log.replace",
        "manifest.create",
        "mark.admit",
        "mark.write",
        "prelude.create",
        "progress.write",
        "read.create",
        "record.create",
        "request.create",
        "reserve.create",
        "result.create",
        "rewound.create",
        "run.create",
        "schema.create",
        "segment.copy",
        "segment.write",
        "segments.copy",
        "segments.write",
        "sink.abort",
        "sink.clean",
        "sink.commit",
        "sink.finish",
        "sink.prepare",
        "sink.rewind",
        "spark.commit",
        "split.assign",
        "splits.give",
        "status.replace",
        "storage.delete",
    )


def test_a_life_with_everything_in_it_reaches_every_step_and_writes_nothing_beside_them(
    spark: SparkSession, world: CrashWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rekindle")  # as `rekindle run` sets it: there is something to log
    heard = Moments()
    written = announced(monkeypatch)
    lose_the_first_record(monkeypatch.setattr)
    savepoints, elsewhere = world.root / "savepoints", world.root / "elsewhere"

    handle = heard_by(heard, world.job().start)(spark, storage=world.storage, config=CONFIG)
    world.read_all(handle)
    handle.checkpoint()
    stopped = handle.stop(savepoint=str(savepoints))
    handle.wait()
    before = world.outputs()
    handle = heard_by(heard, world.job().start)(spark, storage=world.storage, config=CONFIG)
    handle.stop(drain=True)
    result = handle.wait()
    assert result is not None and result.state == "DRAINED"
    world.check()

    # On from the savepoint, in another storage and into empty folders: what was not out yet when it was made.
    for folder in world.outs.values():
        shutil.rmtree(folder)
    handle = heard_by(heard, world.job().start)(spark, storage=str(elsewhere), restore=stopped.savepoint, config=CONFIG)
    handle.stop(drain=True)
    result = handle.wait()
    assert result is not None and result.state == "DRAINED"
    world.check(already=before)

    of_one_task = {moment.name for moment in ALL_MOMENTS if moment.step not in OF_OTHERS}
    assert sorted(of_one_task - set(heard.reached)) == [], "no run reaches these: the list is wrong, or the product"
    refuse_silent_writes(written, Path(world.storage), savepoints, elsewhere)


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_pipeline_that_is_copied_with_its_backlog_reaches_the_steps_of_channels_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    world, heard = PipelineWorld(tmp_path).fill(), Moments()
    written = announced(monkeypatch)
    savepoints, elsewhere = world.root / "savepoints", world.root / "elsewhere"

    handle = held_up(spark, world, gate, CONFIG, heard)
    savepoint = handle.savepoint(str(savepoints), unaligned=True).path
    before = world.outputs()
    gate.open()
    handle.cancel()
    for folder in world.outs.values():
        shutil.rmtree(folder, ignore_errors=True)
    handle = heard_by(heard, world.job().start)(spark, storage=str(elsewhere), restore=savepoint, config=CONFIG)
    handle.stop(drain=True)
    result = handle.wait()

    assert result is not None and result.state == "DRAINED"
    world.check(already=before)
    # Only several subtasks share a source out: `test_parallel_faults` sees to that.
    channels = set(OF_PIPELINES) - {"split.assign"}
    assert not {f"{step}/{when}" for step in channels for when in WHEN} - set(heard.reached)
    refuse_silent_writes(written, Path(world.storage), savepoints, elsewhere)


def refuse_silent_writes(written: set[Path], *roots: Path) -> None:
    """Whatever lies there was announced as a step."""
    for root in roots:
        beside = {file for file in files(root) if file not in written and not is_sparks_own(file.relative_to(root))}
        assert not beside, "written without having been announced"


def announced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files that are written as steps, from now on."""
    written: set[Path] = set()
    for name, target in (("create", 0), ("replace", 0), ("copy", 1), ("copy_from", 2)):
        original = getattr(SteppedStore, name)

        def noting(store, *arguments, original=original, target=target):
            written.add(Path(store.location, arguments[target]))
            return original(store, *arguments)

        monkeypatch.setattr(SteppedStore, name, noting)
    return written


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file()}


def is_sparks_own(path: Path) -> bool:
    """What Spark writes: its progress directories, whose commit is a step, and the segments of ``segments.write``."""
    return "spark" in path.parts or "segments" in path.parts or path.name.endswith(".crc")
