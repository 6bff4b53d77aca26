"""The function given to ``foreachBatch``, without Spark: rows that come after ``finish()`` (FLIP-147)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ControlError, InputError, ProtocolError, StorageError
from rekindle.graph.job_graph import Task
from rekindle.progress.directory import last_committed, read_offsets
from rekindle.progress.plans import put_back
from rekindle.progress.retention import SourceLogs
from rekindle.protocol.life import Call
from rekindle.runtime.steps import no_steps
from rekindle.spark.output.outputs import Outputs, SubtaskPlace
from rekindle.spark.prelude.prelude import Prelude
from rekindle.spark.query.batches import BatchFailedError
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.streaming.batch_protocol import BatchProtocol
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.spark.streaming.running_plan import RunningPlan, plan_of
from rekindle.spark.streaming.siblings import Siblings
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.testing.fake_sink import FakeSink
from tests.spark.runs import run_of

ROWS: Any = [1, 2]


class Replayed:
    """A DataFrame that is evaluated and written nowhere."""

    write = property(lambda self: self)

    def format(self, _: str) -> Replayed:
        """See Spark."""
        return self

    def mode(self, _: str) -> Replayed:
        """See Spark."""
        return self

    def save(self) -> None:
        """See Spark."""


class Unanswering(LocalStore):
    """A store that is cut off now and then: when a record is created, the answer is an error."""

    #: of the next ones
    cut_off = 0
    #: True: they are created all the same
    arrives = False

    def create(self, path: str, data: bytes) -> bool:
        """See `Store`."""
        if "/batches/" not in path or not self.cut_off:
            return super().create(path, data)
        self.cut_off -= 1
        if self.arrives:
            super().create(path, data)
        raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason="no answer")


class ChangedFiles(Prelude):
    """A history of which a file has changed while it was read; not in batch 0."""

    def __init__(self) -> None:
        self.batch = 0

    def compute(self, df: Any, batch: int, watermark_ms: int) -> None:
        """See `Prelude`."""
        self.batch = batch

    def refuse_changed_files(self) -> None:
        """See `Prelude`."""
        if self.batch:
            raise InputError("FILE_UNREADABLE", source="files", path="a", reason="it has changed")


class Subtask:
    """A subtask without inputs whose sink takes lists."""

    def __init__(self, root: Path, prelude: Prelude | None = None) -> None:
        self.sink = FakeSink()
        self.store = Unanswering(str(root))
        self.storage = JobStorage(self.store, "job")
        self.folder = layout.subtask("job", "task", 0, 1)
        place = SubtaskPlace(owner="job-1a2b", task="task", subtask=0, lineage=1, run=1, folder=self.folder)
        spark: Any = None
        parts = SubtaskParts(
            task=Task(uid="task", inputs=()),
            place=place,
            last=max(self.storage.records(self.folder), default=-1),
            frame=None,
            inputs=[],
            logs=self.storage.store,
            outputs=Outputs(place, {"out": self.sink}, None, no_steps),
            backlog=None,
            read_from={},
            siblings=Siblings(1),
            kept=KeptBatches(),
            source_logs=SourceLogs(self.storage.store, layout.spark_progress_dir(self.folder), None),
            prelude=prelude or Prelude(),
        )
        self.recorded: list[int] = []
        self.planned = -1
        self.runs: RunningPlan | None = None
        self.protocol = BatchProtocol(
            run_of(self.storage), spark, parts, lambda record, *_: self.recorded.append(record.batch), self.running
        )

    def running(self, _: Any) -> RunningPlan:
        """What Spark runs: what is planned, unless a test says otherwise."""
        if self.runs is not None:
            return self.runs
        progress_dir = layout.spark_progress_dir(self.folder)
        return plan_of(read_offsets(self.storage.store, progress_dir, self.planned))

    def batch(self, number: int) -> None:
        """Spark plans a batch and runs it."""
        self.plan(number, 0)
        self.protocol(ROWS, number)

    def plan(self, number: int, watermark_ms: int) -> None:
        self.planned = number
        offsets = f"v1\n{json.dumps({'batchWatermarkMs': watermark_ms, 'conf': {}})}\n"
        self.storage.store.replace(f"{layout.spark_progress_dir(self.folder)}/offsets/{number}", offsets.encode())


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


def run_number(number: int) -> Run:
    return Run(run=number, started_ms=0, lineage=1, host="elsewhere", pid=1)


def test_a_driver_whose_plan_a_newer_run_has_replaced_records_nothing(subtask: Subtask) -> None:
    subtask.storage.fence.claim(run_number(1))
    subtask.batch(0)
    subtask.plan(1, 0)  # Spark runs this one, and the driver is paused before it looks
    subtask.storage.fence.claim(run_number(2))
    subtask.plan(1, 7)

    with pytest.raises(BatchFailedError):
        subtask.protocol(ROWS, 1)

    failure = subtask.protocol.failure
    assert isinstance(failure, ControlError) and failure.code == "DRIVER_FENCED"
    assert subtask.storage.records(subtask.folder) == [0]
    assert len(subtask.sink.staged) == 1


def test_a_batch_whose_plan_a_driver_that_was_paused_wrote_over_records_nothing_and_is_planned_again(
    subtask: Subtask,
) -> None:
    subtask.storage.fence.claim(run_number(1))
    subtask.batch(0)
    subtask.plan(1, 0)
    subtask.runs = subtask.running(None)
    subtask.plan(1, 7)  # what a driver was about to write when it was paused

    with pytest.raises(BatchFailedError):
        subtask.protocol(ROWS, 1)

    failure = subtask.protocol.failure
    assert isinstance(failure, StorageError) and failure.code == "BATCH_PLAN_OVERWRITTEN" and not failure.permanent
    assert subtask.storage.records(subtask.folder) == [0]
    assert len(subtask.sink.staged) == 1, "the batch was not evaluated"


def test_a_batch_is_not_counted_from_a_record_older_than_the_one_before_it(subtask: Subtask) -> None:
    """A driver that was thought dead records batch 1 and lets Spark commit it, before this one's query starts."""
    subtask.storage.fence.claim(run_number(1))
    subtask.batch(0)
    subtask.storage.create(layout.batch(subtask.folder, 1), BatchRecord(batch=1, offsets_hash="", run=0))

    with pytest.raises(BatchFailedError):
        subtask.batch(2)

    failure = subtask.protocol.failure
    assert isinstance(failure, StorageError) and failure.code == "BATCH_RECORDED_MEANWHILE"
    assert subtask.storage.records(subtask.folder) == [0, 1]

    subtask.protocol.begin_attempt()
    subtask.protocol.catch_up()
    assert subtask.recorded == [0, 1]
    subtask.batch(2)
    assert subtask.storage.records(subtask.folder) == [0, 1, 2]


