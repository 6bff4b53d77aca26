"""Rows of rates: one every ten seconds while they change, and few while they do not."""

from __future__ import annotations

from rekindle.history import log
from rekindle.history.log import RATES
from rekindle.history.rates import AT_REST_MS, SAMPLE_MS, RateLog
from rekindle.storage.documents.status import Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore

LAGS_MS = 60_000


def test_what_does_not_change_is_a_row_every_ten_minutes_and_one_more_when_it_does() -> None:
    storage, now_ms = JobStorage(MemoryStore(), "job"), 0
    rates = RateLog(storage, 1, lambda: now_ms)

    def look(rows: int) -> None:
        nonlocal now_ms
        now_ms += SAMPLE_MS
        task = TaskStatusDocument(uid="t", subtask=0, status="running", batch=1, rows_in=rows, lag_ms=LAGS_MS + now_ms)
        beat = Status(job="job", state="RUNNING", run=1, host="h", pid=1, beat=1, written_ms=now_ms, tasks=(task,))
        rates.look(now_ms, beat)
        rates.writer.flush()

    def times() -> list[int]:
        return [one.row.time_ms for one in log.read(storage, RATES)]

    for rows in (0, 10, 30, 60):
        look(rows)
    look(60)  # the rows of the ten seconds before are none
    busy = times()
    assert busy == [20_000, 30_000, 40_000, 50_000]
    while len(times()) == len(busy):
        look(60)
    assert times()[-1] == 50_000 + AT_REST_MS
    look(60)
    look(60)
    look(160)
    # What was left out just before is there, so that nothing seems to rise slowly.
    assert times()[-2:] == [now_ms - SAMPLE_MS, now_ms]
    lags = {one.row.time_ms: one.row.tasks["t/0"].lag_ms for one in log.read(storage, RATES)}
    assert lags == {time_ms: LAGS_MS + time_ms for time_ms in times()}
