"""A subtask that is started again where an earlier driver has left it; needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.graph.job_graph import Task
from rekindle.ids import SubtaskId
from rekindle.progress.retention import SourceLogs
from rekindle.protocol import events as e
from rekindle.runtime.steps import no_steps
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.outputs import Outputs, SubtaskPlace
from rekindle.spark.query.flush import END_OF_TIME_MS
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.query.query import Query
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.spark.streaming.siblings import Siblings
from rekindle.spark.streaming.task import SparkTask
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, Drain, InputPosition
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.spark.runs import run_of

FOLDER = layout.subtask("job", "sums", 0, 1)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a subtask whose last planned batch has a watermark; what it tells, and whether its query was started."""
    queries: list[Query] = []

    def start_query(query: Query) -> None:
        queries.append(query)

    monkeypatch.setattr(Query, "start", start_query)

    def start(
        watermark_ms: int,
        *inputs: Input,
        drained: bool = False,
        record: BatchRecord | None = None,
        made: list[SparkTask] | None = None,
    ) -> tuple[list[e.Event], bool]:
        storage = JobStorage(LocalStore(str(tmp_path)), "job")
        if record is not None:
            storage.create(layout.batch(FOLDER, record.batch), record)
        offsets = f"v1\n{json.dumps({'batchWatermarkMs': watermark_ms, 'conf': {}})}\n"
        storage.store.create(f"{layout.spark_progress_dir(FOLDER)}/offsets/3", offsets.encode())
        if drained:
            storage.create(layout.drain(FOLDER), Drain(run=1, begun_ms=0))
        place = SubtaskPlace(owner="job-1a2b", task="sums", subtask=0, lineage=1, run=2, folder=FOLDER)
        task, heard = Task(uid="sums", inputs=("clean",)), list[e.Event]()
        spark: Any = None
        frame: Any = object()
        parts = SubtaskParts(
            task=task,
            place=place,
            last=max(storage.records(FOLDER), default=-1),
            frame=frame,
            inputs=inputs,
            logs=storage.store,
            outputs=Outputs(place, {}, None, no_steps),
            backlog=None,
            read_from={},
            siblings=Siblings(1),
            kept=KeptBatches(),
            source_logs=SourceLogs(storage.store, layout.spark_progress_dir(FOLDER), None),
        )
        begun = SparkTask(run_of(storage, heard.append), spark, parts)
        begun.start()
        if made is not None:
            made.append(begun)
        return heard, bool(queries)

    return start


def test_its_query_goes_on(started: Any) -> None:
    assert started(1_735_689_600_000) == ([e.TaskStarted(task=SubtaskId("sums", 0))], True)


@pytest.mark.parametrize(("recorded", "shown"), [(1_735_689_600_000, 1_735_689_600_000), (0, None), (None, None)])
def test_until_a_batch_has_run_it_shows_the_watermark_of_the_last_record(
    started: Any, recorded: int | None, shown: int | None
) -> None:
    """Else the lag of a job whose sources are quiet would be unknown after each start, and no alarm would go off."""
    made: list[SparkTask] = []
    frame: Any = object()
    live = Input(uid="live", frame=frame, position=InputPosition(), delay_ms=4_000)

    started(
        1_735_689_600_000, live, record=BatchRecord(batch=2, offsets_hash="", run=1, watermark_ms=recorded), made=made
    )

    assert made[0].status().watermark == shown


def test_one_that_was_being_flushed_reads_nothing_more_but_waits_to_be_finished(started: Any) -> None:
    """Whatever followed the flush would be late: it runs with the end of time."""
    assert started(END_OF_TIME_MS) == ([e.TaskStarted(task=SubtaskId("sums", 0))], False)


@pytest.mark.parametrize("drained", [False, True])
def test_one_that_has_met_a_row_of_the_year_9999_goes_on_unless_it_is_drained(started: Any, drained: bool) -> None:
    frame: Any = object()
    live = Input(uid="live", frame=frame, position=InputPosition(), delay_ms=4_000)

    assert started(END_OF_TIME_MS, live, drained=drained) == ([e.TaskStarted(task=SubtaskId("sums", 0))], not drained)


def test_one_whose_producer_has_not_ended_goes_on_too(started: Any) -> None:
    frame: Any = object()
    producer: Any = object()
    channel = Input(uid="clean", frame=frame, position=InputPosition(), producers={0: producer})

    assert started(END_OF_TIME_MS, channel)[1]
