"""How often a state is flushed: over a progress directory, with reports as Spark makes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rekindle.progress.directory import read_offsets
from rekindle.spark.query.flush import BEYOND_TIME_MS, END_OF_TIME_MS, flush
from rekindle.storage.local import LocalStore

EMPTY = {"operatorName": "stateStoreSave", "numRowsTotal": 0, "numRowsRemoved": 3}
KEPT = {"operatorName": "symmetricHashJoin", "numRowsTotal": 5}
FIRED = {"operatorName": "transformWithStateExec", "numRowsTotal": 2, "customMetrics": {"numExpiredTimers": 1}}
QUIET = {"operatorName": "transformWithStateExec", "numRowsTotal": 2}
GROUPS = {"operatorName": "applyInPandasWithState", "numRowsTotal": 4}

END, BEYOND = END_OF_TIME_MS, BEYOND_TIME_MS


def report(*operators: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"stateOperators": list(operators)}


@pytest.mark.parametrize(
    ("first_ms", "reports", "watermarks", "left"),
    [
        pytest.param(END, [report(EMPTY)], [END], 0, id="what is empty is done"),
        pytest.param(END, [report(KEPT)] * 2, [END, BEYOND], 5, id="what is left may be of the last days of 9999"),
        pytest.param(BEYOND, [report(KEPT)], [BEYOND], 5, id="nothing is later than that"),
        pytest.param(
            BEYOND, [report(EMPTY, KEPT)], [BEYOND], 5, id="operators that follow each other are done at once"
        ),
        pytest.param(
            END, [report(FIRED), report(FIRED), report(QUIET)], [END, END + 1, END + 2], 0, id="timers may set timers"
        ),
        pytest.param(BEYOND, [{}, report(KEPT)], [BEYOND, BEYOND + 1], 5, id="without a report nothing is known"),
    ],
)
def test_a_state_is_flushed_until_nothing_more_can_come(
    tmp_path: Path, first_ms: int, reports: Sequence[Mapping[str, Any]], watermarks: Sequence[int], left: int
) -> None:
    query = Planted(tmp_path, reports)
    flushed = flush(query.store, "p", query.run, max_rounds=10, first_ms=first_ms)
    assert query.watermarks == watermarks
    assert (flushed.rounds, flushed.complete, flushed.left) == (len(reports), True, left)


@pytest.mark.parametrize(
    ("operator", "waiting", "timers"),
    [
        pytest.param(QUIET, 0, 0, id="state without timers waits for nothing"),
        pytest.param(
            {**QUIET, "customMetrics": {"rocksdbNumInternalColFamiliesKeys": 2}}, 2, 1, id="a timer of two groups"
        ),
        pytest.param(
            {**QUIET, "customMetrics": {"rocksdbNumInternalColFamiliesKeys": 6}}, 3, 3, id="three timers of two"
        ),
        pytest.param(GROUPS, 4, 0, id="groups with time-outs"),
        pytest.param(KEPT, 0, 0, id="a join has no timers"),
    ],
)
def test_what_may_wait_for_a_timer_is_counted(
    tmp_path: Path, operator: Mapping[str, Any], waiting: int, timers: int
) -> None:
    query = Planted(tmp_path, [report(operator)] * 2)
    flushed = flush(query.store, "p", query.run, max_rounds=10)
    assert (flushed.waiting, flushed.timers) == (waiting, timers)


def test_a_round_that_an_earlier_run_has_planted_counts_as_it_was_planted(tmp_path: Path) -> None:
    query = Planted(tmp_path, [report(KEPT), report(KEPT)])
    query.plan(1, END)
    assert flush(query.store, "p", query.run, max_rounds=10, first_ms=BEYOND).complete
    assert query.watermarks == [END, BEYOND], "the first one did not reach the last days of 9999"


def test_timers_that_never_end_are_left_and_said(tmp_path: Path) -> None:
    query = Planted(tmp_path, [report(FIRED)] * 3)
    flushed = flush(query.store, "p", query.run, max_rounds=3)
    assert (flushed.rounds, flushed.complete) == (3, False)


@pytest.mark.parametrize(("operator", "rounds"), [(GROUPS, 1), ({**GROUPS, "numRowsUpdated": 1}, 3), (QUIET, 3)])
def test_groups_that_emit_rows_and_stay_as_they_are_would_only_emit_them_again(
    tmp_path: Path, operator: Mapping[str, Any], rounds: int
) -> None:
    query = Planted(tmp_path, [report(operator)] * 3, rows_out=4)
    flushed = flush(query.store, "p", query.run, max_rounds=3)
    assert (flushed.rounds, flushed.complete) == (rounds, rounds == 1)


class Planted:
    """A query that has committed one batch, and gives these reports on those that are planted."""

    def __init__(self, folder: Path, reports: Sequence[Mapping[str, Any]], rows_out: int = 0) -> None:
        self.rows_out = rows_out
        self.store = LocalStore(str(folder))
        self.watermarks: list[int] = []
        self._reports = iter(reports)
        self.plan(0, 7)
        self._commit(0)

    def plan(self, batch: int, watermark_ms: int) -> None:
        metadata = json.dumps({"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {}})
        self.store.replace(f"p/offsets/{batch}", f'v1\n{metadata}\n{{"logOffset":0}}'.encode())

    def run(self, batch: int) -> tuple[int | None, Mapping[str, Any]]:
        self.watermarks.append(read_offsets(self.store, "p", batch).batch_watermark_ms)
        self._commit(batch)
        return self.rows_out, next(self._reports)

    def _commit(self, batch: int) -> None:
        self.store.replace(f"p/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
