"""The small lines in the list of jobs: the newest figure of each slot of twenty seconds."""

from __future__ import annotations

from rekindle.monitoring.recent import SLOT_MS, SLOTS, slots
from rekindle.storage.documents.history import RateSample, TaskRates

NOW_MS = 10_000_000


def sample(slots_ago: int, rows: float, run: int = 1) -> RateSample:
    rates = {"read/0": TaskRates(rows_in=rows), "other/0": TaskRates(rows_in=99.0)}
    return RateSample(time_ms=NOW_MS - slots_ago * SLOT_MS, run=run, tasks=rates)


def test_a_slot_has_its_newest_figure_of_the_tasks_that_read_sources() -> None:
    samples = [sample(1, 3.0), sample(1, 4.0), sample(0, 5.0)]
    assert slots(samples, {"read"}, NOW_MS) == (None,) * (SLOTS - 2) + (4.0, 5.0)


def test_while_nothing_changes_a_figure_holds_until_the_next_sample_and_until_now() -> None:
    samples = [sample(SLOTS + 1, 7.0), sample(SLOTS - 2, 7.0), sample(4, 0.0)]
    assert slots(samples, {"read"}, NOW_MS) == (7.0,) * (SLOTS - 5) + (0.0,) * 5


def test_between_two_runs_and_where_no_driver_wrote_nothing_is_known() -> None:
    samples = [sample(200, 7.0), sample(8, 7.0), sample(4, 1.0, run=2), sample(0, 2.0, run=3)]
    assert slots(samples, {"read"}, NOW_MS) == (
        *(None,) * (SLOTS - 9), 7.0, None, None, None, 1.0, None, None, None, 2.0,
    )  # fmt: skip
