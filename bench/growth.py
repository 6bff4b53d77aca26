"""`make bench-growth`: how throughput, checkpoints and starts of a job change as it grows, in one respect at a time.

    python bench/growth.py [--only keys files] [--sizes 1000 10000] [--small]

Each part is a table, with a row for a size and a bar for the figure that says most. One run of each size, after one of
the smallest that warms Spark up. All parts take some 25 minutes; `--help` says how long each does. Each part rewrites
its own table in docs/performance.md, so one that fails takes no other with it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import growth_jobs
from growth_columns import columns
from growth_control import measure as control
from growth_jobs import Figures, cleared
from measuring import ROOT, SETTINGS, arguments, load, publish, settled, where
from rekindle.session.session import make_session

PAGE = ROOT / "docs" / "performance.md"
BAR = 12
"""Letters of the longest bar."""


@dataclass(frozen=True)
class Part:
    """One respect in which a job grows."""

    #: what the sizes count
    unit: str
    run: Callable[[SparkSession, Path, int], Figures]
    sizes: tuple[int, ...]
    #: of a try-out
    small: tuple[int, ...]
    #: figure whose growth is drawn
    drawn: str
    #: on two CPUs at rest, about
    minutes: float


def of_control(_: SparkSession, __: Path, size: int) -> Figures:
    """Let the control plane of so many subtasks live a life, without Spark."""
    found = control(size)
    return {f"{name}, s": seconds for name, seconds in found.items() if name != "events"}


PARTS = {
    "control": Part("subtasks", of_control, (100, 1_000, 10_000), (100, 300), "a checkpoint, s", 1),
    "history": Part(
        "old checkpoints", growth_jobs.history, (10, 1_000, 10_000), (10, 100), "start again, s", 2
    ),
    "rows": Part("rows", growth_jobs.rows, (1_000_000, 5_000_000, 25_000_000), (100_000, 1_000_000), "s", 3),
    "keys": Part(
        "keys", growth_jobs.keys, (100_000, 1_000_000, 5_000_000, 20_000_000), (10_000, 100_000),
        "start with state, s", 6,
    ),
    "tasks": Part("tasks", growth_jobs.tasks, (1, 10, 25, 50), (1, 5), "start, s", 4),
    "partitions": Part("partitions", growth_jobs.partitions, (2, 20, 100, 200), (2, 10), "start with state, s", 3),
    "columns": Part("columns", columns, (10, 100, 400), (5, 20), "Rekindle, s", 2),
    "files": Part("files", growth_jobs.files, (100, 2_000, 10_000, 100_000), (10, 300), "start, s", 6),
}  # fmt: skip


def shown(figure: float) -> str:
    """Return a figure with three digits that count."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}" if figure >= 0.1 else f"{figure:.3f}"


def table(part: Part, found: dict[int, Figures]) -> str:
    """Return the figures as a Markdown table, with a bar for the one that is drawn."""
    names = list(next(iter(found.values())))
    longest = max(figures[part.drawn] for figures in found.values())
    lines = [
        f"| {size:,} | {' | '.join(shown(figures[name]) for name in names)} "
        f"| {'█' * max(round(BAR * figures[part.drawn] / longest), 1)} |"
        for size, figures in found.items()
    ]
    head = f"| {part.unit} | {' | '.join(names)} | {part.drawn.removesuffix(', s')} |"
    return "\n".join([head, f"| ---: |{' ---: |' * len(names)} --- |", *lines])


def run(name: str, sizes: Sequence[int], spark: SparkSession, scratch: Path) -> str:
    """Run a part; return its table."""
    part, found = PARTS[name], dict[int, Figures]()
    for size in (sizes[0], *sizes):
        figures = found[size] = part.run(spark, cleared(scratch / name), size)
        said = ", ".join(f"{key} {shown(figure)}" for key, figure in figures.items())
        print(f"{name}: {size:,} {part.unit}: {said}", flush=True)
    return table(part, found)


def main() -> None:
    parts = "; ".join(f"{name} (some {part.minutes:g} min)" for name, part in PARTS.items())
    parser = arguments(f"How a job grows. Parts: {parts}.", runs=1)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--sizes", nargs="+", type=int, help="in place of the part's own; leaves the page alone")
    parser.add_argument("--small", action="store_true", help="a try-out, which leaves the page alone")
    given = parser.parse_args()
    page = not (given.no_page or given.small or given.sizes)
    load_before = settled() if page else load()
    spark = make_session("rekindle-bench", SETTINGS)
    failed = []
    for name in given.only:
        part = PARTS[name]
        sizes = given.sizes or (part.small if given.small else part.sizes)
        with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
            try:
                text = run(name, sizes, spark, Path(folder))
            except SystemExit as error:
                print(error, file=sys.stderr)
                failed.append(name)
                continue
        publish(f"growth-{name}", f"{text}\n\n{where(spark, load_before)}", load_before=load_before, page=page, of=PAGE)
    spark.stop()
    if failed:
        sys.exit(f"bench: these parts failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
