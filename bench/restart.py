"""`make bench-profile`, the restart: from kill -9 to the first new batch, phase by phase, beside plain Spark's own.

A stream of small files is counted in windows, by a job and by a plain query. The driver and its JVM are killed while a
batch is at work, which was planned and is not done, and a new process is started at once. It notes when it reaches
each phase (`restart_driver`). Plain and job take turns; medians. Some four minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from measuring import ROOT, SETTINGS, arguments, load, middle, publish, settled, where
from rekindle.session.session import make_session
from restart_driver import CHECKPOINT_S, DRIVERS, PROGRESS

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

PAGE = ROOT / "docs" / "performance.md"
FILES, EVENTS_A_FILE = 400, 10_000
BATCHES = 12
"""A process has done so many batches when it is killed, in the one after them."""
PATIENCE_S = 300
LOOK_S = 0.005

PHASES = {
    "imported": "Python starts, modules are imported",
    "session": "the JVM and its session start; a job decides its start",
    "built": "the run is claimed, the storage is read, the query is built",
    "planned": "Spark starts the query and gives its first batch",
    "recorded": "rows are computed, state is loaded, the batch is done",
    "visible": "a checkpoint is completed and committed",
}
"""Moment that a driver notes → the phase that ends there."""


class Reached(NamedTuple):
    """A moment, after the kill."""

    seconds: float
    cpu_seconds: float


Moments = dict[str, Reached]


def last(log: Path) -> int:
    """Return the number of the last batch in a log of Spark's; -1: there is none."""
    return max((int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()), default=-1)


def life(name: str, data: Path, work: Path) -> Moments:
    """Start a process, and kill it while a batch is at work; return what it noted."""
    work.mkdir(exist_ok=True)
    notes, progress = work / "notes", work / PROGRESS[name]
    notes.unlink(missing_ok=True)
    before = last(progress / "commits")
    command = [sys.executable, str(ROOT / "bench" / "restart_driver.py"), name, str(data), str(work)]
    began = time.time()
    with (work / "log").open("ab") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while True:
            done = last(progress / "commits")
            at_work = done >= before + BATCHES and last(progress / "offsets") > done
            if at_work and notes.exists() and "visible" in notes.read_text():
                break
            if driver.poll() is not None or time.time() > began + PATIENCE_S:
                sys.exit(f"bench: the driver ended, or hangs\n{(work / 'log').read_text()[-4000:]}")
            time.sleep(LOOK_S)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    lines = [line.split() for line in notes.read_text().splitlines()]
    return {moment: Reached(float(at) - began, float(cpu)) for moment, at, cpu in lines}


def restarts(scratch: Path, kills: int) -> dict[str, list[Moments]]:
    """Kill and start both in turn; return the moments of each start but the first."""
    nexmark.write_history(scratch / "data", FILES * EVENTS_A_FILE, FILES)
    found: dict[str, list[Moments]] = {name: [] for name in DRIVERS}
    for number in range(kills + 1):
        for name in sorted(DRIVERS, reverse=number % 2 == 1):
            moments = life(name, scratch / "data", scratch / name)
            if number:
                found[name].append(moments)
                said = ", ".join(f"{moment} {one.seconds:.2f} s" for moment, one in moments.items())
                print(f"kill {number}, {name}: {said}", flush=True)
    return found


def table(found: dict[str, list[Moments]]) -> str:
    """Return the phases as a Markdown table, with what the medians of their moments say."""
    middles = {name: _middles(lives) for name, lives in found.items()}
    before = dict.fromkeys(middles, Reached(0, 0))
    lines = []
    for moment, phase in PHASES.items():
        cells = []
        for name, moments in middles.items():
            if moment in moments:
                cells += [f"{at - then:.2f}" for at, then in zip(moments[moment], before[name], strict=True)]
                before[name] = moments[moment]
            else:
                cells += ["", ""]
        lines.append(f"| {phase} | {' | '.join(cells)} |")
    for moment, what in {"recorded": "kill -9 to the first batch", "visible": "kill -9 to its rows"}.items():
        cells = [f"**{figure:.2f}**" for moments in middles.values() for figure in moments[moment]]
        theirs, ours = (moments[moment] for moments in middles.values())
        lines.append(f"| **{what}** | {' | '.join(cells)} |")
        ratios = ours.seconds / theirs.seconds, ours.cpu_seconds / theirs.cpu_seconds
        lines.append(f"| of plain's | | | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    head = "".join(f" {name}, s | CPU s |" for name in middles)
    return "\n".join([f"| a restart |{head}", f"| --- |{' ---: |' * 2 * len(middles)}", *lines])


def _middles(lives: list[Moments]) -> Moments:
    noted = [moment for moment in PHASES if all(moment in one for one in lives)]
    return {
        moment: Reached(
            middle([one[moment].seconds for one in lives]), middle([one[moment].cpu_seconds for one in lives])
        )
        for moment in noted
    }


def main() -> None:
    given = arguments("From kill -9 to the first new batch, phase by phase.").parse_args()
    load_before = load() if given.no_page else settled()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
        text = table(restarts(Path(folder), given.runs))
    spark = make_session("rekindle-bench", SETTINGS)
    text = f"""\
{text}

- medians of {given.runs} kills of each, in turn; a batch reads {EVENTS_A_FILE:,} events; a checkpoint every
  {CHECKPOINT_S} seconds
{where(spark, load_before)}"""
    spark.stop()
    publish("restart", text, load_before=load_before, page=not given.no_page, of=PAGE)


if __name__ == "__main__":
    main()
