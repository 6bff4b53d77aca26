"""Sinks that can go back to a checkpoint: whole, wherever that is cut short, and whoever commits late."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rekindle.errors import SinkError
from rekindle.sinks.two_phase import Committable, TwoPhaseSink
from rekindle.testing.effects import at_moments, crash_at
from rekindle.testing.sink_under_test import SinkUnderTest, batch_of, permit, rows_of
from tests.sinks import test_delta, test_iceberg, test_parquet

DELETES = ("rekindle.storage.local.LocalStore.delete", "rekindle.storage.local.LocalStore.delete_tree")


class Rewinding(SinkUnderTest):
    """What holds for each of them."""

    def _commits(self, *numbers: int, last: bool = True) -> dict[int, list[Committable]]:
        """Checkpoints with two batches each, all of them committed, or all but the last."""
        commits = {number: self._two_batches(number) for number in numbers}
        sink = self.opened()
        for number in numbers if last else numbers[:-1]:
            sink.commit(commits[number], permit(number))
        return commits

    def _seen(self, *numbers: int) -> None:
        assert self.rows() == Counter(row for number in numbers for row in rows_of(number)), numbers

    def test_it_goes_back_and_on_again_and_late_commits_change_nothing(self) -> None:
        commits = self._commits(1, 2, 3, 4, last=False)
        taken_back = {number: made for number, made in commits.items() if number > 1}
        sink = self.opened()
        sink.rewind(1, taken_back)
        self._seen(1)
        assert self.staged(self.target) == 0
        sink.rewind(1, taken_back)
        for late in (3, 4):
            # A driver that was paused wakes up: it does nothing, or finds that its rows are gone.
            with contextlib.suppress(SinkError):
                self.opened().commit(commits[late], permit(late))
            self._seen(1)
        self._commits(5)
        self._seen(1, 5)
        sink.rewind(0, {1: commits[1]})
        self._seen(5)

    @pytest.mark.slow
    def test_wherever_it_is_cut_short_the_next_driver_completes_it(self) -> None:
        number, kept = 1, [*self._commits(100)]
        while True:
            first = 200 + 10 * number
            commits = self._commits(first, first + 1, first + 2, last=number % 2 == 0)
            taken_back = {one: made for one, made in commits.items() if one > first}
            sink = self.opened()
            with crash_at(number, (*self.effects, *DELETES)) as crash:
                sink.rewind(first, taken_back)
            # Not only the same again: farther back, as someone may choose who has seen it fail.
            to = first if number % 3 else kept[-1]
            self.opened().rewind(to, {one: made for one, made in commits.items() if one > to})
            kept += [first] if to == first else []
            self._seen(*kept)
            assert self.staged(self.target) == 0, crash.at
            if crash.at is None:
                break
            number += 1
        assert number > 2, "effects names nothing that is done here"


class TestParquet(Rewinding):
    effects = test_parquet.TestParquet.effects
    make = test_parquet.TestParquet.make
    visible = test_parquet.TestParquet.visible
    row = test_parquet.TestParquet.row
    staged = test_parquet.TestParquet.staged

    @pytest.mark.parametrize("committed", [True, False])
    def test_files_that_others_have_rewritten_are_not_taken_back_and_nothing_is_deleted(self, committed: bool) -> None:
        commits = self._commits(1, 2, 3, last=committed)
        old = Path(self.target, commits[2][1]["files"][0]["to"])
        old.rename(old.with_name("part-compacted.parquet"))
        for _ in range(2):
            with pytest.raises(SinkError, match="rewritten or removed files of checkpoint 2") as error:
                self.opened().rewind(1, {number: commits[number] for number in (3, 2)})
            assert error.value.code == "SINK_REWIND_FAILED"
            self._seen(1, 2, *([3] if committed else []))
        self.opened().rewind(2, {3: commits[3]})
        self._seen(1, 2)

    @pytest.mark.parametrize("moment", [2, 5])
    def test_what_a_killed_rewind_has_deleted_is_not_looked_for_again(self, moment: int) -> None:
        commits = self._commits(1, 2, 3, 4)
        with crash_at(moment, DELETES[:1]) as crash:
            self.opened().rewind(2, {3: commits[3], 4: commits[4]})
        assert crash.at is not None
        # Farther back than before, and what was not noted by then is looked for.
        old = Path(self.target, commits[2][1]["files"][0]["to"])
        old.rename(old.with_name("elsewhere"))
        with pytest.raises(SinkError, match="files of checkpoint 2"):
            self.opened().rewind(1, {number: commits[number] for number in (2, 3, 4)})
        old.with_name("elsewhere").rename(old)
        self.opened().rewind(1, {number: commits[number] for number in (2, 3, 4)})
        self._seen(1)

    def test_a_file_that_a_late_driver_moves_into_place_while_it_is_looked_for_is_seen(self) -> None:
        commits = self._commits(1, 2, last=False)
        late, moments = self.opened(), list[str]()

        def commit(moment: str) -> None:
            moments.append(moment)
            if len(moments) == 2:  # after the first look: at no target yet
                late.commit(commits[2], permit(2))

        sink = self.opened()
        with at_moments(commit, ["rekindle.storage.local.LocalStore.exists"]):
            sink.rewind(1, {2: commits[2]})
        assert moments[1].endswith("exists/after")
        self._seen(1)


class TestDelta(Rewinding):
    effects = test_delta.TestDelta.effects
    make = test_delta.TestPartitionedDelta.make
    visible = test_delta.TestDelta.visible

    def staged(self, target: Path) -> int:
        return sum(1 for _ in (target / "_rekindle").glob("job*/*/*"))

    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        return tmp_path / "target ä"

    def test_what_others_have_added_stays_and_what_they_have_rewritten_is_not_taken_back(self) -> None:
        commits = self._commits(1, 2)
        rival = self.opened(sink="another")
        rival.commit(self._prepared_by(rival, 7), permit(1))
        self.opened().rewind(1, {2: commits[2]})
        self._seen(1, 7)
        log = max((self.target / "_delta_log").glob("*.json")).read_text().splitlines()
        versions = {entry["txn"]["appId"]: entry["txn"]["version"] for entry in map(json.loads, log) if "txn" in entry}
        assert versions["rekindle/job-1234/out"] == 2

        more = self._commits(3)
        DeltaTable(self.target).optimize.compact()
        with pytest.raises(SinkError, match=r"SINK_REWIND_FAILED.*rewritten or removed"):
            self.opened().rewind(1, more)
        self._seen(1, 7, 3)

    def _prepared_by(self, sink: TwoPhaseSink, number: int) -> list[Committable]:
        return self.prepared(sink, rows_of(number), batch_of(number, sink="another"))


class TestIceberg(Rewinding):
    effects = test_iceberg.TestIceberg.effects
    make = test_iceberg.TestIceberg.make
    visible = test_iceberg.TestIceberg.visible

    def staged(self, target: Path) -> int:
        return sum(1 for _ in (target / "db" / "bids" / "data" / "_rekindle").glob("job*/*/*"))
