"""Drivers of one job that overlap, over each sink, in many random lives: a paused one wakes up after it was overtaken.

The rows are written without Spark, so that there can be many; `SinkContract` has a few such lives on Spark.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.sinks import writing
from rekindle.storage.open import open_store
from rekindle.testing.effects import at_moments
from rekindle.testing.sink_contract import SinkContract, batch_of, permit
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.sinks import plain_frames, test_iceberg, test_kafka
from tests.sinks.plain_frames import PlainFrame
from tests.sinks.test_delta import TestDelta as DeltaContract
from tests.sinks.test_iceberg import TestIceberg as IcebergContract
from tests.sinks.test_kafka import TestOneProducer as OneProducer
from tests.sinks.test_kafka import TestSeveralProducers as SeveralProducers
from tests.sinks.test_parquet import TestParquet as ParquetContract
from tests.sinks.test_postgres import TestPrepared as Prepared
from tests.sinks.test_postgres import TestStaged as Staged
from tests.sinks.test_postgres import TestUpsert as Upsert

topic = test_kafka.topic

LIVES = int(os.environ.get("REKINDLE_RIVALS", "60"))

IN_EVERY_RUN = {ParquetContract: 6, DeltaContract: 4, IcebergContract: 3, Prepared: 1, Staged: 1, OneProducer: 1}
"""So many of them; `make crash` has all."""


def lives_of(*contracts: type[SinkContract]) -> pytest.MarkDecorator:
    lives = [
        pytest.param(each, seed, marks=() if seed < IN_EVERY_RUN.get(each, 0) else pytest.mark.crash)
        for each in contracts
        for seed in range(LIVES)
    ]
    return pytest.mark.parametrize(
        ("contract", "seed"), lives, ids=lambda value: getattr(value, "__name__", str(value)).removeprefix("Test")
    )


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "run_write", plain_frames.run_write)


def live(contract: type[SinkContract], target: object, seed: int, **parts: object) -> None:
    made = contract()
    made.effects = [*made.effects, *plain_frames.EFFECTS]
    made.frame = PlainFrame
    made.spark, made.target, made._opened = None, target, []
    for name, part in parts.items():
        setattr(made, name, part)
    try:
        made.overlap(seed)
    finally:
        for sink in made._opened:
            sink.close()


@lives_of(ParquetContract, DeltaContract, IcebergContract)
def test_a_driver_that_wakes_up_late_changes_nothing_in_files_and_tables(
    contract: type[SinkContract], seed: int, tmp_path: Path
) -> None:
    live(contract, tmp_path / "target", seed)


@lives_of(Prepared, Staged, Upsert)
def test_a_driver_that_wakes_up_late_changes_nothing_in_postgresql(
    contract: type[Prepared | Staged | Upsert], seed: int, postgres: PostgresServer, database: str
) -> None:
    if definition := contract.definition:
        postgres.query(definition, database=database)
    live(contract, database, seed, server=postgres)


@lives_of(OneProducer, SeveralProducers)
def test_a_driver_that_wakes_up_late_changes_nothing_in_kafka(
    contract: type[SinkContract], seed: int, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    live(contract, topic, seed, server=kafka, storage=open_store(str(tmp_path)))


# -- and a rewind ------------------------------------------------------------------------------------------------------

COMMIT_TABLE = "pyiceberg.catalog.sql.SqlCatalog.commit_table"


@pytest.mark.parametrize("has_rows", [False, True], ids=["an empty table", "a table with rows"])
def test_a_driver_that_is_paused_in_its_commit_to_iceberg_and_wakes_after_a_rewind_leaves_nothing(
    has_rows: bool, tmp_path: Path
) -> None:
    target = tmp_path / "table"
    paused, successor = test_iceberg.opened(target), test_iceberg.opened(target)
    if has_rows:
        test_iceberg.put(paused, PlainFrame([(1, "stays")]), 1)
    commits = {2: paused.prepare(PlainFrame([(2, "goes")]), batch_of(2))}
    moments = []

    def rewind(moment: str) -> None:
        if not moments:
            successor.rewind(1, commits)
        moments.append(moment)

    with at_moments(rewind, [COMMIT_TABLE]):
        paused.commit(commits[2], permit(2))
    assert moments == [f"{COMMIT_TABLE}/before"], "it was refused, and has not tried again"
    test_iceberg.put(successor, PlainFrame([(3, "comes")]), 3)
    assert sorted(row["n"] for row in test_iceberg.rows_of(target)) == ([1, 3] if has_rows else [3])


@pytest.mark.parametrize("moment", ["commit_table/before", "commit_table/after", "delete_tree/before"])
def test_a_driver_that_wakes_in_the_middle_of_a_rewind_of_iceberg_commits_nothing(moment: str, tmp_path: Path) -> None:
    target = tmp_path / "table"
    woken, successor = test_iceberg.opened(target), test_iceberg.opened(target)
    test_iceberg.put(woken, PlainFrame([(1, "stays")]), 1)
    commits = {2: woken.prepare(PlainFrame([(2, "goes")]), batch_of(2))}
    late = []

    def wake(at: str) -> None:
        if at.endswith(moment) and not late:
            late.append(at)
            woken.commit(commits[2], permit(2))

    with at_moments(wake, [COMMIT_TABLE, "rekindle.storage.local.LocalStore.delete_tree"]):
        successor.rewind(1, commits)
    assert late
    assert [row["n"] for row in test_iceberg.rows_of(target)] == [1]
