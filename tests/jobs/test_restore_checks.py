"""What has finished is not started again, so a job that would feed it is refused, in place and from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import RestoreError
from tests.jobs.kit import World, rows, until


def job(world: World, *, sinks: tuple[str, ...]) -> rk.Job:
    """A task that ends and one that does not."""
    made = rk.Job("two")
    history = made.source("history", rk.Files(str(world.history)))
    live = made.source("live", world.stream())
    ends = made.task(history, uid="ends")(lambda frame: frame)
    lasts = made.task(live, uid="lasts")(lambda frame: frame)
    for uid in sinks:
        made.sink(uid, ends, rk.sinks.Parquet(world.root / uid))
    made.sink("other", lasts, rk.sinks.Parquet(world.root / "other"))
    return made


@pytest.mark.spark
def test_a_sink_that_is_added_to_a_task_that_has_finished_is_refused_and_nothing_is_lost(
    spark: Any, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.add_history(rows(0, 30))
    world.add_live(rows(30, 30))
    start = {"storage": str(tmp_path / "state"), "config": {"checkpoint.interval": "500 ms"}}
    handle = job(world, sinks=("out",)).start(spark, **start)
    until(lambda: {task.uid: task.status for task in handle.status().tasks}.get("ends") == "closed")
    handle.stop()
    handle.wait()

    for restore in ({}, {"restore": str(handle.status().latest_checkpoint)}):
        with pytest.raises(RestoreError) as refused:
            job(world, sinks=("out", "late")).start(spark, **start, **restore)
        assert refused.value.code == "FINISHED_STATE_MIXED"
        assert "late had not finished" in str(refused.value)

    again = job(world, sinks=("out",)).start(spark, **start)
    again.stop(drain=True)
    assert again.wait().state == "DRAINED"
