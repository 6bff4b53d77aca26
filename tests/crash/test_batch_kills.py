"""kill -9 of the driver of a batch run at its durable steps; the next run brings it to its end, every row once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.crash.kit import persist
from tests.crash.pipeline_kit import PipelineWorld
from tests.crash.victim import Victim

TELLING = ("manifest.create/after",)
"""For every test run: all is decided and nothing is to be seen."""

STEPS = ("files.freeze", "segment.write", "sink.prepare", "record.create", "end.create", "manifest.create")
STEPS_TO_COMMIT = ("sink.commit", "committed.create", "result.create")

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(name, marks=() if name in TELLING else pytest.mark.crash)
        for step in (*STEPS, *STEPS_TO_COMMIT)
        for name in (f"{step}/before", f"{step}/after")
    ],
)
def test_a_batch_run_that_is_killed_is_brought_to_its_end_by_the_next(
    spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    world = PipelineWorld(tmp_path).fill()
    victim = Victim(world, "--mode", "batch", "--kill-at", moment, live=False)
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"
    storage = JobStorage(open_store(world.storage), "pipeline")
    decided = bool(storage.checkpoints())
    before = [len(storage.records(f"pipeline/tasks/{task}/0/000001")) for task in ("enrich", "hourly")]

    done = persist(lambda: world.job(live=False).start(spark, storage=world.storage, mode="batch"), "FINISHED")

    world.check(live=False)
    assert len(storage.checkpoints()) == 1
    assert done.state == "FINISHED"
    assert decided == (moment == "manifest.create/after" or moment.partition("/")[0] in STEPS_TO_COMMIT)
    if moment == "record.create/after":
        assert before == [1, 0]
