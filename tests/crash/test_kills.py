"""kill -9 of a real driver, at a durable step or at any time; then the job is run on, and its output compared
exactly."""

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
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import ALL_MOMENTS, Moment
from tests.crash.kit import CrashWorld, persist, read_and_drain
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


class Report:
    """What came of each kill: the table of docs/crash-tests.md."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.started = time.monotonic()

    def write(self) -> None:
        """Put the table between the markers of the page."""
        minutes = (time.monotonic() - self.started) / 60
        today = dt.datetime.now(dt.timezone.utc).date()
        head = (
            f"{today}: Rekindle {rekindle.__version__}, PySpark {pyspark.__version__}, "
            f"Python {platform.python_version()}, {platform.system()} on {os.cpu_count()} cores; "
            f"{len(self.rows)} kills in {minutes:.0f} minutes."
        )
        lines = [
            head,
            "",
            "| killed at | outcome |",
            "| --- | --- |",
            *(f"| {at} | {what} |" for at, what in self.rows),
        ]
        table = "\n".join(["<!-- result -->", *lines, "<!-- /result -->"])
        page = PAGE.read_text()
        PAGE.write_text(re.sub(r"<!-- result -->.*<!-- /result -->", lambda _: table, page, flags=re.DOTALL))


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    made = Report()
    yield made
    if len(made.rows) >= len(ALL_MOMENTS):
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
    return f"{end} by run {run.run}, output exact"


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    kill_at(spark, world, Moment.parse(text))


@pytest.mark.crash
@pytest.mark.parametrize(
    "moment",
    [*ALL_MOMENTS, *(Moment(step, when, 2) for step in AGAIN for when in ("before", "after"))],
    ids=str,
)
def test_a_driver_killed_at_any_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, moment: Moment, report: Report
) -> None:
    report.rows.append((f"`{moment}`", "**not exact**"))
    report.rows[-1] = (f"`{moment}`", kill_at(spark, world, moment))


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(RANDOM_KILLS))
def test_a_driver_killed_at_any_time_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, seed: int, report: Report
) -> None:
    chance = random.Random(seed)
    live, after_s = chance.random() < 0.5, chance.uniform(3, 14)
    victim = Victim(world, live=live)
    time.sleep(after_s)
    if victim_runs := victim.lives():
        victim.kill()
    victim.wait()
    when = f"{after_s:.1f} s after the start (seed {seed})"
    report.rows.append((when, "**not exact**"))
    outcome = resume(spark, world, live=live)
    report.rows[-1] = (when, outcome if victim_runs else f"had ended; {outcome}")
