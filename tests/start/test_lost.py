"""Which runs are a sign of a loss of power, and where a start begins then."""

from __future__ import annotations

import pytest

from rekindle.start.lost import find_loss
from rekindle.start.resolve import Fresh, Restore, StartFacts, resolve
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore

LINEAGE = Lineage(lineage=2, run=2, created_ms=0)


class Booted(ForwardingStore):
    """A storage on a machine that was started once more."""

    boot_id = "now"


@pytest.fixture
def storage() -> JobStorage:
    return JobStorage(Booted(MemoryStore()), "job")


def ran(storage: JobStorage, number: int, state: str | None = None, *, lineage: int = 2, **about: object) -> None:
    told = {"boot_id": "before", **about}
    began = told.pop("began", True)
    storage.fence.claim(Run(run=number, started_ms=0, host="h", pid=1, lineage=lineage, **told))  # type: ignore[arg-type]
    if state is not None:
        storage.record_result(Result(run=number, state=state, ended_ms=0, began=bool(began)))


def checkpoint(storage: JobStorage, number: int, lineage: int = 2) -> None:
    found = Manifest(
        checkpoint=number,
        job="job",
        kind="periodic",
        run=2,
        lineage=lineage,
        triggered_ms=0,
        completed_ms=0,
        graph={},
        tasks={},
    )
    storage.create(layout.manifest(layout.checkpoint("job", number)), found)


def beginning(storage: JobStorage, lineage: Lineage = LINEAGE) -> Fresh | Restore | None:
    loss = find_loss(storage, lineage, lambda number: f"/s/{number}")
    return loss.beginning if loss is not None else None


@pytest.mark.parametrize("state", [None, "FAILED", "CANCELED"])
def test_after_a_run_that_was_cut_off_a_start_goes_from_the_newest_checkpoint_of_its_lineage(
    storage: JobStorage, state: str | None
) -> None:
    checkpoint(storage, 8)
    checkpoint(storage, 9, lineage=1)
    ran(storage, 2, state)
    assert beginning(storage) == Restore("/s/8", repeated=True)


@pytest.mark.parametrize("state", ["STOPPED", "FINISHED", "DRAINED"])
def test_a_run_that_ended_in_order_is_trusted_and_those_before_it_are_asked_all_the_same(
    storage: JobStorage, state: str
) -> None:
    ran(storage, 2, state)
    assert beginning(storage) is None
    ran(storage, 3, None)
    ran(storage, 4, state)
    assert beginning(storage) == Fresh()


@pytest.mark.parametrize("boot_id", ["now", ""])
def test_a_run_of_the_same_start_or_of_one_that_is_not_known_loses_nothing(storage: JobStorage, boot_id: str) -> None:
    ran(storage, 2, boot_id=boot_id)
    assert beginning(storage) is None


def test_a_run_that_did_nothing_and_those_of_other_lineages_lose_nothing_of_this_one(storage: JobStorage) -> None:
    ran(storage, 1, lineage=1)
    ran(storage, 2, boot_id="now")
    ran(storage, 3, "CANCELED", began=False)
    ran(storage, 4, "FAILED", lineage=4)
    assert beginning(storage) is None


def test_a_lineage_is_not_resumed_while_a_run_may_still_open_another(storage: JobStorage) -> None:
    """A start that was frozen after its claim creates its lineage when it wakes up, and then that is in force."""
    ran(storage, 2, boot_id="now")
    checkpoint(storage, 8)
    ran(storage, 3, lineage=3, boot_id="now")
    assert beginning(storage) == Restore("/s/8", repeated=True)
    loss = find_loss(storage, LINEAGE, str)
    assert loss is not None and loss.cut_off is None
    assert find_loss(storage, LINEAGE, str, before=3) is None, "its own claim is no reason"


def test_where_nothing_is_lost_with_the_power_no_run_is_asked() -> None:
    storage = JobStorage(MemoryStore(), "job")
    ran(storage, 2)
    assert beginning(storage) is None


def test_a_lineage_without_a_checkpoint_begins_as_it_was_opened(storage: JobStorage) -> None:
    checkpoint(storage, 9, lineage=1)
    ran(storage, 2, undo_drain=True, rewind_sinks=True)
    opened = Lineage(lineage=2, run=2, created_ms=0, restored_from="/savepoint", claimed=True)
    again = Restore("/savepoint", undo_drain=True, rewind_sinks=True, claim=True, repeated=True)
    assert beginning(storage, opened) == again


def test_a_batch_run_begins_again_until_its_checkpoint_is_complete(storage: JobStorage) -> None:
    ran(storage, 2)
    batch = Lineage(lineage=2, run=2, created_ms=0, mode="batch")
    assert beginning(storage, batch) == Fresh()
    checkpoint(storage, 1)
    assert beginning(storage, batch) is None


def test_what_the_user_asks_for_and_how_the_job_ended_come_before_a_loss() -> None:
    run = Run(run=2, started_ms=0, host="h", pid=1, lineage=2)
    lost = StartFacts(run=run, lineage=LINEAGE, whole=Restore("/s/8", repeated=True))
    assert resolve(lost, restore="/s/7", allow_drained=False) == Restore("/s/7", asked=True)
    assert resolve(lost, restore=None, allow_drained=False) == Restore("/s/8", repeated=True)
    ended = StartFacts(run=run, result=Result(run=2, state="FINISHED", ended_ms=0), lineage=LINEAGE, whole=Fresh())
    assert resolve(ended, restore=None, allow_drained=False).result.state == "FINISHED"  # type: ignore[union-attr]
