"""The tables of the Nexmark benchmark, as Markdown: of figures that were measured, and a dash where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from measuring import middle
from nexmark_ways import BATCH, CHOSEN, HEAP, PLAIN, REKINDLE, ROCKSDB, Found, Runs

NONE = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """Return a table whose first `words` columns are text and whose others are numbers."""
    bars = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, bars, *rows))


def seconds_table(found: Found, asks: Mapping[str, str]) -> str:
    """Return how long each query took each way, and what the times are of each other."""
    head = (
        "query", "what it asks", "plain, s", "plain with our settings, s", "Rekindle, s", "against plain",
        "against the second", "batch, s", "Flink, heap: job + start, s", "Flink, RocksDB: job + start, s",
        "against Flink, heap", "against Flink, RocksDB",
    )  # fmt: skip
    rows = []
    for name, ways in found.items():
        plain, chosen, ours, batch, heap, rocksdb = (
            middle(ways[way].seconds) if way in ways else None
            for way in (PLAIN, CHOSEN, REKINDLE, BATCH, HEAP, ROCKSDB)
        )
        against = [_ratio(other, ours) for other in (plain, chosen, heap, rocksdb)]
        times = [_figure(one) for one in (plain, chosen, ours, batch)]
        in_flink = [_with_start(ways.get(way)) for way in (HEAP, ROCKSDB)]
        row = (name, asks[name], *times[:3], f"**{against[0]}**", against[1], times[3], *in_flink, *against[2:])
        rows.append(row)
    return table(head, rows, words=2)


def rows_table(found: Found) -> str:
    """Return what each query cost in CPU time, and which of its rows did not come out."""
    counted = (PLAIN, REKINDLE, HEAP, ROCKSDB)
    head = (
        "query",
        *(f"{way}, CPU s" for way in counted),
        "rows there must be",
        *(f"{way}, missing or wrong" for way in counted),
    )
    rows = []
    for name, ways in found.items():
        cost = [_figure(middle(ways[way].cpu_seconds) if way in ways else None) for way in counted]
        missing = [f"{ways[way].missing:,}" if way in ways else NONE for way in counted]
        rows.append((name, *cost, f"{_rows(ways):,}", *missing))
    return table(head, rows, words=1)


def _rows(ways: Mapping[str, Runs]) -> int:
    return next(iter(ways.values())).rows


def _with_start(runs: Runs | None) -> str:
    return NONE if runs is None else f"{middle(runs.seconds):.2f} + {middle(runs.start_s):.2f}"


def _figure(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds:.2f}"


def _ratio(theirs: float | None, ours: float | None) -> str:
    return NONE if theirs is None or ours is None else f"{theirs / ours:.2f}"


@dataclass
class Life:
    """What was measured of one job that ran, was stopped, resumed and was killed; seconds."""

    #: from the request to stop until the savepoint was complete, or, without one, the query had stopped
    stop_s: float
    #: from its start out of the savepoint until it had a new row committed
    resumed_s: float
    #: from each kill until the job computed again, and until it had a new row committed
    working_s: list[float] = field(default_factory=list)
    new_row_s: list[float] = field(default_factory=list)
    #: of each checkpoint that the job took by itself
    checkpoint_s: list[float] = field(default_factory=list)
    #: rows that came out twice or with other values than they must have
    wrong: int = 0


Lives = dict[tuple[str, str], Life]
"""Query and engine → its life."""


def lives_table(lives: Lives, asks: Mapping[str, str]) -> str:
    """Return recovery, stop and checkpoints by query and engine."""
    head = (
        "query", "what it asks", "engine", "kill -9 to at work again, s", "kill -9 to the first new row, s",
        "stop to savepoint, s", "start from it to the first new row, s", "a checkpoint, s", "rows twice or wrong",
    )  # fmt: skip
    rows = []
    for (name, engine), life in lives.items():
        taken = middle(life.checkpoint_s) if life.checkpoint_s else None
        stop = f"{life.stop_s:.2f}" + ("" if life.checkpoint_s else ", no savepoint")
        rows.append(
            (
                *(name, asks[name], engine, _spread(life.working_s), _spread(life.new_row_s), stop),
                *(_figure(life.resumed_s), _figure(taken), f"{life.wrong:,}"),
            )
        )
    return table(head, rows, words=3)


def _spread(seconds: Sequence[float]) -> str:
    return f"{middle(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})" if seconds else NONE
