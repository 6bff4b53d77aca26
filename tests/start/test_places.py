"""A storage and the targets of its jobs are apart from each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import rekindle as rk
from rekindle.errors import SinkError
from rekindle.start.places import check_places


@pytest.mark.parametrize(
    ("storage", "target"),
    [
        ("{here}/state", "{here}/state/bids/out"),
        ("{here}/state/", "file://{here}/state/bids"),
        ("{here}/link", "{here}/state/bids/out"),
        ("{here}/state", "{here}"),
        ("{here}/state", "{here}/state"),
        ("s3://bucket/state", "s3a://bucket/state/bids/out"),
        ("s3a://bucket/state", "s3://bucket"),
        ("hdfs://node:8020/state", "hdfs://node:8020/state/bids/out"),
    ],
)
def test_a_target_and_a_storage_that_are_not_apart_are_refused(storage: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "state")
    sink = rk.sinks.Parquet(target.format(here=tmp_path))

    with pytest.raises(SinkError, match=r"SINK_TARGET_INVALID.*'out'"):
        check_places(storage.format(here=tmp_path), "bids", {"out": sink})


@pytest.mark.parametrize(
    ("storage", "target"),
    [
        ("{here}/state", "{here}/out"),
        ("{here}/state", "{here}/state of bids"),
        ("{here}/state", "{here}/state/bids2"),
        ("{here}/state", "s3://bucket/state/bids"),
        ("s3://bucket/state", "{here}/state/bids"),
        ("s3://bucket/state", "s3://bucket/state/bids2"),
        ("s3://bucket/state", "gs://bucket/state/bids"),
    ],
)
def test_others_are_not(storage: str, target: str, tmp_path: Path) -> None:
    check_places(storage.format(here=tmp_path), "bids", {"out": rk.sinks.Parquet(target.format(here=tmp_path))})


def test_a_storage_may_lie_in_a_warehouse_which_is_no_table() -> None:
    iceberg = rk.sinks.Iceberg("lake", "db.bids", properties={"warehouse": "s3://bucket"})
    check_places("s3://bucket/state", "bids", {"out": iceberg})
