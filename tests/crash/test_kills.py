"""kill -9 of a real driver, at a durable step or at any time; then the job is run on, and its output is compared."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rekindle.testing.crash import ALL_MOMENTS, WHEN, Moment
from tests.crash.kit import OF_OTHERS, CrashWorld
from tests.crash.lives import kill_after, kill_at, kill_engine_at
from tests.crash.report import Report

ONLY_LIVE = (
    "answer.create", "drain.create", "mark.admit", "mark.write", "request.create", "segments.copy", "storage.delete",
)  # fmt: skip
"""Steps that a job reaches which is asked for a savepoint and then drained; the others, one that ends by itself."""

TELLING = ("record.create/after", "manifest.create/after")
"""For every test run: behind the pre-commit, and behind the commit point."""

AGAIN = ("inbox.admit", "record.create", "sink.prepare", "sink.commit", "spark.commit")
"""Steps that are worth a kill the second time too."""

RANDOM_KILLS = 20
SECONDS_OF_LIFE = 9
"""How long such a job takes on an idle machine, from its first sign of life on."""

ONE_TASK = tuple(moment for moment in ALL_MOMENTS if moment.step not in OF_OTHERS)
"""Moments of a job of one task; `test_pipeline_faults` kills the others."""

MOMENTS = (*ONE_TASK, *(Moment(step, when, 2) for step in AGAIN for when in WHEN))


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    with Report("one-task", MOMENTS, RANDOM_KILLS).written() as report:
        yield report


@pytest.fixture(scope="module")
def engines() -> Iterator[Report]:
    with Report("engine", MOMENTS, 0).written() as report:
        yield report


def how(moment: Moment) -> dict[str, bool]:
    """What a driver must be like to reach a moment."""
    return {
        "live": moment.step in ONLY_LIVE,
        "rival": moment.step == "sink.abort",
        "planted": moment.step == "progress.write",
    }


def kill(spark: SparkSession, world: CrashWorld, moment: Moment) -> str:
    return kill_at(spark, world, moment, **how(moment))


def kill_engine(spark: SparkSession, world: CrashWorld, moment: Moment) -> str:
    return kill_engine_at(spark, world, moment, **how(moment))


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    kill(spark, world, Moment.parse(text))


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_driver_killed_at_any_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, moment: Moment, report: Report
) -> None:
    report.at(moment, lambda: kill(spark, world, moment))


@pytest.mark.slow
@pytest.mark.parametrize("text", TELLING[:1])
def test_a_job_goes_on_in_its_process_when_its_jvm_is_killed_at_a_telling_step(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    assert kill_engine(spark, world, Moment.parse(text)) == "exact, run 2"


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_job_goes_on_in_its_process_when_its_jvm_is_killed_at_any_step(
    spark: SparkSession, world: CrashWorld, moment: Moment, engines: Report
) -> None:
    engines.at(moment, lambda: kill_engine(spark, world, moment))


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(RANDOM_KILLS))
def test_a_driver_killed_at_any_time_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, seed: int, report: Report
) -> None:
    chance = random.Random(seed)
    live, seconds = chance.random() < 0.5, chance.random() * SECONDS_OF_LIFE
    what = f"{'drained' if live else 'bounded'} job (seed {seed})"
    report.after(seconds, what, lambda: kill_after(spark, world, seconds, live=live))
