"""The master of a session that Rekindle makes, and what follows from it."""

from __future__ import annotations

import os

import pytest

from rekindle.session.session import of_master

PARTITIONS = "spark.sql.shuffle.partitions"
HERE = {PARTITIONS: str(os.cpu_count())}
CLUSTER = "spark://host:7077"


@pytest.mark.parametrize(
    ("settings", "environ", "chosen"),
    [
        ({}, {}, {"spark.master": "local[*]", **HERE}),
        ({}, {"SPARK_MASTER": "local[2]"}, {"spark.master": "local[2]", **HERE}),
        ({}, {"SPARK_MASTER": CLUSTER}, {"spark.master": CLUSTER}),
        ({"spark.master": "local[2]"}, {"SPARK_MASTER": CLUSTER}, HERE),
        ({"spark.master": CLUSTER}, {}, {}),
        ({}, {"MASTER": CLUSTER}, {}),
    ],
)
def test_only_a_local_master_has_as_many_shuffle_partitions_as_cores(
    settings: dict[str, str], environ: dict[str, str], chosen: dict[str, str]
) -> None:
    assert of_master(settings, environ) == chosen
