"""The DAGs of `deploy/airflow` in a real Airflow, which these tests install: it imports them, and runs them.

Minutes: Airflow has a hundred dependencies, and each of its commands takes ten seconds to begin.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rekindle.storage.forgetting import forget_job
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.ui.world import World

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "deploy" / "airflow" / "rekindle_dags.py"
VENV = Path(os.environ.get("REKINDLE_TEST_JARS", ROOT / ".venv")) / "airflow"
AIRFLOW = ("apache-airflow==3.3.2", "apache-airflow-providers-standard")
DAY = "2026-01-02"

pytestmark = pytest.mark.slow

REPORT = """
import os
import rekindle as rk

job = rk.Job("daily_report")
numbers = job.source("numbers", rk.Files({numbers!r}, schema="n long"))


@job.task(numbers)
def report(numbers):
    return numbers.where("n > 0")


job.sink("report", report, rk.sinks.Parquet({reports!r} + "/" + os.environ["DAY"]))
"""


def installed() -> Path:
    """A Python that has Airflow: the one that is named, or one that is made here, once."""
    named = os.environ.get("REKINDLE_TEST_AIRFLOW")
    if named is not None:
        return Path(named)
    python, done = VENV / "bin" / "python", VENV / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *AIRFLOW]
        said = subprocess.run(install, stderr=subprocess.PIPE, text=True, check=False)
        if said.returncode:
            pytest.skip(f"Airflow could not be installed: {said.stderr[-500:]}")
        done.touch()
    return python


class Airflow:
    """An Airflow with a database of its own, whose tasks find `rekindle` and what the DAGs name in `folder`."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.storage = str(folder / "state")
        self.app = folder / "app"
        (folder / "dags").mkdir()
        (folder / "bin").mkdir()
        self.app.mkdir()
        text = DAGS.read_text()
        for place, here in (("s3://my-bucket/rekindle", self.storage), ("/app/", f"{self.app}/")):
            assert place in text
            text = text.replace(place, here)
        (folder / "dags" / DAGS.name).write_text(text)
        program = folder / "bin" / "rekindle"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m rekindle.cli "$@"\n')
        program.chmod(0o755)
        self._command = [str(python), "-m", "airflow"]
        self._around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
        }
        self._do("db", "migrate")

    def run(self, dag: str) -> subprocess.CompletedProcess[str]:
        """Run a DAG for a day, as its scheduler would."""
        return self._do("dags", "test", dag, DAY, check=False)

    def errors(self) -> str:
        """What is wrong with the DAGs, as Airflow tells it; nothing."""
        return self._do("dags", "list-import-errors", check=False).stdout

    def names(self) -> str:
        """The DAGs that it has found."""
        self._do("dags", "reserialize")
        return self._do("dags", "list", "--output", "plain").stdout

    def _do(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words], env=self._around, capture_output=True, text=True, check=check, timeout=900
        )


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    return Airflow(installed(), tmp_path_factory.mktemp("airflow"))


def test_airflow_imports_the_dags(airflow: Airflow) -> None:
    names = airflow.names()
    assert "daily_report" in names and "hourly_bids_is_well" in names
    assert "No data found" in airflow.errors()


@pytest.mark.spark
def test_a_dag_runs_a_job_that_ends_to_its_end_and_once_more_does_nothing(airflow: Airflow, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers, reports = tmp_path / "numbers", tmp_path / "reports"
    numbers.mkdir()
    parquet.write_table(arrow.table({"n": [0, 1, 2, 3]}), numbers / "a.parquet")
    (airflow.app / "daily_report.py").write_text(REPORT.format(numbers=str(numbers), reports=str(reports)))

    for _ in range(2):  # a retry, or a run that was cleared
        said = airflow.run("daily_report")
        assert said.returncode == 0, said.stdout[-3_000:]

    storage = JobStorage(open_store(f"{airflow.storage}/daily_report/{DAY}"), "daily_report")
    assert storage.state() == "FINISHED"
    assert sorted(parquet.read_table(reports / DAY).column("n").to_pylist()) == [1, 2, 3]


@contextmanager
def beating(world: World) -> Iterator[None]:
    """Let the jobs of a world give signs of life."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1):
            world.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_dag_that_watches_a_stream_fails_when_the_stream_does(airflow: Airflow) -> None:
    well, lost = World(airflow.storage), World(f"{airflow.storage}-lost")
    well.healthy("hourly_bids")
    lost.lost("hourly_bids")
    with beating(well):
        said = airflow.run("hourly_bids_is_well")
        assert said.returncode == 0, said.stdout[-3_000:]

    forget_job(JobStorage(well.store, "hourly_bids"), 0)
    os.rename(f"{airflow.storage}-lost/hourly_bids", f"{airflow.storage}/hourly_bids")
    said = airflow.run("hourly_bids_is_well")

    assert said.returncode == 1
    assert "LOST" in said.stdout + said.stderr
