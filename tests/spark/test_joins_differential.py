"""Random queries as streams and as batches: the same rows, however their inputs come.

Several queries over the same inputs run as one streaming query, which is quicker. A failure shows the seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.spark.inputs import watermark_rows as inputs
from rekindle.spark.query.optimizer import same_for_each_batch
from rekindle.spark.query.own_files import written_by_calls
from tests.spark.dealing import DDL, having_set, lines, streamed, united, unpacked
from tests.spark.random_queries import batches, dealt, query
from tests.spark.test_watermark_rows import literal_null

QUERIES = 8
"""In one streaming query."""

PLANTED = 1000
"""A seed that finds literal nulls in watermark rows, and nothing as they are."""

QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    # A batch that only moves the watermark costs as much as one with rows; the last ones are dealt.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.noDataProgressEventInterval": "0",
    "spark.sql.streaming.pollingDelay": "1",
    # Hadoop starts a process for each file that it makes with permissions; so it makes them without, and few of them.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
    "spark.sql.streaming.stateStore.formatValidation.enabled": "false",
    "spark.sql.streaming.stateStore.stateSchemaCheck": "false",
}


@pytest.fixture(scope="module")
def quick(spark: Any) -> Iterator[Any]:
    with having_set(spark, {**QUICK, **written_by_calls(spark, "file:")}):
        yield spark


def differences(
    spark: Any, root: Path, seed: int, *, as_jobs_do: bool, count: int = QUERIES
) -> dict[str, Counter[str]]:
    """The queries of a seed whose rows are not those of a batch query, and the rows that are missing or too many.

    Args:
        as_jobs_do: exclude the rules of the optimizer that plan a batch by its data; without that, queries that need it
            are left out.
    """
    dice = random.Random(seed)
    given = dealt(dice, spark, root)
    names = [each.name for each in given]
    queries = [query(dice, names, unions=as_jobs_do) for _ in range(count)]
    plan = batches(dice, given)
    packed = _packed(queries, {each.name: each.frame for each in given})
    found = streamed(packed, root / "query", plan, same_for_each_batch(packed) if as_jobs_do else {})
    wanted = _packed(queries, {each.name: spark.createDataFrame(each.rows, DDL) for each in given}).collect()
    bad: dict[str, Counter[str]] = {}
    each = zip(queries, unpacked(found.elements(), count), unpacked((row[0] for row in wanted), count), strict=True)
    for one, came, due in each:
        if came != due:
            bad[one.text] = came.copy()
            bad[one.text].subtract(due)
    return bad


def _packed(queries: Any, frames: Any) -> Any:
    return united([lines(one.make(frames)) for one in queries])


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 3), *(pytest.param(seed, QUERIES, marks=pytest.mark.slow) for seed in (0, 3))]
)
def test_random_queries_give_the_rows_of_a_batch_query(quick: Any, tmp_path: Path, seed: int, count: int) -> None:
    assert differences(quick, tmp_path, seed, as_jobs_do=True, count=count) == {}, f"seed {seed}"


@pytest.mark.slow
def test_watermark_rows_alone_mislead_no_rule_of_the_optimizer(quick: Any, tmp_path: Path) -> None:
    """Without the exclusions that jobs make as well."""
    assert differences(quick, tmp_path, PLANTED, as_jobs_do=False) == {}


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(8))
def test_many_random_queries_give_the_rows_of_a_batch_query(quick: Any, tmp_path: Path, chunk: int) -> None:
    for seed in range(2000 + 10 * chunk, 2010 + 10 * chunk):
        assert differences(quick, tmp_path / str(seed), seed, as_jobs_do=seed % 2 == 0) == {}, f"seed {seed}"


@pytest.mark.slow
def test_the_fault_that_all_this_is_for_is_found(quick: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_computed_null", literal_null)
    assert differences(quick, tmp_path, PLANTED, as_jobs_do=False)
