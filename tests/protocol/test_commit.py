"""Transactions of a subtask: from its batches to what is committed, aborted, or left to the next run."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rekindle.errors import ProtocolError
from rekindle.protocol.commit import CommitPermit, SinkTransaction, Transactions

Range = tuple[int, int]


def transaction(first: int, last: int) -> SinkTransaction:
    return SinkTransaction(first=first, last=last)


def ranges(transactions: object) -> list[Range]:
    return [(one.first, one.last) for one in transactions]  # type: ignore[attr-defined]


def told(script: str) -> tuple[Transactions, list[Range]]:
    """Transactions that have heard a script, at time 0, and what they committed.

    ``w3`` batch 3, ``s1`` snapshot for checkpoint 1, ``s1<2`` one that covers batches up to 2, ``n1`` it is complete,
    ``fin`` finish().
    """
    transactions, committed = Transactions(), []
    for word in script.split():
        number, _, upto = word[1:].partition("<")
        if word == "fin":
            transactions.finished()
        elif word[0] == "w":
            transactions.written(int(number))
        elif word[0] == "s":
            transactions.snapshot(int(number), upto=int(upto) if upto else None)
        else:
            committed += ranges(transactions.completed(CommitPermit(int(number))))
    return transactions, committed


def inside(transactions: Transactions) -> dict:
    return deepcopy(vars(transactions))


# --- life -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "committed"),
    [
        ("w0", []),
        ("w0 s1", []),
        ("w0 s1 n1", [(0, 0)]),
        ("w0 w1 w2 s1 w3 n1", [(0, 2)]),
        ("w0 s1 w1 s2 n2", [(0, 0), (1, 1)]),
        ("w0 s1 w1 s2 n1 n2", [(0, 0), (1, 1)]),
        ("s1 n1 w0 s2 n2", [(0, 0)]),  # an empty one is nothing to commit
        ("w0 n1", []),  # open: no checkpoint covers it
        ("w4 s1 n1", [(0, 4)]),  # several at once, as after a resume
    ],
)
def test_a_transaction_is_open_then_pre_committed_then_committed(script: str, committed: list[Range]) -> None:
    assert told(script)[1] == committed


@pytest.mark.parametrize(
    ("script", "committed"),
    [
        ("w0 s1 w1 s2 n2 n1", [(0, 0), (1, 1)]),
        ("w0 s1 n1 n1", [(0, 0)]),
        ("w0 s1 n1 s1 n1", [(0, 0)]),
        ("w0 s2 w1 s1 n2", [(0, 0)]),
        ("w0 w0 s1 w0 s2 n2", [(0, 0)]),
    ],
)
def test_what_is_heard_late_or_again_changes_nothing(script: str, committed: list[Range]) -> None:
    """FLIP-147, Final Checkpoint: "there is no guarantee the notifyCheckpointComplete arrives or the order in which
    they will arrive"."""
    assert told(script)[1] == committed


def test_the_transaction_of_a_checkpoint_that_failed_goes_with_the_next_one_that_completes() -> None:
    """Flink's TwoPhaseCommitSinkFunction: pending transactions up to the notified checkpoint are committed.

    So it is after a savepoint too, which commits nothing: checkpoint 1 here is never complete.
    """
    assert told("w0 s1 w1 s2 w2 n2")[1] == [(0, 0), (1, 1)]


# --- a snapshot behind the newest batch -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "committed"),
    [
        ("w0 w1 w2 s1<1 n1", [(0, 1)]),
        ("w0 w1 w2 s1<1 n1 s2 n2", [(0, 1), (2, 2)]),
        ("w0 w1 s1<0 s2<1 w2 n2", [(0, 0), (1, 1)]),
        ("w0 s1 w1 s2<0 n2", [(0, 0)]),  # nothing new in it
        ("w0 w1 s1<-1 n1 s2 n2", [(0, 1)]),
        ("w0 s1<7 w1 n1", [(0, 0)]),  # no more than there is
    ],
)
def test_a_snapshot_pre_commits_nothing_that_was_recorded_behind_its_barrier(
    script: str, committed: list[Range]
) -> None:
    assert told(script)[1] == committed


def test_after_a_resume_batches_beyond_the_newest_checkpoint_are_open() -> None:
    transactions = Transactions(after=4)
    transactions.written(4)
    transactions.written(7)
    transactions.snapshot(3)
    assert ranges(transactions.completed(CommitPermit(3))) == [(5, 7)]


# --- finish and close -------------------------------------------------------------------------------------------------


def test_the_last_batch_is_committed_by_a_checkpoint_that_started_after_finish() -> None:
    """FLIP-147, Motivation: "wait for one more checkpoint after tasks emitted all the records to commit the last piece
    of data"."""
    transactions, committed = told("w0 s1 w1 fin n1")
    assert committed == [(0, 0)]
    transactions.snapshot(2)
    assert ranges(transactions.completed(CommitPermit(2))) == [(1, 1)]


@pytest.mark.parametrize("complete", [42, 43, 44])
def test_any_checkpoint_after_finish_commits_everything(complete: int) -> None:
    """FLIP-147, Final Checkpoint: "It should be enough though to wait for notification for any checkpoint that started
    after finish()"."""
    transactions, committed = told(f"w0 fin s42 s43 s44 n{complete}")
    assert committed == [(0, 0)]
    assert transactions.closed() == ()


def test_no_transaction_is_opened_after_finish() -> None:
    """FLIP-147, Final Checkpoint a): "ideally there should be no new pending transactions opened after checkpoint 42";
    Flink's testNoTransactionAfterSinkFunctionFinish."""
    transactions, _ = told("w0 fin s42 s43 s44")
    assert transactions.open is None
    assert {n: (one.first, one.last) for n, one in transactions.pre_committed.items()} == {42: (0, 0)}


