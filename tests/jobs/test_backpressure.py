"""A task waits before it writes while too much lies unread in its channels, and can be stopped while it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.channels.backlog import Backlog
from tests.crash.pipeline_kit import PipelineWorld
from tests.jobs.kit import until

ENOUGH = 5
"""Looks for room in vain, of one batch, that show that it waits."""


def held_by(gate: str) -> Any:
    """Rows that come through once the gate is there; one core waits for it, and leaves the other to others."""
    from pyspark.sql import functions as F

    def wait(value: int) -> int:
        while not Path(gate).exists():
            time.sleep(0.02)
        return value

    return lambda frame: frame.coalesce(1).withColumn("v", F.udf(wait, "long")("v"))


@pytest.mark.spark
@pytest.mark.usefixtures("one_file_a_batch")
def test_a_task_waits_for_the_slowest_that_reads_it_and_stops_and_goes_on_without_loss(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    wait = Backlog.wait

    def counted(self: Backlog, given_up: Callable[[], bool]) -> None:
        looks.append(0)

        def look() -> bool:
            looks[-1] += 1
            return given_up()

        wait(self, look)

    monkeypatch.setattr(Backlog, "wait", counted)
    world, gate = PipelineWorld(tmp_path).fill(), tmp_path / "gate"
    start = {
        "storage": str(tmp_path / "state"),
        "config": {
            "checkpoint.interval": "0",
            "channel.max_in_flight_bytes": "1",
            "input.target_batch_duration": "1 ms",
        },
    }
    job = world.job(live=False, seen=held_by(str(gate)))
    handle = job.start(spark, **start)

    def batches() -> dict[str, int]:
        return {task.uid: task.batch for task in handle.status().tasks}

    try:
        until(lambda: batches()["hourly"] >= 0 and len(looks) >= 2 and looks[1] >= ENOUGH)
        found = batches()
    finally:
        gate.touch()
    assert (found["enrich"], found["archive"]) == (0, -1), "of three files it has written one, and waits"

    handle.stop()
    result = handle.wait()
    assert result is not None and result.state == "STOPPED"
    assert job.start(spark, **start).wait().state == "FINISHED"
    world.check(live=False)
