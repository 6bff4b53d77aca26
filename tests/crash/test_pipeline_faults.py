"""The pipeline of `pipeline_kit`, broken at every durable step, before and after it; then it is run on, and compared.

As `test_faults` does it for a job of one task: one storage lives through all the faults of a test. And as `test_kills`
does it: ``kill -9`` of a real driver at a step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.testing.crash import ALL_MOMENTS, Moment
from tests.crash.kit import CONFIG, OF_CUSTOM_SOURCES, OF_PRELUDES, OF_REWINDS
from tests.crash.lives import faults_of, kill_after, kill_at, run_to_its_end, stop_move_and_drain
from tests.crash.pipeline_kit import SMALL_BATCHES, PipelineWorld
from tests.crash.report import Report

NOT_IN_THESE_LIVES = {
    "sink.abort",
    "segments.write",
    "segments.copy",
    "segment.copy",
    "split.assign",
    *OF_REWINDS,
    *OF_CUSTOM_SOURCES,
    *OF_PRELUDES,
}
"""They need another driver that is quicker (`test_rivals`), a batch source (`test_faults`), a backlog (below), parallel
subtasks (`test_parallel_faults`)."""

ONLY_WHERE_IT_IS_STOPPED = {"answer.create", "drain.create", "request.create"}

ONLY_AFTER_A_FAULT = {"progress.write"}
"""A flush is planted if a fault has come between the last batch and it; else the query that runs makes it.

`test_kills` breaks a job whose flush is always planted."""

TELLING = ("segment.write/after:2",)
"""For every test run: a driver that is killed when a batch's segments are written and its record is not."""

MOMENTS = tuple(moment for moment in ALL_MOMENTS if moment.step not in NOT_IN_THESE_LIVES | ONLY_AFTER_A_FAULT)

RANDOM_KILLS = 30
SECONDS_OF_LIFE = 20
"""From the start of a pipeline to its end, on two cores, more or less."""

MANY_BATCHES = {**CONFIG, **SMALL_BATCHES}


@pytest.fixture
def world(tmp_path: Path, one_file_a_batch: None) -> PipelineWorld:
    return PipelineWorld(tmp_path).fill()


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    with Report("pipeline", MOMENTS, RANDOM_KILLS).written() as report:
        yield report


SECOND_TIME = pytest.param(2, marks=pytest.mark.slow)


@pytest.mark.parametrize("nth", [1, SECOND_TIME])
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_pipeline_that_ends_by_itself_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: PipelineWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth, NOT_IN_THESE_LIVES)
    run_to_its_end(spark, world, faults, MANY_BATCHES)
    if nth == 1:
        assert {moment.step for moment in faults.waiting} <= ONLY_WHERE_IT_IS_STOPPED | ONLY_AFTER_A_FAULT


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pipeline_that_is_stopped_moved_and_drained_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: PipelineWorld, when: str, nth: int
) -> None:
    stop_move_and_drain(spark, world, faults_of(when, nth, NOT_IN_THESE_LIVES), MANY_BATCHES, unaligned=True)


def kill(spark: SparkSession, world: PipelineWorld, moment: Moment) -> str:
    return kill_at(spark, world, moment, live=moment.step in ONLY_WHERE_IT_IS_STOPPED)


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_of_a_pipeline_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, text: str
) -> None:
    kill(spark, world, Moment.parse(text))


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_driver_of_a_pipeline_killed_at_any_step_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, moment: Moment, report: Report
) -> None:
    report.at(moment, lambda: kill(spark, world, moment))


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(RANDOM_KILLS))
def test_a_driver_of_a_pipeline_killed_at_any_time_is_resumed_without_loss(
    spark: SparkSession, world: PipelineWorld, seed: int, report: Report
) -> None:
    chance = random.Random(seed)
    live, seconds = chance.random() < 0.5, chance.random() * SECONDS_OF_LIFE
    what = f"{'drained' if live else 'bounded'} pipeline (seed {seed})"
    report.after(seconds, what, lambda: kill_after(spark, world, seconds, live=live))