def test_43_commits_42_and_what_is_there_of_44_is_empty_and_aborted() -> None:
    """FLIP-147, Final Checkpoint, the example of 42, 43 and 44: commit 42 "(and 43 if they were created)", "aborting
    any pending transactions (for checkpoint 44 if they were opened)", b) "those transactions after checkpoint 42
    should be empty"."""
    transactions, committed = told("w0 s42 s43 s44 n43")
    assert committed == [(0, 0)]
    left = transactions.closed()
    assert len(left) == 2 and all(one.empty for one in left)  # that of 44, and the open one
    assert transactions.pre_committed == {} and transactions.open is None


def test_a_checkpoint_that_completes_after_the_close_is_still_valid() -> None:
    """FLIP-147, Final Checkpoint: "If checkpoint 44 completes afterwards, it will still be valid"."""
    transactions, _ = told("w0 fin s42 s43 s44 n43")
    transactions.closed()
    assert transactions.completed(CommitPermit(44)) == ()
    transactions.snapshot(45)
    assert transactions.completed(CommitPermit(45)) == ()


@pytest.mark.parametrize("script", ["w0 fin", "w0 fin s1", "w0 s1 fin n1 s1", "w0 s1 fin s2 n1 w0"])
def test_a_write_after_finish_is_an_error_and_changes_nothing(script: str) -> None:
    """FLIP-147, Changes the Operator APIs, ``finish()``: "After this method is called, no more records can be produced
    for the downstream operators"."""
    transactions, _ = told(script)
    before = inside(transactions)
    with pytest.raises(ProtocolError, match=r"batch 45 recorded is illegal while .* is finished"):
        transactions.written(45)
    assert inside(transactions) == before


def test_a_snapshot_after_finish_that_lies_before_the_last_batch_leaves_it_to_the_next() -> None:
    transactions, committed = told("w0 w1 fin s1<0 n1")
    assert committed == [(0, 0)]
    transactions.snapshot(2)
    assert transactions.open is None
    assert ranges(transactions.completed(CommitPermit(2))) == [(1, 1)]


@pytest.mark.parametrize("script", ["w0 fin", "w0 fin s42", "w0 s41 w1 fin s42 n41", "w0 w1 fin s42<0 n42"])
def test_closing_what_has_finished_never_loses_a_batch(script: str) -> None:
    """FLIP-147, Final Checkpoint: "We need to wait for a checkpoint to complete, that started after the finish()"."""
    transactions, _ = told(script)
    before = inside(transactions)
    with pytest.raises(ProtocolError, match="all that it wrote is committed"):
        transactions.closed()
    assert inside(transactions) == before


def test_closing_what_was_only_stopped_leaves_its_batches_to_the_next_run() -> None:
    """A stop flushes nothing and reads nothing again: what is recorded beyond its checkpoint stays recorded."""
    transactions, _ = told("w0 s1 w1 s2 w2 n1")
    assert transactions.closed() == ()
    with pytest.raises(ProtocolError, match="is closed; legal"):
        transactions.written(3)
    assert ranges(transactions.completed(CommitPermit(2))) == [(1, 1)]


# --- properties -------------------------------------------------------------------------------------------------------


@given(first=st.integers(0, 9), size=st.integers(0, 9), upto=st.integers(-3, 25))
def test_a_split_loses_nothing_and_keeps_the_order(first: int, size: int, upto: int) -> None:
    whole = transaction(first, first + size - 1)
    left, right = whole.split(upto)
    assert (left.first, right.last) == (whole.first, whole.last)
    assert right.first == left.last + 1
    assert left.empty or left.last <= upto
    assert right.empty or right.first > upto


class Subtask(RuleBasedStateMachine):
    """A subtask's life, beside a plain account of it: which batches each checkpoint covers."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = Transactions()
        self.last = -1
        self.checkpoint = 0
        self.covers: dict[int, int] = {}
        self.complete = 0
        self.committed: list[int] = []

    @precondition(lambda self: not self.transactions.has_finished)
    @rule(again=st.booleans())
    def write(self, again: bool) -> None:
        self.last += not again
        self.transactions.written(self.last)

    @rule(behind=st.none() | st.integers(0, 3), skipped=st.integers(1, 2))
    def snapshot(self, behind: int | None, skipped: int) -> None:
        self.checkpoint += skipped
        upto = None if behind is None else self.last - behind
        self.transactions.snapshot(self.checkpoint, upto=upto)
        self.covers[self.checkpoint] = self.last if upto is None else upto

    @rule(data=st.data())
    def notify(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, self.checkpoint))
        self.complete = max(self.complete, number)
        for one in self.transactions.completed(CommitPermit(number)):
            self.committed += range(one.first, one.last + 1)

    @rule()
    def finish(self) -> None:
        self.transactions.finished()

    @invariant()
    def each_batch_is_committed_once_in_order_as_soon_as_a_complete_checkpoint_covers_it(self) -> None:
        covered = max((upto for number, upto in self.covers.items() if number <= self.complete), default=-1)
        assert self.committed == list(range(covered + 1))

    @invariant()
    def every_other_batch_is_waiting(self) -> None:
        waiting = [*self.transactions.pre_committed.values()]
        waiting += [self.transactions.open] if self.transactions.open is not None else []
        batches = [batch for one in waiting for batch in range(one.first, one.last + 1)]
        assert batches == list(range(len(self.committed), self.last + 1))


TestSubtask = Subtask.TestCase
