"""Queries that are interrupted: as Spark starts them, and where Spark does not let go of them."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame

from rekindle.graph.job_graph import Task
from rekindle.ids import SubtaskId
from rekindle.runtime.steps import no_steps
from rekindle.spark.prelude.keeping import Kept
from rekindle.spark.prelude.reading import PreludeReading
from rekindle.spark.query.batches import Batches
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.query.polling import Polls
from rekindle.spark.query.query import Query
from rekindle.spark.query.rows_read import RowsRead
from rekindle.storage.local import LocalStore
from tests.waiting import until


def test_a_query_that_is_interrupted_while_spark_starts_it_does_not_go_on(spark: Any, tmp_path: Path) -> None:
    class Interrupting(Batches):
        def begin(self, hold_after: int | None) -> None:
            super().begin(hold_after)
            query.interrupt()

        def _carry_out(self, df: DataFrame, batch: int) -> None:
            """Do nothing."""

    query = Query(
        spark,
        spark.readStream.format("rate").load(),
        Interrupting(),
        output_mode="append",
        subtask=SubtaskId("t", 0),
        store=LocalStore(str(tmp_path)),
        progress_dir="progress",
        steps=no_steps,
        state_partitions=0,
        kept=KeptBatches(),
        polls=Polls(only_inboxes=False, rows_read=RowsRead(-1)),
        died=lambda reason: None,
    )
    others = {one.id for one in spark.streams.active}
    query.start()
    until(lambda: {one.id for one in spark.streams.active} <= others, 30)


def test_a_copy_of_a_prelude_that_spark_does_not_let_go_of_is_not_waited_for() -> None:
    released, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        released.wait(10)
        stopped.set()

    nothing: Any = SimpleNamespace(storage=SimpleNamespace(store=None))
    task, kept = Task(uid="t", inputs=()), Kept(reach_us=0)
    reading = PreludeReading(nothing, nothing, task, nothing, (), kept, first_reads=True)
    copying: Any = SimpleNamespace(stop=stop)
    reading._copying = copying
    reading.interrupt()
    assert not stopped.is_set(), "the loop of the driver waits for nothing"
    released.set()
    until(stopped.is_set)
