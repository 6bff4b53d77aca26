"""A job from its beginning to each of its ends, on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import StorageError
from rekindle.runtime.steps import heard_by
from rekindle.storage import layout
from rekindle.testing.crash import Moment, Moments
from tests.jobs.kit import QUICK, World, rows, until


def test_a_bounded_job_ends_by_itself_with_every_window_and_one_final_checkpoint(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(10, 90), rows(0, 90), rows(20, 90))

    result = (
        world.hourly(live=False).start(spark, storage=world.storage, config={"checkpoint.interval": "1 hour"}).wait()
    )

    assert result.error is None
    assert (result.state, result.checkpoint) == ("FINISHED", 1)
    assert world.output() == world.expected()


def test_a_finished_job_says_so_when_it_is_run_again(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 30))
    world.hourly(live=False).start(spark, storage=world.storage).wait()

    again = world.hourly(live=False).start(spark, storage=world.storage).wait()

    assert (again.state, again.already_ended) == ("FINISHED", True)
    assert world.output() == world.expected()


def test_a_live_stream_goes_on_after_its_history_has_ended_and_after_a_restart(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 90), rows(5, 90))
    world.add_live(rows(100, 60))
    handle = world.hourly().start(spark, storage=world.storage, config=QUICK)
    until(lambda: handle.status().tasks[0].inputs["history"].ended)
    world.add_live(rows(103, 60))
    world.add_live(rows(106, 60))
    until(lambda: world.has_hour(100))
    handle.stop()
    assert handle.wait().state == "STOPPED"

    handle = world.hourly().start(spark, storage=world.storage, config=QUICK)
    world.add_live(rows(110, 60))
    world.add_live(rows(113, 60))
    until(lambda: world.has_hour(110))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


def test_half_of_sparks_first_plan_does_not_keep_a_query_from_starting_for_ever(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 90))
    killed = Moments([Moment("lineage.create", "after")])
    with pytest.raises(StorageError, match="injected"):
        heard_by(killed, world.hourly(live=False).start)(spark, storage=world.storage)
    progress = Path(world.storage, layout.spark_progress_dir(layout.subtask("hourly", "count", 0, 1)))
    (progress / "offsets").mkdir(parents=True)
    (progress / "offsets" / ".0.931511c5-6dfa-42c1-9c89-b012a65e72fa.tmp").write_text("v1\n{")

    result = (
        world.hourly(live=False).start(spark, storage=world.storage, config=QUICK | {"restart.attempts": "1"}).wait()
    )

    assert (result.state, result.error) == ("FINISHED", None)
    assert world.output() == world.expected()


def test_a_stop_while_the_first_batch_keeps_failing_leaves_a_job_that_goes_on(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 90))
    failures = []

    def failing(step: str) -> None:
        if step == "sink.prepare/after":
            failures.append(step)
            raise OSError("gone")

    config = QUICK | {"restart.attempts": "100"}
    handle = heard_by(failing, world.hourly(live=False).start)(spark, storage=world.storage, config=config)
    until(lambda: len(failures) > 1)
    handle.stop()
    assert handle.wait().state == "STOPPED"
    progress = Path(world.storage, layout.spark_progress_dir(layout.subtask("hourly", "count", 0, 1)))
    assert list((progress / "state").iterdir()), "the batch had got that far"
    assert not list((progress / "offsets").glob("[0-9]*")), "and is forgotten"

    result = (
        world.hourly(live=False).start(spark, storage=world.storage, config=QUICK | {"restart.attempts": "1"}).wait()
    )

    assert (result.state, result.error) == ("FINISHED", None)
    assert world.output() == world.expected()