def test_the_first_batch_of_a_lineage_follows_one_that_has_no_record_there(subtask: Subtask) -> None:
    subtask.storage.fence.claim(run_number(1))
    subtask.protocol.catch_up()
    subtask.batch(7)
    assert subtask.recorded == [7]


def test_a_record_of_another_plan_that_comes_first_counts_and_its_plan_is_put_back(subtask: Subtask) -> None:
    """A driver that was thought dead records batch 1, which its successor has planned again meanwhile."""
    subtask.storage.fence.claim(run_number(1))
    subtask.batch(0)
    subtask.plan(1, 0)
    progress_dir = layout.spark_progress_dir(subtask.folder)
    store, old = subtask.storage.store, read_offsets(subtask.storage.store, progress_dir, 1)
    subtask.plan(1, 7)
    late = BatchRecord(batch=1, offsets_hash=old.hash, offsets=old.text, run=0)
    subtask.sink.before["prepare"] = lambda: subtask.storage.create(layout.batch(subtask.folder, 1), late)

    with pytest.raises(BatchFailedError):
        subtask.protocol(ROWS, 1)

    failure = subtask.protocol.failure
    assert isinstance(failure, StorageError) and failure.code == "BATCH_PLAN_REPLACED" and not failure.permanent
    assert len(subtask.sink.staged) == 1, "what it had prepared itself is gone"
    assert subtask.protocol.last == 1, "the next attempt begins with the record"
    store.create(f"{progress_dir}/commits/1", b"v1\n{}")
    put_back(store, progress_dir, 1, late.offsets_hash, late.offsets)
    assert read_offsets(store, progress_dir, 1) == old
    assert last_committed(store, progress_dir) == -1, "its state may be of the other plan: it is run again"


def staged_and_recorded(subtask: Subtask, batch: int) -> tuple[set[str], set[str]]:
    record = subtask.storage.record(subtask.folder, batch)
    named = record.committables["out"] if record else []
    return {*subtask.sink.staged}, {one["attempt"] for one in named}


def test_what_a_batch_has_prepared_is_taken_back_where_its_files_have_changed(tmp_path: Path) -> None:
    subtask = Subtask(tmp_path, ChangedFiles())
    subtask.batch(0)
    for _ in range(3):
        with pytest.raises(BatchFailedError):
            subtask.batch(1)
        assert isinstance(subtask.protocol.failure, InputError)
        subtask.protocol.begin_attempt()
    assert len(subtask.sink.staged) == 1, "of batch 0"


def test_what_may_be_recorded_stays_until_the_record_names_something_else(subtask: Subtask) -> None:
    subtask.store.cut_off = 2
    for tries in (1, 2):
        with pytest.raises(BatchFailedError):
            subtask.batch(0)
        subtask.protocol.begin_attempt()
        assert len(subtask.sink.staged) == tries, "its record may be on its way"
    subtask.batch(0)
    staged, named = staged_and_recorded(subtask, 0)
    assert staged == named and len(named) == 1


def test_what_was_recorded_though_the_answer_was_lost_stays(subtask: Subtask) -> None:
    subtask.store.cut_off, subtask.store.arrives = 1, True
    with pytest.raises(BatchFailedError):
        subtask.batch(0)
    subtask.protocol.begin_attempt()
    replayed: Any = Replayed()
    subtask.protocol(replayed, 0)
    staged, named = staged_and_recorded(subtask, 0)
    assert staged == named and len(named) == 1
    assert subtask.recorded == [0]
