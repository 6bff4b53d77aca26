"""The rows that jobs read of late, from the samples in their history: the small lines in the list of jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest

from rekindle.errors import RekindleError
from rekindle.history.rates import AT_REST_MS
from rekindle.monitoring import figures
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.storage.documents.history import RateSample
from rekindle.storage.documents.status import AT_WORK

SLOTS = 30
SLOT_MS = 20_000
"""The length of a slot: there is a sample every ten seconds, so each slot has one, unless nothing changes."""

_REST_MS = AT_REST_MS + 60_000
"""The time for which a sample holds at most, until the next one."""

_AT_ONCE = 16
"""Jobs read at the same time, where each look is a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentView:
    """The rows that a running job read in its last ten minutes."""

    #: of the job
    id: str
    #: rows a second, by the tasks that read sources: one value for each twenty seconds, the oldest first
    rows_in_per_second: tuple[float | None, ...]


def recent(monitors: Monitors, now_ms: int) -> list[RecentView]:
    """Return the jobs that run; one that cannot be read now, or whose storage cannot be, is left out."""
    return [view for monitor in monitors.all for view in _fresh(monitor, now_ms)]


def _fresh(monitor: Monitor, now_ms: int) -> list[RecentView]:
    return monitor.watch.fresh(("recent",), lambda: [*_of_storage(monitor, now_ms)])


def _of_storage(monitor: Monitor, now_ms: int) -> Iterator[RecentView]:
    try:
        lines = [line for line in monitor.overview() if line.state in AT_WORK]
    except RekindleError:
        return
    with ThreadPoolExecutor(1 if monitor.store.pace == 1 else _AT_ONCE) as pool:
        for line, values in zip(lines, pool.map(lambda one: _values(monitor, one.job, now_ms), lines), strict=True):
            if values is not None:
                yield RecentView(id=line.id, rows_in_per_second=values)


def _values(monitor: Monitor, name: str, now_ms: int) -> tuple[float | None, ...] | None:
    try:
        readers = {edge.target.removeprefix("task:") for edge in monitor.graph(name).edges if edge.kind == "input"}
        return slots(monitor.history.rates(name, now_ms - SLOTS * SLOT_MS - _REST_MS).samples, readers, now_ms)
    except RekindleError:
        return None


def slots(samples: Sequence[RateSample], readers: Collection[str], now_ms: int) -> tuple[float | None, ...]:
    """Return the newest figure of each slot; None where nothing was measured.

    A driver that finds what it found before writes no sample, so each holds until the next one of its run.
    """
    found: list[float | None] = [None] * SLOTS
    for sample, after in zip_longest(samples, samples[1:]):
        figure = figures.total(
            rates.rows_in for task, rates in sample.tasks.items() if task.rpartition("/")[0] in readers
        )
        until_ms = now_ms if after is None else after.time_ms
        holds = (after is None or after.run == sample.run) and until_ms - sample.time_ms <= _REST_MS
        first, last = (SLOTS - 1 - (now_ms - time_ms) // SLOT_MS for time_ms in (sample.time_ms, until_ms))
        for slot in range(max(first, 0), min(last if holds else first, SLOTS - 1) + 1):
            found[slot] = figure
    return tuple(found)
