"""A whole life of a job that has its storage, savepoints and output in a bucket, a container or HDFS."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.storage.open import open_store
from rekindle.storage.origin import find_origin
from tests.jobs.kit import QUICK, UTC, World, has_read, rows, shown_in, until


class CloudWorld(World):
    """What is read is a folder, as everywhere; the rest lies in a bucket, a container or HDFS."""

    def __init__(self, root: Path, place: str) -> None:
        super().__init__(root)
        self.place = place
        self.storage = f"{self.place}/state of jobs"
        self.out = f"{self.place}/out/hourly"

    def output(self) -> Counter[tuple[dt.datetime, str, int]]:
        return shown_in(self.out)


def live_there(world: World, place: str, spark: SparkSession, local: Path) -> None:
    """Stop the job with a savepoint, resume it, drain it, restore it from the savepoint, and drain that.

    Args:
        place: where its savepoints go.
        local: a folder of this machine, for the storage of the restored job.
    """

    def start(**options: Any) -> rk.JobHandle:
        return world.hourly().start(spark, config=QUICK, **{"storage": world.storage, **options})

    world.add_history(rows(0, 90), rows(5, 90))
    world.add_live(rows(100, 60))
    handle = start()
    until(lambda: has_read(handle, 1))
    world.add_live(rows(103, 60))
    until(lambda: world.has_hour(100))
    handle.stop(savepoint=f"{place}/saves")
    stopped = handle.wait()
    assert (stopped.state, stopped.error) == ("STOPPED", None)
    assert stopped.savepoint.startswith(f"{place}/saves/hourly-")

    handle = start()
    world.add_live(rows(106, 60))
    until(lambda: world.has_hour(103))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()

    # From there into a directory, with a sink of its own; and a savepoint back.
    world.out = f"{place}/out/again"
    handle = start(storage=str(local), restore=stopped.savepoint)
    until(lambda: has_read(handle, 3))
    assert find_origin(handle.savepoint(f"{place}/saves").path).manifest.savepoint
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    saved = {row for row in world.expected() if row[0] < dt.datetime(2025, 1, 5, 7, tzinfo=UTC)}
    assert set(world.output()) == set(world.expected()) - saved


def documents(world: World) -> list[bytes]:
    """Return the documents of the job's storage."""
    store = open_store(world.storage)
    found = [store.read(entry.path) for entry in store.walk("hourly") if entry.path.endswith(".json")]
    assert found
    return found
