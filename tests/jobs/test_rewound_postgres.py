"""A job goes back to a checkpoint with its table in PostgreSQL, on Spark and on a real server."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.test_changed_jobs import QUICK, World, caught, lives, rows
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.spark

CONFIG = {**QUICK, "checkpoint.retained": "1000"}


def test_its_rows_are_shown_and_deleted_and_another_query_writes_them_once_more(
    spark: SparkSession, world: World, postgres: PostgresServer
) -> None:
    def made(suffix: str, **options: str) -> rk.Job:
        job = rk.Job("job")
        task = job.task(job.source("live", world.stream()), uid="read")(
            lambda frame: frame.withColumn("k", F.concat("k", F.lit(suffix)))
        )
        job.sink("table", task, rk.sinks.Postgres(postgres.dsn(), "rewound", **options))  # type: ignore[arg-type]
        return job

    def written() -> Counter[str]:
        if not postgres.query("SELECT 1 FROM pg_class WHERE relname = 'rewound'"):
            return Counter()
        return Counter(key for (key,) in postgres.query("SELECT k FROM rewound"))

    numbered = {"checkpoint_column": "rk_checkpoint"}
    world.add_live(rows(0, 3, keys="a"))
    lives(spark, made("", **numbered), world, lambda: bool(written()), config=CONFIG)
    good = JobStorage(open_store(world.storage), "job").checkpoints()[0]
    world.add_live(rows(0, 3, keys="b"), rows(0, 3, keys="c"))
    lives(spark, made("-bad", **numbered), world, lambda: written()["c-bad"] == 3, config=CONFIG)
    [(first, last)] = postgres.query("SELECT min(rk_checkpoint), max(rk_checkpoint) FROM rewound")
    assert first <= good < last

    for options, reason in (({}, "checkpoint_column="), ({"mode": "upsert", "key": "k"}, "mode='append'")):
        refused: RestoreError = caught(spark, made("", **options), world, restore=good, rewind_sinks=True)
        assert refused.code == "SINK_REWIND_UNSUPPORTED" and reason in str(refused)
    said = made("", **numbered).check(storage=world.storage, restore=good, rewind_sinks=True)
    assert [(one.sink, one.kind, one.rows) for one in said.rewinds] == [("table", "Postgres", 6)]
    assert written() == {"a": 3, "b-bad": 3, "c-bad": 3}

    lives(
        spark, made("", **numbered), world, lambda: written()["c"] == 3, restore=good, rewind_sinks=True, config=CONFIG
    )
    assert written() == {"a": 3, "b": 3, "c": 3}
    [(again,)] = postgres.query("SELECT min(rk_checkpoint) FROM rewound WHERE k <> 'a'")
    assert again > last
