"""kill -9 of a real driver, at a durable step or at any time; then the job is run on, and its output is compared."""

from __future__ import annotations

import datetime as dt
import os
import platform
import random
import re
import signal
import time
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime import steps
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import ALL_MOMENTS, WHEN, Moment
from tests.crash.kit import OF_PIPELINES, CrashWorld, persist, read_and_drain
from tests.crash.victim import FEW_CHECKPOINTS, ROOT, Victim

PAGE = ROOT / "docs" / "crash-tests.md"

ONLY_LIVE = ("answer.create", "drain.create", "mark.admit", "mark.write", "request.create", "segments.copy")
"""Steps that a job reaches which is asked for a savepoint and then drained; the others, one that ends by itself."""

TELLING = (
    "inbox.admit/after",
    "sink.prepare/after",
    "record.create/after",
    "spark.commit/before",
    "progress.write/after",
    "end.create/before",
    "manifest.create/before",
    "manifest.create/after",
    "sink.commit/before:2",
    "sink.commit/after",
    "result.create/before",
)
"""For every test run: around the pre-commit, the commit point, the commit, and the end."""

AGAIN = ("inbox.admit", "record.create", "sink.prepare", "sink.commit", "spark.commit")
"""Steps that are worth a kill the second time too."""

RANDOM_KILLS = 20
SECONDS_OF_LIFE = 9
"""How long such a job takes on an idle machine, from its first sign of life on."""

ONE_TASK = tuple(moment for moment in ALL_MOMENTS if moment.step not in OF_PIPELINES)
"""Moments of a job of one task; `test_pipeline_faults` kills the others."""

MOMENTS = (*ONE_TASK, *(Moment(step, when, 2) for step in AGAIN for when in WHEN))


class Report:
    """What came of each kill of `make crash`: the tables of docs/crash-tests.md."""

    def __init__(self) -> None:
        self.at_steps: dict[Moment, str] = {}
        self.at_random: dict[str, str] = {}
        self._started = time.monotonic()

    def write(self) -> None:
        """Put the tables between the markers of the page."""
        made, planned = len(self.at_steps) + len(self.at_random), len(MOMENTS) + RANDOM_KILLS
        today = dt.datetime.now(dt.timezone.utc).date()
        versions = f"Rekindle {rekindle.__version__}, PySpark {pyspark.__version__}, Python {platform.python_version()}"
        minutes = (time.monotonic() - self._started) / 60
        machine = f"{platform.system()}, {os.cpu_count()} cores"
        lines = [
            f"{today}, {versions}, {machine}: {made} of {planned} kills in {minutes:.0f} minutes.",
            "",
            "*Exact, run 2* means: the second run brought the job to its end, and both outputs were as they must be.",
            "",
            "| killed at | before | after | before, 2nd time | after, 2nd time |",
            "| --- | --- | --- | --- | --- |",
            *(
                f"| `{step}` | {' | '.join(self._cell(Moment(step, when, nth)) for nth in (1, 2) for when in WHEN)} |"
                for step in steps.ALL
                if step not in OF_PIPELINES
            ),
            "",
            "| killed after the start | outcome |",
            "| --- | --- |",
            *(f"| {when} | {what} |" for when, what in self.at_random.items()),
        ]
        tables = "\n".join(["<!-- result -->", *lines, "<!-- /result -->"])
        page = PAGE.read_text()
        PAGE.write_text(re.sub(r"<!-- result -->.*<!-- /result -->", lambda _: tables, page, flags=re.DOTALL))

    def _cell(self, moment: Moment) -> str:
        return self.at_steps.get(moment, "" if moment in MOMENTS else "-")


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    made = Report()
    yield made
    if len(made.at_steps) > len(MOMENTS) / 2:
        made.write()


def kill_at(spark: SparkSession, world: CrashWorld, moment: Moment) -> str:
    """Kill a driver there, run the job on; returns what came of it, in a few words."""
    live = moment.step in ONLY_LIVE
    victim = Victim(world, "--kill-at", str(moment), live=live, rival=moment.step == "sink.abort")
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"
    return resume(spark, world, live=live)


def resume(spark: SparkSession, world: CrashWorld, *, live: bool) -> str:
    """Run the job on to its end, in this process; returns in how many runs, and how, it has ended."""
    end = "DRAINED" if live else "FINISHED"
    then = (read_and_drain,) if live else ()
    persist(lambda: world.job(live=live).start(spark, storage=world.storage, config=FEW_CHECKPOINTS), end, *then)
    world.check(live=live)
    run = JobStorage(open_store(world.storage), "crash").latest_run()
    assert run is not None
    return f"exact, run {run.run}"


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    kill_at(spark, world, Moment.parse(text))


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_driver_killed_at_any_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, moment: Moment, report: Report
) -> None:
    report.at_steps[moment] = "**FAILED**"
    report.at_steps[moment] = kill_at(spark, world, moment)


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(RANDOM_KILLS))
def test_a_driver_killed_at_any_time_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, seed: int, report: Report
) -> None:
    chance = random.Random(seed)
    live, share = chance.random() < 0.5, chance.random()
    ran = Victim(world, live=live).kill_after(share * SECONDS_OF_LIFE)
    when = f"{share * SECONDS_OF_LIFE:.1f} s, {'drained' if live else 'bounded'} job (seed {seed})"
    report.at_random[when] = "**FAILED**"
    outcome = resume(spark, world, live=live)
    report.at_random[when] = outcome if ran else f"it had ended; {outcome}"
