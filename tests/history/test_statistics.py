from __future__ import annotations

from rekindle.history.statistics import LATEST, by_status, spread, summary
from rekindle.storage.documents.history import CheckpointRecord, SubtaskStats


def record(number: int, duration_ms: int, status: str = "completed") -> CheckpointRecord:
    subtask = SubtaskStats(uid="hourly", subtask=0, alignment_ms=duration_ms)
    done = SubtaskStats(uid="done", subtask=0, finished=True, alignment_ms=10**9)
    return CheckpointRecord(
        id=number,
        run=1,
        kind="periodic",
        status=status,
        triggered_ms=0,
        duration_ms=duration_ms,
        subtasks=(subtask, done),
    )


def test_there_is_no_spread_of_nothing() -> None:
    assert spread([]) is None
    assert spread([None]) is None
    assert summary([]).duration_ms is None


def test_percentiles_are_values_that_were_measured() -> None:
    found = spread([None, *range(1000, 0, -1)])
    assert found is not None
    assert (found.min, found.avg, found.max) == (1, 500.5, 1000)
    assert (found.p50, found.p90, found.p95, found.p99, found.p999) == (500, 900, 950, 990, 999)
    one = spread([7])
    assert one is not None
    assert {one.min, one.avg, one.max, one.p50, one.p999} == {7}


def test_a_summary_is_of_the_last_thousand_completed_and_of_subtasks_that_took_part() -> None:
    records = [record(1, 9), *(record(number, 5) for number in range(2, LATEST + 2)), record(LATEST + 2, 99, "failed")]
    found = summary(records)
    assert found.count == LATEST
    assert found.duration_ms is not None
    assert found.duration_ms.max == 5
    assert found.alignment_ms is not None
    assert found.alignment_ms.max == 5
    assert found.commit_ms is None
    assert by_status(records) == {"completed": LATEST + 1, "failed": 1}
