"""What a job keeps in memory grows neither with its batches nor with how often its queries are started again."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from rekindle.spark.query import kept_batches
from rekindle.spark.query.query import Query
from tests.jobs.kit import World, has_read, rows, until


def classes() -> set[type]:
    """Those of what runs a job."""
    modules = ("rekindle.spark.", "rekindle.runtime.", "rekindle.channels.")
    loaded = [vars(module) for name, module in [*sys.modules.items()] if name.startswith(modules)]
    kinds = {each for names in loaded for each in names.values() if isinstance(each, type)}
    return {kind for kind in kinds if kind.__module__.startswith(modules)}


def held(spark: SparkSession) -> Counter[str]:
    """Threads, connections over which Spark calls Python on both sides, and objects that run the job by their type."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()  # what Spark calls in Python is held by the JVM
    gc.collect()
    found: Counter[str] = Counter(threads=threading.active_count())
    ours = classes()
    # A list of all objects would hold tuples that the job's threads are just making, which would fail for it.
    for each in gc.get_referrers(ClientServerConnection, *ours):
        kind = type(each)
        if kind is ClientServerConnection:
            if not each.initiated_from_client and each.socket is not None:
                found["connections in Python"] += 1
        elif kind in ours:
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    gateway: Any = spark.sparkContext._gateway
    client = gateway.java_gateway_server.getCallbackClient()
    connections = client.getClass().getSuperclass().getDeclaredField("connections")
    connections.setAccessible(True)
    found["connections in the JVM"] = connections.get(client).size()
    return found


def test_nothing_is_left_in_memory_of_batches_and_of_queries_that_have_ended(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_batches, "MOST_ROOM", 1)
    starts: list[int] = []
    start = Query.start

    def counted(self: Query, *given: Any, **named: Any) -> None:
        start(self, *given, **named)
        starts.append(self.commits.last)

    monkeypatch.setattr(Query, "start", counted)
    config = {"checkpoint.interval": 0, "checkpoint.retained": 1}
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=config)

    def read(end: int) -> None:
        world.add_live(*(rows(hour / 2, 3) for hour in range(end - 2, end)))
        until(lambda: has_read(handle, end))
        handle.checkpoint()

    read(2)
    before, started = held(spark), len(starts)
    read(4)
    read(6)
    assert len(starts) >= started + 3
    least = held(spark)

    def grown() -> Counter[str]:
        """What there was more of at each look, by more than one: what is just being done is there at some of them."""
        nonlocal least
        least &= held(spark)
        return Counter({kind: number for kind, number in (least - before).items() if number > 1})

    with suppress(AssertionError):
        until(lambda: not grown(), seconds=60)
    assert not grown(), grown()
    assert handle.stop(drain=True).state == "DRAINED"
