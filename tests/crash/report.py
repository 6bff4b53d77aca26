"""What came of each kill of `make crash`: the tables of docs/crash-tests.md, one part for each kind of job."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyspark

import rekindle
from rekindle.runtime import steps
from rekindle.testing.crash import WHEN, Moment
from tests.crash.victim import ROOT

PAGE = ROOT / "docs" / "crash-tests.md"


class Report:
    """One part of the page.

    Args:
        part: its name, in the markers of the page.
        moments: at which a driver is to be killed.
        at_random: how many kills at any time there are to be.
    """

    def __init__(self, part: str, moments: Sequence[Moment], at_random: int = 0) -> None:
        self._part = part
        self._moments = moments
        self._planned = len(moments) + at_random
        self._at_steps: dict[Moment, str] = {}
        self._at_random: dict[str, str] = {}
        self._seconds = 0.0

    def at(self, moment: Moment, kill: Callable[[], str]) -> None:
        """Kill at a step, and keep what came of it."""
        self._at_steps[moment] = "**FAILED**"
        self._at_steps[moment] = self._timed(kill)

    def after(self, seconds: float, what: str, kill: Callable[[], str]) -> None:
        """Kill at a time."""
        when = f"{seconds:.1f} s, {what}"
        self._at_random[when] = "**FAILED**"
        self._at_random[when] = self._timed(kill)

    def _timed(self, kill: Callable[[], str]) -> str:
        started = time.monotonic()
        try:
            return kill()
        finally:
            self._seconds += time.monotonic() - started

    @contextmanager
    def written(self) -> Iterator[Report]:
        """Put it into the page afterwards, if at least half of it was done."""
        yield self
        if 2 * len(self._at_steps) > len(self._moments):
            self._write()

    def _write(self) -> None:
        begin, end = f"<!-- {self._part}: begin -->", f"<!-- {self._part}: end -->"
        page = PAGE.read_text()
        text = "\n".join([begin, *self._lines(), end])
        PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: text, page, flags=re.DOTALL))

    def _lines(self) -> Iterator[str]:
        made = len(self._at_steps) + len(self._at_random)
        yield (
            f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}, Rekindle {rekindle.__version__}, PySpark "
            f"{pyspark.__version__}, Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores: "
            f"{made} of {self._planned} kills in {self._seconds / 60:.0f} minutes."
        )
        yield from ("", *self._table_of_steps())
        if self._at_random:
            yield from ("", "| killed after the start | outcome |", "| --- | --- |")
            yield from (f"| {when} | {what} |" for when, what in self._at_random.items())

    def _table_of_steps(self) -> Iterator[str]:
        known = {moment.step for moment in self._moments}
        times = sorted({moment.nth for moment in self._moments})
        columns = [(nth, when) for nth in times for when in WHEN]
        heads = [when if nth == 1 else f"{when}, {nth}nd time" for nth, when in columns]
        yield f"| killed at | {' | '.join(heads)} |"
        yield f"| --- |{' --- |' * len(columns)}"
        for step in steps.ALL:
            if step in known:
                cells = [self._cell(Moment(step, when, nth)) for nth, when in columns]
                yield f"| `{step}` | {' | '.join(cells)} |"

    def _cell(self, moment: Moment) -> str:
        return self._at_steps.get(moment, "" if moment in self._moments else "-")
