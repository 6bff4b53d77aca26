from __future__ import annotations

from typing import Any

import pytest

from rekindle.start.resolve import AlreadyEnded, Fresh, Restore, Resume, StartFacts, resolve
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result, Run

LINEAGE = Lineage(lineage=1, run=1, created_ms=0)


def run(number: int, restore_from: str | None = None, **told: Any) -> Run:
    return Run(run=number, started_ms=0, host="h", pid=1, lineage=number, restore_from=restore_from, **told)


def ended(state: str) -> Result:
    return Result(run=1, state=state, ended_ms=0)


def test_a_job_that_has_never_run_begins_at_the_beginning() -> None:
    assert resolve(StartFacts(), restore=None, allow_drained=False) == Fresh()


def test_a_first_run_that_died_before_its_lineage_begins_again() -> None:
    assert resolve(StartFacts(run=run(1)), restore=None, allow_drained=False) == Fresh()


@pytest.mark.parametrize("state", ["STOPPED", "CANCELED", "FAILED", None])
def test_a_job_that_did_not_end_for_good_goes_on_in_place(state: str | None) -> None:
    facts = StartFacts(run=run(1), result=ended(state) if state else None, lineage=LINEAGE)
    assert resolve(facts, restore=None, allow_drained=False) == Resume(LINEAGE)


@pytest.mark.parametrize("state", ["FINISHED", "DRAINED"])
def test_a_job_that_ended_for_good_stays_ended(state: str) -> None:
    facts = StartFacts(run=run(1), result=ended(state), lineage=LINEAGE, latest_checkpoint="/s/job/checkpoints/9")
    assert resolve(facts, restore=None, allow_drained=False) == AlreadyEnded(ended(state))


def test_a_drained_job_goes_on_from_its_last_checkpoint_if_that_is_allowed() -> None:
    facts = StartFacts(run=run(1), result=ended("DRAINED"), lineage=LINEAGE, latest_checkpoint="/s/job/checkpoints/9")
    assert resolve(facts, restore=None, allow_drained=True) == Restore(
        "/s/job/checkpoints/9", undo_drain=True, asked=True
    )


def test_a_finished_job_is_not_what_allow_drained_is_for() -> None:
    facts = StartFacts(run=run(1), result=ended("FINISHED"), lineage=LINEAGE, latest_checkpoint="/s/job/checkpoints/9")
    assert resolve(facts, restore=None, allow_drained=True) == AlreadyEnded(ended("FINISHED"))


def test_what_the_user_asks_for_comes_first() -> None:
    facts = StartFacts(run=run(1), result=ended("FINISHED"), lineage=LINEAGE)
    assert resolve(facts, restore="/savepoint", allow_drained=False) == Restore("/savepoint", asked=True)


def test_a_restore_that_a_crash_cut_short_is_done_again_without_asking_again() -> None:
    facts = StartFacts(run=run(2, restore_from="/savepoint", undo_drain=True), lineage=LINEAGE)
    again = Restore("/savepoint", undo_drain=True, asked=True, repeated=True)
    assert resolve(facts, restore=None, allow_drained=False) == again


def test_such_a_restore_is_checked_once_more_if_a_checkpoint_was_completed_since() -> None:
    killed = run(2, restore_from="/savepoint", newest_checkpoint=1)
    facts = StartFacts(run=killed, lineage=LINEAGE, newest=2)
    assert resolve(facts, restore=None, allow_drained=False) == Restore("/savepoint", asked=True, repeated=False)


def test_such_a_restore_from_the_newest_checkpoint_of_that_time_gives_way_to_a_newer_one() -> None:
    killed = run(2, restore_from="/s/job/checkpoints/1", newest_checkpoint=1)
    newer = Restore("/s/job/checkpoints/2", repeated=True)
    facts = StartFacts(run=killed, lineage=LINEAGE, newest=2, newest_then="/s/job/checkpoints/1", whole=newer)
    assert resolve(facts, restore=None, allow_drained=False) == newer


def test_a_restore_that_the_start_decided_itself_is_decided_once_more() -> None:
    """It was for the newest checkpoint then; a driver that seemed dead may have completed another since."""
    killed = run(2, restore_from="/s/job/checkpoints/1", asked=False, newest_checkpoint=1)
    newer = Restore("/s/job/checkpoints/2", repeated=True)
    facts = StartFacts(run=killed, lineage=LINEAGE, newest=2, whole=newer)
    assert resolve(facts, restore=None, allow_drained=False) == newer


def test_a_restore_that_was_carried_through_is_not_done_again() -> None:
    lineage = Lineage(lineage=2, run=2, created_ms=0)
    facts = StartFacts(run=run(2, restore_from="/savepoint"), lineage=lineage)
    assert resolve(facts, restore=None, allow_drained=False) == Resume(lineage)
