"""The benchmarks' common parts: measures, the machine's description, and their parts of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
MB = 1_000_000
BUSY = 0.3
"""Processes at work for each CPU, the mean of a minute, from which on a machine is busy."""
APART = 0.1
"""Pairs whose ratio lies further than this share from that of the pair in the middle disagree."""
PATIENCE_S = 180
"""The mean of a minute falls slowly once a benchmark before has ended."""

SETTINGS = {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
"""Of the Spark session that every benchmark makes."""


def arguments(description: str, *, runs: int = 5) -> argparse.ArgumentParser:
    """Make the parser of the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=runs, help="runs that count")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md alone")
    return parser


def cpu_seconds(without: Collection[int] = (), of: int | None = None) -> float:
    """Return the CPU seconds of this process, its JVM and Spark's Python workers; other work hardly changes them.

    Processes of `without` are left out. With `of`, the process of that id and its children, in place of this one.
    """
    this = psutil.Process(of)
    running = [process for process in this.children(recursive=True) if process.pid not in without]
    # A parent's third and fourth figure are those of its children that have ended.
    return sum(map(_used, (this, *running)))


def _used(process: psutil.Process) -> float:
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.NoSuchProcess:
        return 0.0


def share_of_a_core(seconds: float) -> float:
    """Return the share of a core that this process, its JVM and Spark's workers use in the next seconds."""
    began, cpu_began = time.perf_counter(), cpu_seconds()
    time.sleep(seconds)
    return (cpu_seconds() - cpu_began) / (time.perf_counter() - began)


def middle(figures: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(figures)


class Timed(Protocol):
    """Figures of one contender, one of each run."""

    seconds: list[float]
    cpu_seconds: list[float]


def disagreeing(seconds: Sequence[Sequence[float]]) -> list[int]:
    """Return the numbers of the rounds in which a contender's time, by the first one's, is far from its median.

    Args:
        seconds: those of each contender, one of each round.
    """
    first, *others = seconds
    found = set[int]()
    for other in others:
        ratios = [theirs / base for theirs, base in zip(other, first, strict=True)]
        found |= {number for number, ratio in enumerate(ratios) if abs(ratio / middle(ratios) - 1) > APART}
    return sorted(found)


class Agreement(NamedTuple):
    """The outcome of comparing the rounds of a benchmark."""

    #: rounds that were run again, since they disagreed
    repeated: int
    #: rounds that disagree in the end
    disagreeing: int

    @property
    def said(self) -> str:
        """A point of a list that says so; empty where none was repeated."""
        return (
            f"- {self.repeated} rounds that disagreed by more than {APART:.0%} were repeated\n" if self.repeated else ""
        )


def agree(runs: Mapping[str, Timed], one_round: Callable[[int], None]) -> Agreement:
    """Repeat the rounds that disagree, at most as many as there were; of a round that is repeated nothing counts.

    Args:
        one_round: runs each contender once, and adds the figures to `runs`; it is given a number.
    """
    rounds, repeated = len(next(iter(runs.values())).seconds), 0
    while (noisy := disagreeing([run.seconds for run in runs.values()])) and repeated + len(noisy) <= rounds:
        for run in runs.values():
            run.seconds[:] = [one for number, one in enumerate(run.seconds) if number not in noisy]
            run.cpu_seconds[:] = [one for number, one in enumerate(run.cpu_seconds) if number not in noisy]
        for _ in noisy:
            repeated += 1
            one_round(rounds + repeated)
    return Agreement(repeated, len(noisy))


def load() -> float:
    """Return the mean number of processes at work on this machine in the last minute."""
    return os.getloadavg()[0]


def settled() -> float:
    """Wait until this machine has come to rest, some minutes at most; return its load."""
    until = time.monotonic() + PATIENCE_S
    while load() > BUSY * (os.cpu_count() or 1) and time.monotonic() < until:
        time.sleep(5)
    return load()


def where(spark: SparkSession, load_before: float) -> str:
    """Return the date, the machine and the versions of a measurement, as two points of a list."""
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").first()
    return f"""\
- {datetime.now(timezone.utc):%Y-%m-%d}; {machine()}; {load_before:.1f} processes at work when it began, {load():.1f} \
when it ended
- Python {platform.python_version()}, PySpark {spark.version}, Java {java[0] if java else "?"}, \
Rekindle {version("rekindle")}"""


def machine() -> str:
    """Describe this machine: processor, CPUs, memory, system."""
    memory_gb = psutil.virtual_memory().total / 1e9
    return f"{cpu()}, {psutil.cpu_count()} CPUs, {memory_gb:.0f} GB, {platform.system()} {platform.release()}"


def cpu() -> str:
    """Return the processor's name of itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def publish(
    name: str, text: str, *, load_before: float, page: bool = True, of: Path = PAGE, disagreeing: int = 0
) -> None:
    """Print `text` and, unless told otherwise, put it between the markers of `name` in a page of the documents.

    The page is left alone where the machine was at work before, and where rounds disagree.

    Args:
        disagreeing: number of rounds that disagree, as `agree` counts them.
    """
    print(f"\n{text}", flush=True)
    if not page:
        return
    if load_before > BUSY * (os.cpu_count() or 1):
        sys.exit(f"bench: {of.name} was left alone: {load_before:.1f} processes were at work when this began")
    if disagreeing:
        sys.exit(f"bench: {of.name} was left alone: {disagreeing} rounds disagree by more than {APART:.0%}")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = of.read_text().split(begin)
    _, after = rest.split(end)
    of.write_text(f"{before}{begin}\n{text}\n{end}{after}")
