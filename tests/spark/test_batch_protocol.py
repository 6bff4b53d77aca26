"""The function given to ``foreachBatch``, without Spark: rows that come after ``finish()`` (FLIP-147)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ProtocolError
from rekindle.protocol.life import Call
from rekindle.runtime.steps import no_steps
from rekindle.spark.batch_protocol import BatchFailedError, BatchProtocol
from rekindle.spark.outputs import Outputs, Place
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.testing.fake_sink import FakeSink

ROWS: Any = [1, 2]


class Subtask:
    """A subtask without inputs whose sink takes lists."""

    def __init__(self, root: Path) -> None:
        self.sink = FakeSink()
        self.storage = JobStorage(LocalStore(str(root)), "job")
        self.folder = layout.subtask("job", "task", 0, 1)
        place = Place(owner="job-1a2b", task="task", subtask=0, lineage=1, run=1, folder=self.folder)
        spark: Any = None
        outputs = Outputs(place, {"out": self.sink}, None, no_steps)
        self.protocol = BatchProtocol(spark, self.storage, place, [], outputs, None, no_steps, lambda *_: None)

    def batch(self, number: int) -> None:
        """Spark plans a batch and runs it."""
        offsets = f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': {}})}\n"
        self.storage.store.create(f"{layout.spark_progress_dir(self.folder)}/offsets/{number}", offsets.encode())
        self.protocol(ROWS, number)


@pytest.fixture
def subtask(tmp_path: Path) -> Subtask:
    return Subtask(tmp_path)


def test_rows_that_come_after_finish_are_an_error_and_are_neither_staged_nor_recorded(subtask: Subtask) -> None:
    """ "After this method is called, no more records can be produced"."""
    subtask.batch(0)
    subtask.protocol.life.call(Call.FINISH)
    with pytest.raises(BatchFailedError):
        subtask.batch(1)
    assert isinstance(subtask.protocol.failure, ProtocolError)
    assert "prepare is illegal while task/0 is finished" in str(subtask.protocol.failure)
    assert subtask.storage.records(subtask.folder) == [0]
    assert len(subtask.sink.staged) == 1


def test_rows_that_come_after_close_are_an_error_too(subtask: Subtask) -> None:
    subtask.protocol.life.call(Call.CLOSE)
    with pytest.raises(BatchFailedError):
        subtask.batch(0)
    assert subtask.sink.staged == {}


def test_a_new_attempt_after_a_failed_finish_may_write_again(subtask: Subtask) -> None:
    """ "NOT tied to the lifecycle of State": what had finished and failed runs, and may meet rows."""
    subtask.protocol.life.call(Call.FINISH)
    subtask.protocol.begin_attempt()
    subtask.batch(0)
    assert subtask.storage.records(subtask.folder) == [0]
