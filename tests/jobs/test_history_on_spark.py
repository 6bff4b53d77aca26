"""The history of a job on Spark: what Spark's reports tell is counted."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.history import log
from rekindle.history.log import CHECKPOINTS, EVENTS
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.jobs.kit import World, rows, until
from tests.simulation.watched import check_history


def test_rows_read_and_put_out_and_the_state_are_counted(spark: SparkSession, world: World) -> None:
    world.add_history(rows(10, 90), rows(0, 90), rows(20, 90))
    read = world.hourly(live=False).start(spark, storage=world.storage, config={"checkpoint.interval": "1 hour"})
    result = read.wait()
    assert result is not None and result.state == "FINISHED"
    status = read.status()
    (task,) = status.tasks
    assert (status.rows_in, task.rows_in) == (270, 270)
    assert status.rows_uncommitted == 0
    assert task.state_rows == 0, "the flush has them counted"
    assert task.state_bytes is not None and task.busy_ms > 0

    storage = JobStorage(LocalStore(world.storage), status.job)
    check_history(storage)
    (record,) = (one.row for one in log.read(storage, CHECKPOINTS))
    assert record.kind == "final" and record.commit_ms is not None
    (part,) = record.subtasks
    assert part.state_bytes and record.state_bytes == part.state_bytes
    assert [*record.sink_commit_ms] == ["out"]
    run = storage.latest_run()
    assert run is not None and run.description is not None
    assert [source.kind for source in run.description.sources] == ["Files"]
    assert run.description.settings["checkpoint.interval"] == "60 minutes"
    kinds = [one.row.kind for one in log.read(storage, EVENTS)]
    assert kinds == ["run_started", "task_finished", "checkpoint_completed", "run_ended"]


def knows_the_state(handle: rk.JobHandle) -> bool:
    return bool(handle.status().tasks[0].state_bytes)


def test_rows_of_state_are_unknown_until_the_session_has_them_counted(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 20))
    seen = []
    for counted in ("false", "true"):
        session = spark.newSession()
        session.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", counted)
        handle = world.hourly(history=False).start(session, storage=world.storage)
        world.add_live(rows(20, 20))
        until(partial(knows_the_state, handle))
        seen.append(handle.status().tasks[0].state_rows)
        handle.stop()
    assert seen[0] is None
    assert seen[1]
