"""The job of the README on YARN: in client mode, and in cluster mode, where YARN starts a driver that died again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cluster.submitting import (
    PYTHON,
    asked,
    assert_every_bid_is_counted_once,
    submit_command,
    submitted,
)
from tests.jobs.kit import until
from tests.servers import yarn as yarn_server
from tests.servers.yarn import Yarn

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def yarn() -> Iterator[Yarn]:
    missing = yarn_server.why_not()
    if missing:
        pytest.skip(missing)
    made = Yarn()
    try:
        yield made.start()
    finally:
        made.remove()


def on_yarn(mode: str, **environment: str) -> list[str]:
    """A command line; the environment is that of the driver in cluster mode."""
    jars = Path(pyspark.__file__).parent / "jars"
    settings = {
        "spark.yarn.jars": f"local:{jars}/*",
        "spark.executor.instances": "2",
        "spark.yarn.maxAppAttempts": "2",
        **{f"spark.yarn.appMasterEnv.{key}": value for key, value in {**PYTHON, **environment}.items()},
        **{f"spark.executorEnv.{key}": value for key, value in PYTHON.items()},
    }
    return [*submit_command(settings), "--master", "yarn", "--deploy-mode", mode]


def example_job(tmp_path: Path, *, absolute: bool) -> Path:
    """A folder with the job; in cluster mode its driver runs in another folder."""
    asked(tmp_path, "example", "job")
    folder = tmp_path / "job"
    if absolute:
        file = folder / "hourly_bids.py"
        text = file.read_text().replace('"bids/', f'"{folder}/bids/').replace('"out/', f'"{folder}/out/')
        file.write_text(text)
    return folder


def test_in_client_mode_a_job_is_stopped_and_drained_when_it_is_submitted_again(yarn: Yarn, tmp_path: Path) -> None:
    folder = example_job(tmp_path, absolute=False)
    for run, (verb, state) in enumerate(((("stop",), "STOPPED"), (("stop", "--drain"), "DRAINED")), 1):
        with submitted(on_yarn("client"), folder, yarn.environment) as job:
            job.wait_for_work(run)
            code, answer = job.end(*verb, "hourly_bids")
            assert (code, answer["state"]) == (0, state), job.log()
    assert [*yarn.applications().values()] == ["SUCCEEDED", "SUCCEEDED"]
    assert_every_bid_is_counted_once(folder)


def test_in_cluster_mode_yarn_starts_a_driver_that_was_killed_again_and_it_resumes(yarn: Yarn, tmp_path: Path) -> None:
    folder = example_job(tmp_path, absolute=True)
    command = on_yarn("cluster", REKINDLE_STORAGE=str(folder / "rekindle-state"))
    with submitted(command, folder, yarn.environment) as job:
        job.wait_for_work(run=1)
        storage = JobStorage(LocalStore(str(folder / "rekindle-state")), "hourly_bids")
        until(lambda: storage.newest_manifest() is not None, 60)
        os.killpg(application_master(), signal.SIGKILL)
        job.wait_for_work(run=2)
        code, answer = job.end("stop", "hourly_bids", "--drain")
        assert (code, answer["state"]) == (0, "DRAINED"), job.log()
    assert [*yarn.applications().values()] == ["SUCCEEDED"]
    assert_every_bid_is_counted_once(folder)


def test_in_cluster_mode_a_storage_that_yarn_would_delete_is_refused(yarn: Yarn, tmp_path: Path) -> None:
    folder = example_job(tmp_path, absolute=True)
    with submitted(on_yarn("cluster"), folder, yarn.environment) as job:
        assert job.wait() != 0
    (application,) = yarn.applications()
    assert yarn.applications()[application] == "FAILED"
    assert "PLACE_NOT_KEPT" in yarn.logs(of=application)


def application_master() -> int:
    """The process group of the only one that runs."""
    found = {
        os.getpgid(int(entry.name))
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and b"yarn.ApplicationMaster\0" in _command_line(entry)
    }
    assert len(found) == 1, found
    return found.pop()


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
