"""The number of rows that a query has read, by Spark's own reports; nothing is evaluated for it.

A report is of one batch, and Spark makes one for each. What is fetched now and then is the last report, so those in
between are fetched where batches were missed. A report of a trigger that found nothing names the batch that comes next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Report = Mapping[str, Any]

_FILE_BYTES = "rocksdbSstFileSize"
"""A metric that only state in RocksDB has."""


class RowsRead:
    """A counter of the rows of each batch, once each.

    Args:
        batch: the last batch that is counted already, -1 for none.
        left_out: ends of the descriptions of sources whose rows are none of the user's: watermark rows.
        of_tasks: the same, of sources that read what other tasks have put out.
    """

    def __init__(self, batch: int, left_out: tuple[str, ...] = (), of_tasks: tuple[str, ...] = ()) -> None:
        #: the batch of the last report, and of it the rows that are counted
        self.batch = batch
        self._counted = self._counted_of_sources = 0
        self._left_out = left_out
        self._of_tasks = of_tasks
        #: None: no batch was reported
        self.rows: int | None = None
        #: those of them that were not of other tasks
        self.of_sources: int | None = None

    def reported(self, report: Report) -> None:
        """Take in a report; they come in the order of their batches."""
        batch = report.get("batchId", -1)
        if batch < self.batch or (batch == self.batch and self.rows is None):
            return
        if batch > self.batch:
            self.batch, self._counted, self._counted_of_sources = batch, 0, 0
        sources = [one for one in report.get("sources") or () if not one["description"].endswith(self._left_out)]
        rows = sum(one.get("numInputRows") or 0 for one in sources)
        of_sources = sum(
            one.get("numInputRows") or 0 for one in sources if not one["description"].endswith(self._of_tasks)
        )
        self.rows = (self.rows or 0) + max(rows - self._counted, 0)
        self.of_sources = (self.of_sources or 0) + max(of_sources - self._counted_of_sources, 0)
        self._counted = max(rows, self._counted)
        self._counted_of_sources = max(of_sources, self._counted_of_sources)


def last_batch(report: Report) -> int:
    """Return the last batch that has run when Spark made a report, -1: none. An idle query's names the one to come."""
    batch = int(report.get("batchId", 0))
    return batch if "addBatch" in report.get("durationMs", ()) else batch - 1


def without_state_rows(report: Report) -> Report:
    """Return a report without what RocksDB says of its rows: 0, where it does not count them."""
    operators = [
        {**one, "numRowsTotal": None} if _is_in_rocksdb(one) else one for one in report.get("stateOperators") or ()
    ]
    return {**report, "stateOperators": operators}


def state_rows(report: Report) -> int | None:
    """Return how many rows a query's state holds; None where it has none, or no report tells."""
    rows = [one.get("numRowsTotal") for one in report.get("stateOperators") or ()]
    return sum(map(int, rows)) if rows and None not in rows else None


def state_bytes(report: Report) -> int | None:
    """Return how many bytes a query's state takes, in RocksDB's files or else in memory; None where it has none."""
    operators = report.get("stateOperators") or ()
    return sum(map(_bytes, operators)) if operators else None


def _is_in_rocksdb(operator: Mapping[str, Any]) -> bool:
    return _FILE_BYTES in (operator.get("customMetrics") or {})


def _bytes(operator: Mapping[str, Any]) -> int:
    figure = operator["customMetrics"][_FILE_BYTES] if _is_in_rocksdb(operator) else operator.get("memoryUsedBytes")
    return int(figure or 0)
