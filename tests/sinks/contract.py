"""What every two-phase-commit sink has to hold, whatever it writes to: a plain class, to be inherited by a test class.

A subclass says how a sink is made and how its target is read. Rows are ``(n, text)``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import SinkBatch, TwoPhaseSink

Row = tuple[int, str | None]

PERMIT = CommitPermit(checkpoint=1)
SCHEMA = "n int, text string"


def batch_of(batch: int, *, run: int = 1, attempt: str = "aa", job: str = "job-1234", sink: str = "out") -> SinkBatch:
    """An attempt at a batch."""
    return SinkBatch(job=job, sink=sink, task="t-1", subtask=0, lineage=1, batch=batch, run=run, attempt=attempt)


class TwoPhaseSinkContract:
    """Inherit it and say how."""

    def make(self, target: Path) -> TwoPhaseSink:
        """A new sink on `target`, not open yet: as a driver that has just started has it."""
        raise NotImplementedError

    def visible(self, spark: SparkSession, target: Path) -> Iterable[Row]:
        """What a reader of the target sees now."""
        raise NotImplementedError

    def staged(self, target: Path) -> int:
        """How many attempts have left something that is not visible."""
        raise NotImplementedError

    # -- helpers ------------------------------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _prepare_contract(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.target = tmp_path / "target ä%20"

    def opened(self, job: str = "job-1234", sink: str = "out") -> TwoPhaseSink:
        """A sink as a driver of `job` has it."""
        made = self.make(self.target)
        made.open(job, sink)
        return made

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        """The rows, in two partitions."""
        return self.spark.createDataFrame(list(rows), SCHEMA).repartition(2)

    def prepared(self, sink: TwoPhaseSink, rows: Sequence[Row], batch: SinkBatch) -> list[dict[str, Any]]:
        """Committables, as they come back from where they are kept."""
        kept: list[dict[str, Any]] = json.loads(json.dumps(list(sink.prepare(self.frame(rows), batch))))
        return kept

    def rows(self) -> Counter[Row]:
        """What a reader sees, as a multiset: twice is twice."""
        return Counter(self.visible(self.spark, self.target))

    # -- the contract -------------------------------------------------------------------------------------------------

    def test_what_is_prepared_is_seen_once_it_is_committed_and_a_repeated_commit_changes_nothing(self) -> None:
        sink, data = self.opened(), [(1, "a"), (2, None), (3, "ü %/=")]
        made = self.prepared(sink, data, batch_of(0))
        assert not self.rows()
        sink.commit(made, PERMIT)
        sink.commit(made, PERMIT)
        # A driver that comes after a crash repeats it too, and another one knows nothing of the first.
        self.opened().commit(made, CommitPermit(checkpoint=2))
        assert self.rows() == Counter(data)
        assert self.staged(self.target) == 0
        assert sum(one["rows"] for one in made if "rows" in one) in (0, 3)

    def test_several_batches_are_committed_together_and_a_commit_that_was_cut_short_is_finished(self) -> None:
        sink = self.opened()
        first = self.prepared(sink, [(1, "a"), (2, "b")], batch_of(0))
        second = self.prepared(sink, [(3, "c")], batch_of(1, attempt="bb"))
        sink.commit(first, PERMIT)
        self.opened().commit([*first, *second], PERMIT)
        assert self.rows() == Counter([(1, "a"), (2, "b"), (3, "c")])

    def test_a_batch_without_rows_can_be_committed_and_aborted(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [], batch_of(0))
        sink.commit(made, PERMIT)
        sink.abort(made)
        assert not self.rows()
        assert self.staged(self.target) == 0

    def test_what_is_aborted_leaves_nothing_and_aborting_again_is_harmless(self) -> None:
        sink = self.opened()
        lost = self.prepared(sink, [(1, "a")], batch_of(0))
        kept = self.prepared(sink, [(1, "a")], batch_of(0, attempt="bb"))
        sink.abort(lost)
        self.opened().abort(lost)
        assert self.staged(self.target) == len(kept)
        sink.commit(kept, PERMIT)
        sink.abort([])
        assert self.rows() == Counter([(1, "a")])

    def test_cleaning_removes_what_no_record_names_if_it_may_and_nothing_else(self) -> None:
        sink = self.opened()
        committed = self.prepared(sink, [(1, "a")], batch_of(0))
        sink.commit(committed, PERMIT)
        named = self.prepared(sink, [(2, "b")], batch_of(1))
        self.prepared(sink, [(2, "b")], batch_of(1, attempt="bb"))
        self.prepared(sink, [(3, "c")], batch_of(2, run=3))
        other = self.opened(sink="other")
        others = self.prepared(other, [(4, "d")], batch_of(0, sink="other"))
        asked: list[SinkBatch] = []

        def of_earlier_runs(batch: SinkBatch) -> bool:
            asked.append(batch)
            return batch.run < 3

        following = self.opened()
        following.clean(named, lambda batch: False)
        assert self.staged(self.target) == 4
        following.clean(named, of_earlier_runs)
        following.clean(named, of_earlier_runs)
        assert self.staged(self.target) == 3
        assert set(asked) == {batch_of(1, attempt="bb"), batch_of(2, run=3)}
        following.commit(named, PERMIT)
        other.commit(others, PERMIT)
        assert self.rows() == Counter([(1, "a"), (2, "b"), (4, "d")])

    def test_two_jobs_share_a_target_and_neither_touches_what_is_the_others(self) -> None:
        here, there = self.opened("job-1234"), self.opened("job-5678")
        ours = self.prepared(here, [(1, "a")], batch_of(0))
        theirs = self.prepared(there, [(1, "a")], batch_of(0, job="job-5678"))
        here.clean([], lambda batch: batch.job == "job-5678")
        here.commit(ours, PERMIT)
        there.commit(theirs, PERMIT)
        assert self.rows() == Counter([(1, "a"), (1, "a")])

    def test_nothing_is_committed_without_a_permit(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [(1, "a")], batch_of(0))
        with pytest.raises(SinkError) as error:
            sink.commit(made, None)  # type: ignore[arg-type]
        assert error.value.code == "PERMIT_REQUIRED"
        assert not self.rows()

    def test_rows_that_were_prepared_and_are_gone_are_an_error_and_not_nothing(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [(1, "a")], batch_of(0))
        sink.abort(made)
        with pytest.raises(SinkError) as error:
            sink.commit(made, PERMIT)
        assert error.value.code == "SINK_STAGING_LOST"

    def test_finish_and_close_write_nothing(self) -> None:
        sink = self.opened()
        self.prepared(sink, [(1, "a")], batch_of(0))
        sink.finish()
        sink.close()
        assert not self.rows()
        assert self.staged(self.target) == 1
