"""The job of the README, given to a standalone cluster by spark-submit: run, stopped, given again, drained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster
from tests.cluster.submitting import asked, assert_every_bid_is_counted_once, submit_command, submitted

_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    try:
        yield made.start()
    finally:
        made.kill()


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_was_submitted_is_stopped_and_goes_on_when_it_is_submitted_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    asked(tmp_path, "example", "job")
    folder = tmp_path / "job"
    command = [*submit_command(_HERE), "--master", cluster.master]

    with submitted(command, folder) as job:
        job.wait_for_work(run=1)
        code, answer = job.end("stop", "hourly_bids")
        assert (code, answer["state"]) == (0, "STOPPED"), job.log()
    assert len(cluster.executors()) >= 1, "the rows were read on the cluster"

    with submitted(command, folder) as job:
        job.wait_for_work(run=2)
        code, answer = job.end("stop", "hourly_bids", "--drain")
        assert (code, answer["state"]) == (0, "DRAINED"), job.log()
    assert [(run["run"], run["state"]) for run in asked(folder, "runs", "hourly_bids")] == [
        (2, "DRAINED"), (1, "STOPPED"),
    ]  # fmt: skip
    assert_every_bid_is_counted_once(folder)
