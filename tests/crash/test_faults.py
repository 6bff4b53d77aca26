"""A fault at every durable step, before it and after it, in this process: the job is run on, and nothing shows.

One storage lives through all the faults of a test, one after the other: each moment fails once, the job (or the task,
by its own restart) is started again, gets as far as the next one, and so on to its end. `test_kills` takes them one by
one.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.crash.kit import CONFIG, OF_OTHERS, CrashWorld
from tests.crash.lives import faults_of, run_to_its_end, stop_move_and_drain

NOT_IN_THESE_LIVES = {"sink.abort", *OF_OTHERS}
"""Another driver has to be quicker for that: `test_rivals`. For the others see `test_pipeline_faults`."""


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_ends_by_itself_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: CrashWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth, NOT_IN_THESE_LIVES)
    run_to_its_end(spark, world, faults, CONFIG)
    if nth == 1:
        assert {moment.step for moment in faults.waiting} <= {
            "answer.create",
            "drain.create",
            "mark.admit",
            "mark.write",
            "progress.write",
            "request.create",
            "segments.copy",
        }


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_is_stopped_moved_and_drained_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: CrashWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth, NOT_IN_THESE_LIVES)
    stop_move_and_drain(spark, world, faults, CONFIG)
    if nth == 1:
        assert not faults.waiting, "these were never reached"
