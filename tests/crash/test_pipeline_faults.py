"""The pipeline of `pipeline_kit`, broken at every durable step, before and after it; then it is run on, and compared.

As `test_faults` does it for a job of one task: one storage lives through all the faults of a test. And as `test_kills`
does it: ``kill -9`` of a real driver at a step.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.job import JobHandle
from rekindle.spark import assembly
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import ALL_MOMENTS, Moment, Moments
from tests.crash.kit import CONFIG, persist
from tests.crash.pipeline_kit import SMALL_BATCHES, PipelineWorld, read_all, read_and_drain
from tests.crash.victim import FEW_CHECKPOINTS, Victim

NOT_IN_THESE_LIVES = {"sink.abort", "segments.write", "segments.copy", "segment.copy", "split.assign"}
"""They need another driver that is quicker (`test_rivals`), a batch source (`test_faults`), a backlog (below), parallel
subtasks (`test_parallel_faults`)."""

ONLY_WHERE_IT_IS_STOPPED = {"answer.create", "drain.create", "request.create"}

JOB_FILE = Path(__file__).with_name("pipeline_job_file.py")

FILE_BY_FILE = ("--set", "input.target_batch_duration=1 ms")

TELLING = ("segment.write/after:2",)
"""For every test run: a driver that is killed when a batch's segments are written and its record is not."""


MANY_BATCHES = {**CONFIG, **SMALL_BATCHES}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineWorld:
    monkeypatch.setattr(assembly, "FIRST_ADMISSION_BYTES_PER_CORE", 1)
    return PipelineWorld(tmp_path).fill()


def faults_of(when: str, nth: int) -> Moments:
    return Moments(
        Moment(moment.step, when, nth)
        for moment in ALL_MOMENTS
        if moment.when == when and moment.step not in NOT_IN_THESE_LIVES
    )


SECOND_TIME = pytest.param(2, marks=pytest.mark.slow)


@pytest.mark.parametrize("nth", [1, SECOND_TIME])
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_pipeline_that_ends_by_itself_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: PipelineWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth)

    persist(
        lambda: world.job(live=False).start(spark, storage=world.storage, config=MANY_BATCHES, steps=faults), "FINISHED"
    )

    world.check(live=False)
    if nth == 1:
        assert {moment.step for moment in faults.waiting} <= ONLY_WHERE_IT_IS_STOPPED


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pipeline_that_is_stopped_moved_and_drained_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: PipelineWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth)
    elsewhere = str(world.root / "elsewhere")
    savepoints = str(world.root / "savepoints")

    def start() -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=MANY_BATCHES, steps=faults)

    def save_and_stop(handle: JobHandle) -> None:
        read_all(handle)
        handle.savepoint(savepoints, unaligned=True)
        handle.stop(savepoint=savepoints)

    def drain(handle: JobHandle) -> None:
        handle.stop(drain=True)

    savepoint = persist(start, "STOPPED", save_and_stop).savepoint
    before = world.outputs()
    persist(start, "DRAINED", drain)
    world.check()

    for folder in world.outs.values():
        shutil.rmtree(folder)

    def start_elsewhere() -> JobHandle:
        # Once a run is claimed, its restore is carried through without being asked for again.
        begun = JobStorage(open_store(elsewhere), "pipeline").latest_run() is not None
        restore = None if begun else savepoint
        return world.job().start(spark, storage=elsewhere, restore=restore, config=MANY_BATCHES, steps=faults)

    persist(start_elsewhere, "DRAINED", drain)
    world.check(already=before)


RANDOM_KILLS = 30
SECONDS_OF_LIFE = 20
"""From the start of a pipeline to its end, on two cores, more or less."""


def kill_and_resume(spark: SparkSession, world: PipelineWorld, moment: Moment) -> None:
    live = moment.step in ONLY_WHERE_IT_IS_STOPPED
    victim = Victim(world, "--kill-at", str(moment), *FILE_BY_FILE, live=live, job_file=JOB_FILE)
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"
    resume(spark, world, live=live)


def resume(spark: SparkSession, world: PipelineWorld, *, live: bool) -> None:
    """Run the job on to its end, in this process."""
    end, then = ("DRAINED", (read_and_drain,)) if live else ("FINISHED", ())
    persist(lambda: world.job(live=live).start(spark, storage=world.storage, config=FEW_CHECKPOINTS), end, *then)
    world.check(live=live)


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_of_a_pipeline_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, text: str
) -> None:
    kill_and_resume(spark, world, Moment.parse(text))


@pytest.mark.crash
@pytest.mark.parametrize("moment", [moment for moment in ALL_MOMENTS if moment.step not in NOT_IN_THESE_LIVES], ids=str)
def test_a_driver_of_a_pipeline_killed_at_any_step_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, moment: Moment
) -> None:
    kill_and_resume(spark, world, moment)


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(RANDOM_KILLS))
def test_a_driver_of_a_pipeline_killed_at_any_time_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, seed: int
) -> None:
    chance = random.Random(seed)
    live, share = chance.random() < 0.5, chance.random()
    Victim(world, *FILE_BY_FILE, live=live, job_file=JOB_FILE).kill_after(share * SECONDS_OF_LIFE)
    resume(spark, world, live=live)
