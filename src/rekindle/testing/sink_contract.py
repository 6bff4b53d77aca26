"""The contract of every two-phase-commit sink, as a pytest class to be inherited: run it on your own sink.

::

    class TestMySink(SinkContract):
        effects = ("pathlib.Path.rename", "shutil.rmtree")

        def make(self, target): ...
        def visible(self, spark, target): ...
        def staged(self, target): ...

It needs pytest, PySpark, and a fixture ``spark`` with a session. Rows are ``(n, text)``; every row has its own `n`, so
that a sink with a key can use it.

The sink is driven as the driver does it: each new instance is a driver that has just started; committables go through
JSON; each commit of a checkpoint names the same committables; after a crash ``clean`` comes before ``commit``. Crashes
are put at every moment of a call, before and after each of the sink's `effects` (see `rekindle.testing.effects`).
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rekindle.errors import SinkError
from rekindle.sinks import SinkBatch
from rekindle.sinks.owners import Claim
from rekindle.sinks.two_phase import Committable
from rekindle.testing.effects import at_moments
from rekindle.testing.sink_rivals import RivalDriver, Row, Storage, settle
from rekindle.testing.sink_under_test import SinkUnderTest, batch_of, permit, rows_of
from rekindle.testing.turns import Turns

__all__ = ["Row", "SinkContract", "batch_of", "permit"]


class SinkContract(SinkUnderTest):
    """Inherit it, and say how a sink is made and how its target is read."""

    # -- prepare and commit -------------------------------------------------------------------------------------------

    def test_what_is_prepared_is_seen_once_it_is_committed_and_not_before(self) -> None:
        sink, data = self.opened(), [(1, "a"), (2, None), (3, "ü %/=\\'\"")]
        made = self.prepared(sink, data, batch_of(0))
        assert not self.rows()
        assert self.staged(self.target) == 1
        sink.commit(made, permit())
        assert self.rows() == Counter(data)
        assert self.staged(self.target) == 0
        assert sum(one["rows"] for one in made if "rows" in one) in {0, 3}

    def test_a_repeated_commit_changes_nothing_whoever_repeats_it_and_however_late(self) -> None:
        sink = self.opened()
        first = self.prepared(sink, [(1, "a"), (2, "b")], batch_of(0))
        sink.commit(first, permit(1))
        sink.commit(first, permit(1))
        self.opened().commit(first, permit(1))
        second = self.prepared(sink, [(3, "c")], batch_of(1))
        sink.commit(second, permit(2))
        # A driver that was paused wakes up after another has continued.
        self.opened().commit(first, permit(1))
        assert self.rows() == Counter([(1, "a"), (2, "b"), (3, "c")])

    def test_the_target_says_which_checkpoint_was_committed_last_if_it_says_any(self) -> None:
        sink = self.opened()
        assert sink.newest_committed() is None
        for batch, checkpoint in enumerate((1, 3)):
            sink.commit(self.prepared(sink, [(batch, "a")], batch_of(batch)), permit(checkpoint))
        assert self.opened().newest_committed() in (None, 3)

    def test_a_look_before_a_start_changes_nothing_and_finds_what_the_target_has(self) -> None:
        if (reason := self.make(self.target).cannot_examine) is not None:
            pytest.skip(reason)
        claim, columns = Claim(owner="job-1234", sink="out", storage="/state", now_ms=1), self.frame([]).schema
        assert self.make(self.target).examine(claim, columns) is None
        sink = self.opened()
        assert self.make(self.target).examine(claim, columns) is None
        sink.commit(self.prepared(sink, [(1, "a")], batch_of(0)), permit(3))
        made = self.prepared(sink, [(2, "b")], batch_of(1))
        assert self.make(self.target).examine(claim, columns) == self.opened().newest_committed()
        assert self.rows() == Counter([(1, "a")])
        assert self.staged(self.target) == 1
        sink.commit(made, permit(4))
        assert self.rows() == Counter([(1, "a"), (2, "b")])

    def test_a_checkpoint_commits_the_batches_of_several_subtasks_that_prepared_at_the_same_time(self) -> None:
        sink = self.opened()
        data: list[list[Row]] = [[(10 * subtask, "a"), (10 * subtask + 1, "b")] for subtask in range(3)]

        def prepare(subtask: int) -> list[Committable]:
            return self.prepared(sink, data[subtask], batch_of(0, subtask=subtask))

        with ThreadPoolExecutor(3) as pool:
            made = [one for some in pool.map(prepare, range(3)) for one in some]
        assert not self.rows()
        self.opened().commit(made, permit())
        assert self.rows() == Counter(row for rows in data for row in rows)
        assert self.staged(self.target) == 0

    def test_a_batch_without_rows_can_be_committed_and_aborted(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [], batch_of(0))
        sink.commit(made, permit())
        lost = self.prepared(sink, [], batch_of(1))
        sink.abort(lost)
        assert not self.rows()
        assert self.staged(self.target) == 0

    @pytest.mark.parametrize("wrong", [None, 1, {"checkpoint": 1}])
    def test_nothing_is_committed_without_a_permit(self, wrong: Any) -> None:
        sink = self.opened()
        made = self.prepared(sink, [(1, "a")], batch_of(0))
        with pytest.raises(SinkError) as error:
            sink.commit(made, wrong)
        assert error.value.code == "PERMIT_REQUIRED"
        assert not self.rows()

    def test_rows_that_were_prepared_and_are_gone_are_an_error_and_not_nothing(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [(1, "a")], batch_of(0))
        sink.abort(made)
        with pytest.raises(SinkError) as error:
            sink.commit(made, permit())
        assert error.value.code == "SINK_STAGING_LOST"

    def test_finish_and_close_write_nothing_and_the_last_checkpoint_commits_after_finish(self) -> None:
        sink = self.opened()
        made = self.prepared(sink, [(1, "a")], batch_of(0))
        sink.finish()
        assert not self.rows()
        sink.commit(made, permit(1))
        sink.close()
        assert self.rows() == Counter([(1, "a")])
        # Another attempt of its task follows, without another open().
        sink.commit(self.prepared(sink, [(2, "b")], batch_of(1)), permit(2))
        sink.close()
        # The same job is started again in this process, from before its end.
        sink.open("job-1234", "out")
        sink.commit(self.prepared(sink, [(3, "c")], batch_of(2, run=2)), permit(3))
        assert self.rows() == Counter([(1, "a"), (2, "b"), (3, "c")])

    def test_no_secret_is_stored_or_shown(self) -> None:
        sink = self.opened()
        shown = f"{sink!r} {self.prepared(sink, [(1, 'a')], batch_of(0))}"
        assert not [secret for secret in self.secrets if secret in shown]

    # -- abort and clean ----------------------------------------------------------------------------------------------

    def test_what_is_aborted_leaves_nothing_and_aborting_again_is_harmless(self) -> None:
        sink = self.opened()
        lost = self.prepared(sink, [(1, "a")], batch_of(0))
        kept = self.prepared(sink, [(1, "a")], batch_of(0, attempt="bb"))
        sink.abort(lost)
        self.opened().abort(lost)
        sink.abort([])
        assert self.staged(self.target) == 1
        sink.commit(kept, permit())
        assert self.rows() == Counter([(1, "a")])

    def test_cleaning_removes_what_no_record_names_if_it_may_and_nothing_else(self) -> None:
        sink = self.opened()
        sink.commit(self.prepared(sink, [(1, "a")], batch_of(0)), permit(1))
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
        following.commit(named, permit(2))
        other.commit(others, permit(2))
        assert self.rows() == Counter([(1, "a"), (2, "b"), (4, "d")])

    # -- crashes ------------------------------------------------------------------------------------------------------

    def test_a_commit_that_crashed_at_any_moment_is_finished_by_the_next_driver(self) -> None:
        def crashed(number: int) -> None:
            made = self._two_batches(number)
            self._crash(number, lambda sink: sink.commit(made, permit(number)))
            self._recover(made, number)

        self._at_every_moment(crashed, Counter)

    def test_a_prepare_that_crashed_at_any_moment_shows_nothing_and_is_tried_again(self) -> None:
        def crashed(number: int) -> None:
            before, rows = self.rows(), rows_of(number)
            self._crash(number, lambda sink: sink.prepare(self.frame(rows), batch_of(number)))
            assert self.rows() == before
            self._recover(self.prepared(self.opened(), rows, batch_of(number, run=2, attempt="bb")), number)

        self._at_every_moment(crashed, Counter)

    def test_an_abort_and_a_cleaning_that_crashed_at_any_moment_are_carried_through_by_the_next(self) -> None:
        def crashed(number: int) -> None:
            lost = self.prepared(self.opened(), [(number, "lost")], batch_of(number))
            self._crash(number, lambda sink: sink.abort(lost))
            self.opened().abort(lost)
            assert self.staged(self.target) == 0
            self.prepared(self.opened(), [(number, "lost")], batch_of(number, attempt="bb"))
            self._crash(number, lambda sink: sink.clean([], lambda batch: True))
            self.opened().clean([], lambda batch: True)

        self._at_every_moment(crashed, lambda rows: Counter())

    # -- others at the same time --------------------------------------------------------------------------------------

    def test_a_rival_that_commits_the_same_at_any_moment_of_a_commit_changes_nothing(self) -> None:
        def beside_a_rival(number: int) -> None:
            made = self._two_batches(number)
            rival = self.opened()
            self._meanwhile(
                number,
                lambda: self.opened().commit(made, permit(number)),
                lambda: rival.commit(made, permit(number)),
            )

        self._at_every_moment(beside_a_rival, Counter)

    def test_two_jobs_share_a_target_and_one_may_commit_at_any_moment_of_the_others_commit(self) -> None:
        ours, theirs = self.opened("job-1234"), self.opened("job-5678")
        others: list[Row] = []

        def beside_another(number: int) -> None:
            made = self._two_batches(number)
            others.append((1000 + number, "theirs"))
            more = self.prepared(theirs, others[-1:], batch_of(number, job="job-5678"))
            ours.clean(made, lambda batch: batch.job == "job-5678")
            self._meanwhile(
                number,
                lambda: ours.commit(made, permit(number)),
                lambda: theirs.commit(more, permit(number)),
            )

        self._at_every_moment(beside_another, lambda rows: Counter([*rows, *others]))

    def test_a_reader_never_sees_a_row_twice_and_no_half_checkpoint_where_that_is_promised(self) -> None:
        made, sink = self._two_batches(1), self.opened()
        seen: list[tuple[str, Counter[Row]]] = []
        with at_moments(lambda moment: seen.append((moment, self.rows())), self.effects):
            sink.commit(made, permit())
        assert seen, "effects names nothing that a commit does"
        whole = Counter(rows_of(1))
        for moment, rows in seen:
            assert rows <= whole, moment
            if sink.atomic_commit:
                assert rows in (Counter(), whole), moment
        assert self.rows() == whole

    @pytest.mark.parametrize("seed", range(2))
    def test_drivers_that_are_overtaken_and_wake_up_at_any_moment_lose_nothing_and_double_nothing(
        self, seed: int
    ) -> None:
        self.overlap(seed)

    def overlap(self, seed: int) -> None:
        """Let drivers of a job overlap as the seed says; nothing is lost, twice, too early or left (`sink_rivals`)."""
        chance, storage = random.Random(seed), Storage()  # noqa: S311

        def look() -> None:
            if chance.random() < 0.03:
                assert self.rows() <= storage.rows(), turns.story

        def driver(name: str) -> RivalDriver:
            return RivalDriver(storage, random.Random(f"{name} of {seed}"), self.opened, self.prepared, turns.hear)  # noqa: S311

        turns = Turns(chance, deaths=0.02, patience_s=self.rival_waits_s, between=look)
        rivals = {name: driver(name) for name in ("first", "second", "third")}
        with at_moments(turns.hear, [*self.effects, *self.looks]):
            turns.run({name: rival.drive for name, rival in rivals.items()})
        story = "\n".join(turns.story)
        for failure in (each for rival in rivals.values() for each in rival.failures):
            raise AssertionError(story) from failure
        settle(driver("last"), driver("after the last"))
        shown, named = self.rows(), storage.rows()
        assert shown == named, f"lost {named - shown}, twice or never named {shown - named}:\n{story}"
        assert self.staged(self.target) == 0, story
