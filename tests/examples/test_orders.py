"""The pipeline of `examples/orders.py`, stopped in its middle and run on: pandas gets the same three tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import orders
from tests.crash.pipeline_kit import task
from tests.examples.orders_by_pandas import expected, same
from tests.jobs.kit import QUICK, until

HISTORY, LIVE = 900, 600


def test_orders_put_together_are_the_same_orders():
    assert pa.concat_tables([orders.orders(0, 70), orders.orders(70, 200)]).equals(orders.orders(0, 200))
    assert orders.orders(0, 4).select(["user", "product", "pieces"]).to_pydict() == KNOWN


KNOWN = {"user": [1, 0, 1, 1], "product": [2, 1, 1, 5], "pieces": [4, 1, 4, 2]}


@pytest.mark.since("4.0")  # transformWithState
def test_what_the_pipeline_writes_is_what_pandas_computes(spark, tmp_path):
    orders.write_history(tmp_path / "history", HISTORY, 4)
    orders.write_live(tmp_path / "live", HISTORY, LIVE // 2, 2)

    def start():
        return orders.define(tmp_path, tmp_path / "out").start(spark, storage=str(tmp_path / "state"), config=QUICK)

    def is_read(handle, files):
        live = task(handle, "enrich").inputs["live"].position
        return task(handle, "enrich").inputs["history"].ended and live is not None and live["logOffset"] >= files - 1

    handle = start()
    until(lambda: is_read(handle, 2))
    handle.stop()
    assert handle.wait().state == "STOPPED"
    orders.write_live(tmp_path / "live", HISTORY + LIVE // 2, LIVE // 2, 2)
    handle = start()
    until(lambda: is_read(handle, 4))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"

    revenue, sessions, archive = expected(HISTORY + LIVE)
    out = tmp_path / "out"
    assert len(sessions) > sessions["user"].nunique() + 10, "users come back"
    same(pq.read_table(out / "revenue").to_pandas(), revenue, ["hour", "category"])
    same(pq.read_table(out / "sessions").to_pandas(), sessions, ["user", "begin"])
    same(pq.read_table(out / "archive").to_pandas(), archive, ["order"])
