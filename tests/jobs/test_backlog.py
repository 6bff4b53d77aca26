"""A history computed as a batch before the stream: it gives the rows of the streaming run, whatever the query."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError
from rekindle.storage import read_layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.backlog_kit import (
    DUPLICATES,
    JOINS,
    OF_WINDOWS,
    PIPELINES,
    SESSIONS,
    Generator,
    both_in_an_hour,
    compare,
    distinct,
    expected,
    folder_of,
    have_read_all,
    make,
    output,
    records,
    sessions,
    tops,
    tumbling,
    two_sides,
    unbound,
    within_an_hour,
)
from tests.jobs.kit import QUICK, World, rows, until


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


FIRST_READ = {
    "tumbling": None,
    "tops": None,
    "both_in_an_hour": None,
    # One row a minute: the session that is open at 6:00 has begun at 2:00.
    "sessions": {"history": [1, 2]},
    "distinct": {"history": [2]},
    "within_an_hour": {"history": [2], "other_history": [1]},
}


def test_a_history_is_computed_as_a_batch_and_the_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    worlds, pipelines = two_sides(tmp_path), (tumbling, tops, both_in_an_hour, sessions, distinct, within_an_hour)
    world = worlds[""]

    job = make(worlds, "batch", pipelines, "1 minute")
    config = {**QUICK, "backlog.mode": "auto", "checkpoint.retained": "1000"}  # so that the first record stays
    handle = job.start(spark, storage=world.storage, config=config)
    until(lambda: handle.wait(0) is not None or all(records(world, "batch", pipelines)))
    for side in worlds.values():
        side.add_live(rows(6.05, 150))  # a row at 6:00 would be late
    until(lambda: handle.wait(0) is not None or have_read_all(worlds, pipelines))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"

    storage = JobStorage(open_store(world.storage), "batch")
    for pipeline in pipelines:
        folder = folder_of("batch", pipeline)
        first, found = storage.record(folder, 0), storage.prelude(folder)
        assert first is not None
        assert found is not None
        # What is out by 6:00 is out with the first batch. What is still needed is read by it, or of windows after it.
        assert found.first == FIRST_READ[pipeline.__name__]
        assert (first.watermark_ms, first.inputs["history"].files) == (found.watermark_ms, 3 if found.first else 2)
        assert first.rows_out
        assert storage.store.names(read_layout.prelude_folder(folder)) == []
        assert output(spark, world, "batch", pipeline) == expected(spark, worlds, pipeline), pipeline.__name__


def test_a_start_is_refused_where_a_task_has_to_and_cannot(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 3))

    with pytest.raises(DefinitionError, match="keeps every row") as refused:
        make({"": world}, "batch", (unbound,), "1 minute").run(
            spark, storage=world.storage, config={"backlog.mode": "batch"}
        )

    assert refused.value.code == "BACKLOG_UNSUPPORTED"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("stream", {"tumbling": (None, None), "unbound": (None, None)}),
        ("auto", {"tumbling": ("batch", None), "unbound": ("stream", None)}),
        ("batch", {"tumbling": ("batch", None), "unbound": ("stream", "BACKLOG_UNSUPPORTED")}),
    ],
)
def test_a_check_says_which_tasks_do_it(
    spark: SparkSession, world: World, mode: str, said: dict[str, tuple[str | None, str | None]]
) -> None:
    world.add_history(rows(0, 3))

    preview = make({"": world}, mode, (tumbling, unbound), "1 minute").check(
        spark, storage=world.storage, config={"backlog.mode": mode}
    )

    found = {task.uid: (task.history, task.refused and task.refused["code"]) for task in preview.tasks}
    assert found == said
    reasons = {task.uid: task.history_streams for task in preview.tasks}
    assert reasons["tumbling"] is None
    assert (reasons["unbound"] is None) == (mode == "stream")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 102))
def test_it_gives_the_rows_of_the_streaming_run_for_any_cut(spark: SparkSession, world: World, seed: int) -> None:
    compare(spark, world, seed, (*Generator(seed).sample(PIPELINES, 2), *OF_WINDOWS, *JOINS, *DUPLICATES, *SESSIONS))
