"""The rates of the subtasks of a run, by what they count: averages over the last ten seconds. A row of them is kept
every ten seconds while they change. While nothing happens there is a row every ten minutes, and one more when something
does: what lies between two rows lies on the line between them.

A subtask is *busy* while it is in a batch, *back-pressured* while a batch waits because too much lies unread in its
channels, and *idle* the rest of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from rekindle.history.log import RATES
from rekindle.history.writer import LogWriter
from rekindle.storage.documents.history import RateSample, TaskRates
from rekindle.storage.documents.status import Status, TaskStatusDocument
from rekindle.storage.job_documents import JobDocuments

SAMPLE_MS = 10_000
"""Milliseconds between two rows, and the span of which rates are averages."""

AT_REST_MS = 600_000
"""Milliseconds between two rows while nothing changes."""

_EARLY_MS = 500
"""Milliseconds by which a heartbeat may come early."""

_Look = tuple[int, Mapping[tuple[str, int], TaskStatusDocument]]


class RateLog:
    """The rates of one run.

    Args:
        run: its number.
        clock: the time of day, for rows; spans are measured by the times that `look` is given.
    """

    def __init__(self, storage: JobDocuments, run: int, clock: Callable[[], int]) -> None:
        self._run = run
        self._clock = clock
        self.writer = LogWriter(storage, RATES, run, lambda _: [])
        self._looks: deque[_Look] = deque()
        self._sampled_ms: int | None = None
        #: the last row, and one since that says no more than it, which is left out until something changes
        self._row: RateSample | None = None
        self._row_ms = 0
        self._left_out: RateSample | None = None
        #: of each subtask, as of the last look; replaced as a whole, because others read it from their threads
        self.rates: Mapping[tuple[str, int], TaskRates] = {}

    def rows_out(self, has_sinks: Callable[[str], bool]) -> float | None:
        """Return the rows given to sinks a second, as of the newest row; None where no sink counts rows."""
        row = self._left_out or self._row
        rates = row.tasks.items() if row is not None else ()
        found = [one.rows_out for task, one in rates if one.rows_out is not None and has_sinks(task.rpartition("/")[0])]
        return sum(found) if found else None

    def look(self, now_ms: int, status: Status) -> None:
        """Take in where the job and its subtasks stand; add a row when one is due.

        Args:
            now_ms: a time that never goes back.
        """
        self._looks.append((now_ms, {(task.uid, task.subtask): task for task in status.tasks}))
        while len(self._looks) > 2 and now_ms - self._looks[1][0] >= SAMPLE_MS - _EARLY_MS:
            self._looks.popleft()
        (then_ms, before), (_, now) = self._looks[0], self._looks[-1]
        self.rates = {key: _rates(before.get(key, task), task, now_ms - then_ms) for key, task in now.items()}
        if self._sampled_ms is None:
            self._sampled_ms = now_ms
        elif now_ms - self._sampled_ms >= SAMPLE_MS - _EARLY_MS:
            self._sampled_ms = now_ms
            named = {f"{uid}/{subtask}": rates for (uid, subtask), rates in self.rates.items()}
            self._add(
                now_ms,
                RateSample(
                    time_ms=self._clock(),
                    run=self._run,
                    tasks=named,
                    rows_uncommitted=status.rows_uncommitted,
                    restarts=status.restarts_total,
                ),
            )

    def _add(self, now_ms: int, row: RateSample) -> None:
        """Add a row, unless it says what the one before it says."""
        if self._row is not None and _at_rest(row) == _at_rest(self._row) and now_ms - self._row_ms < AT_REST_MS:
            self._left_out = row
            return
        for one in (self._left_out, row):
            if one is not None:
                self.writer.add(one)
        self._row, self._row_ms, self._left_out = row, now_ms, None


def _rates(before: TaskStatusDocument, now: TaskStatusDocument, span_ms: int) -> TaskRates:
    batches, busy_ms, held_ms = (
        max(after - earlier, 0)
        for earlier, after in (
            (before.batches, now.batches),
            (before.busy_ms, now.busy_ms),
            (before.held_ms, now.held_ms),
        )
    )
    busy = _share(busy_ms, span_ms)
    held = min(_share(held_ms, span_ms), 1 - busy)
    return TaskRates(
        rows_in=_per_second(before.rows_in, now.rows_in, span_ms),
        rows_out=_per_second(before.rows_out, now.rows_out, span_ms),
        batches=_per_second(before.batches, now.batches, span_ms) or 0,
        batch_ms=round(busy_ms / batches, 1) if batches else None,
        watermark_ms=now.watermark,
        lag_ms=now.lag_ms,
        busy=busy,
        back_pressured=held,
        idle=round(1 - busy - held, 3),
        state_rows=now.state_rows,
        state_bytes=now.state_bytes,
    )


def _at_rest(row: RateSample) -> RateSample:
    """Return a row without its times, which grow while nothing else changes."""
    tasks = {task: replace(rates, lag_ms=None) for task, rates in row.tasks.items()}
    return replace(row, time_ms=0, tasks=tasks)


def _share(part_ms: int, span_ms: int) -> float:
    return round(min(part_ms / span_ms, 1), 3) if span_ms > 0 else 0


def _per_second(before: int | None, now: int | None, span_ms: int) -> float | None:
    if now is None or span_ms <= 0:
        return None
    return round(max(now - (before or 0), 0) * 1000 / span_ms, 1)
