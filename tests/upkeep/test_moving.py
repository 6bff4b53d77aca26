"""`rekindle.upkeep.moving`: jobs that the real driver has written, in simulated lives, and that go to another store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rekindle.errors import ControlError, RekindleError, StorageError
from rekindle.start.identity import identify, refuse_unfinished_copy
from rekindle.storage import layout
from rekindle.storage.codec import encode
from rekindle.storage.documents.copies import CopyOf
from rekindle.storage.documents.runs import Identity, Run
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.liveness import this_process
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore
from rekindle.testing.volatile_store import VolatileStore
from rekindle.upkeep.check import check_job, check_storage, remove_orphans
from rekindle.upkeep.moving import CopiedJob, copy_job
from tests.upkeep.kit import JOB, Elsewhere, Stored, Watched, drain, dying_at, files_of, stopped

SMALL = 5
"""A life that leaves few files."""


def copy(source: Store, target: Store) -> CopiedJob:
    return copy_job(source, JOB, target, 7)


def refused(source: Store, target: Store) -> RekindleError:
    with pytest.raises(RekindleError) as error:
        copy(source, target)
    return error.value


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 7, 8])
def test_a_job_that_goes_elsewhere_and_comes_back_is_what_it_was(seed: int) -> None:
    here, there, back = Stored(seed).store, Elsewhere(), MemoryStore()
    before = files_of(here)
    copied, returned = copy(here, there), copy(there, back)
    assert files_of(here) == before
    assert files_of(back) == {path: data for path, data in before.items() if path != layout.reserve(JOB)}
    assert check_storage(there).whole and jobs(there) == [JOB]
    assert copied.files == returned.files == len(files_of(there)) - 1
    deciding = [data for path, data in files_of(there).items() if "/inbox/" in path or "/spark/" in path]
    assert not any(b"memory:///" in data for data in deciding)


@pytest.mark.parametrize("seed", [1, 3, 4, 9])
def test_a_job_resumes_where_it_was_copied_to_and_shows_each_row_once(seed: int) -> None:
    world, there, back = stopped(seed), Elsewhere(), MemoryStore()
    copy(world.store, there)
    copy(there, back)
    world.store = world.engine.store = back
    world.storage = JobStorage(back, JOB)
    drain(world)


@cache
def written_by(seed: int) -> tuple[int, dict[str, bytes]]:
    """The number of writes of a whole copy, and the files that it leaves."""
    target = Watched(there := Elsewhere())
    copy(Stored(seed).store, target)
    return target.writes, files_of(there)


def writes_of(seed: int) -> int:
    return written_by(seed)[0]


assert writes_of(SMALL) < 100, "some tests here are made for each of its files: take a smaller one"

CUT = [(SMALL, number) for number in range(1, writes_of(SMALL) + 1)] + [(3, number) for number in range(2, 340, 29)]


@pytest.mark.parametrize("landed", [False, True], ids=["not written", "written"])
@pytest.mark.parametrize(("seed", "number"), CUT)
def test_a_copy_that_was_cut_off_is_no_job_and_the_next_command_makes_it_one(
    seed: int, number: int, landed: bool
) -> None:
    here, there, (writes, whole) = Stored(seed).store, Elsewhere(), written_by(seed)
    if number > writes:
        return
    die = dying_at(number)
    error = refused(here, Watched(there, after=die) if landed else Watched(there, before=die))
    assert error.code == "STORAGE_UNAVAILABLE"
    if landed and number == writes:
        assert files_of(there) == whole, "only the answer to the last write was lost"
        assert refused(here, there).code == "COPY_TARGET_TAKEN"
        return
    assert jobs(there) == []
    storage = JobStorage(there, JOB)
    if files := [entry.path for entry in there.walk("")]:
        with pytest.raises(ControlError, match="COPY_UNFINISHED"):
            refuse_unfinished_copy(storage, storage.identity())
        assert [one.path for one in check_storage(there).every_orphan] == [JOB], files
    for checkpoint in storage.checkpoints():
        manifest = layout.manifest(layout.checkpoint(JOB, checkpoint))
        assert there.read(manifest) == whole[manifest]
        below = {path for path in whole if "/tasks/" in path or "/sources/" in path}
        assert below <= files_of(there).keys(), "what is named is there before what names it"
    copy(here, there)
    assert files_of(there) == whole


@pytest.mark.parametrize("number", range(1, writes_of(SMALL), 5))
def test_what_a_job_has_become_since_takes_the_place_of_a_copy_that_was_cut_off(number: int) -> None:
    world = Stored(SMALL)
    there, whole = Elsewhere(), Elsewhere()
    refused(world.store, Watched(there, before=dying_at(number)))
    run = world.storage.latest_run()
    assert run is not None
    world.storage.create(layout.run(JOB, run.run + 1), replace(run, run=run.run + 1, token="next"))
    result = world.storage.result(run.run)
    assert result is not None
    world.storage.create(layout.result(JOB, run.run + 1), replace(result, run=run.run + 1))
    world.store.delete_tree(layout.checkpoint(JOB, world.storage.checkpoints()[-1]))
    world.storage.replace(layout.status(JOB), world.storage.status())
    copy(world.store, there)
    copy(world.store, whole)
    assert files_of(there) == files_of(whole)


@pytest.mark.parametrize("number", [None, 1, 2, 3, *range(4, writes_of(SMALL), 3)])
def test_a_copy_survives_a_loss_of_power_once_it_is_done_and_is_begun_again_before(number: int | None) -> None:
    here, there = Stored(SMALL).store, VolatileStore()
    wanted = {path: data for path, data in files_of(here).items() if path != layout.reserve(JOB)}
    for seed in range(5):
        there = VolatileStore()
        if number is None:
            copy(here, there)
            there.lose_power(random.Random(seed))
        else:
            refused(here, Watched(there, before=dying_at(number)))
            there.lose_power(random.Random(seed))
            assert jobs(there) == []
            copy(here, there)
        assert files_of(there) == wanted
        assert check_job(JobStorage(there, JOB)).faults == []


@pytest.mark.parametrize("number", range(1, writes_of(SMALL)))
def test_a_source_that_starts_meanwhile_is_noticed(number: int) -> None:
    world, there = Stored(SMALL), Elsewhere()

    def start(write: int) -> None:
        if write == number:
            begin(world.storage)

    assert refused(world.store, Watched(there, before=start)).code == "COPY_SOURCE_CHANGED"
    assert jobs(there) == []


def begin(storage: JobStorage, **changes: Any) -> Run:
    """Claim the next run, for this process."""
    newest = storage.latest_run()
    process = this_process()._asdict()
    run = replace(newest or Run(run=0, started_ms=0, lineage=1, **process), **(process | {"token": "new"} | changes))
    run = replace(run, run=run.run + 1)
    assert storage.fence.claim(run)
    return run


def test_a_source_that_starts_and_takes_away_what_is_being_copied_is_noticed_too() -> None:
    world, there = Stored(3), Elsewhere()

    def start(write: int) -> None:
        if write == 20:
            begin(world.storage)
            world.store.delete_tree(layout.tasks(JOB))

    assert refused(world.store, Watched(there, after=start)).code == "COPY_SOURCE_CHANGED"


@pytest.mark.parametrize("number", range(2, writes_of(SMALL) + 1, 3))
def test_a_command_that_wakes_up_after_another_has_taken_over_writes_nothing_more(number: int) -> None:
    here, there = Stored(SMALL).store, Elsewhere()

    def take_over(write: int) -> None:
        if write == number:
            copy(here, there)
            JobStorage(there, JOB).replace(layout.status(JOB), {"format": 1, "lives": True})

    assert refused(here, Watched(there, before=take_over)).code in ("COPY_OVERTAKEN", "COPY_TARGET_TAKEN")
    assert b'"lives"' in there.read(layout.status(JOB)), "the job has begun to live there"
    assert jobs(there) == [JOB]


def _taken(world: Stored, target: Store) -> None:
    target.create(layout.identity(JOB), encode(Identity(job=JOB, created_ms=0, id="other")))


def _occupied(world: Stored, target: Store) -> None:
    target.create(f"{JOB}/holiday.jpg", b"")


def _half_copied_from_elsewhere(world: Stored, target: Store) -> None:
    mark = CopyOf(job=JOB, id="other", source="s3://other", begun_ms=0, token="t")
    target.create(layout.copied(JOB), encode(mark))


def _unknown(world: Stored, target: Store) -> None:
    world.store.delete(layout.identity(JOB))


def _running(world: Stored, target: Store) -> None:
    begin(world.storage)


def _on_another_machine(world: Stored, target: Store) -> None:
    begin(world.storage, host="elsewhere")


def _damaged(world: Stored, target: Store) -> None:
    newest = world.storage.checkpoints()[0]
    world.store.replace(layout.manifest(layout.checkpoint(JOB, newest)), b"{}")


def _of_a_newer_version(world: Stored, target: Store) -> None:
    world.store.replace(layout.identity(JOB), encode(Identity(job=JOB, created_ms=0, format=2)))


def _with_an_address_in_a_record(world: Stored, target: Store) -> None:
    path = next(entry.path for entry in world.store.walk(JOB) if "/batches/" in entry.path)
    record = json.loads(world.store.read(path))
    record["committables"] = {"out": [{"staged": f"{world.store.uri(JOB)}/sinks/out/1"}]}
    world.store.replace(path, json.dumps(record).encode())


def _with_an_address_in_a_plan(world: Stored, target: Store) -> None:
    path = next(entry.path for entry in world.store.walk(JOB) if entry.path.endswith("/spark/metadata"))
    world.store.replace(path, b'{"id": "x", "home": "' + world.store.uri(JOB).encode() + b'/tasks"}')


REFUSED: dict[str, Callable[[Stored, Store], None]] = {
    "COPY_TARGET_TAKEN": _taken,
    "COPY_OCCUPIED": _occupied,
    "COPY_OCCUPIED by a copy": _half_copied_from_elsewhere,
    "JOB_UNKNOWN": _unknown,
    "JOB_RUNNING": _running,
    "COPY_NOT_AT_REST": _on_another_machine,
    "JOB_NOT_WHOLE": _damaged,
    "FORMAT_NEWER": _of_a_newer_version,
    "COPY_ADDRESS_UNKNOWN": _with_an_address_in_a_record,
    "COPY_ADDRESS_UNKNOWN of Spark": _with_an_address_in_a_plan,
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_copied_is_refused_and_says_why(why: str) -> None:
    world, there = Stored(SMALL), Elsewhere()
    REFUSED[why](world, there)
    was_there = jobs(there)
    error = refused(world.store, there)
    assert error.code == why.split(maxsplit=1)[0]
    assert error.next_step
    assert jobs(there) == was_there


def test_a_job_that_is_dead_on_this_machine_is_copied_as_it_was_left() -> None:
    world, there = Stored(SMALL), Elsewhere()
    begin(world.storage, process_started=this_process().process_started + "0")
    copy(world.store, there)
    assert JobStorage(there, JOB).state() == "LOST"


def test_a_job_that_power_may_have_been_lost_under_is_refused_unless_it_had_stopped() -> None:
    class AfterARestart(MemoryStore):
        boot_id = "2"  # type: ignore[assignment]

    here = AfterARestart()
    for path, data in files_of(Stored(SMALL).store).items():
        here.create(path, data)
    storage = JobStorage(here, JOB)
    gone = {"process_started": this_process().process_started + "0"}
    run = begin(storage, boot_id="1", **gone)
    assert refused(here, Elsewhere()).code == "COPY_NOT_AT_REST"
    result = storage.result(run.run - 1)
    assert result is not None and result.state == "STOPPED"
    storage.create(layout.result(JOB, run.run), replace(result, run=run.run))
    copy(here, Elsewhere())
    begin(storage, boot_id="2", **gone)
    copy(here, Elsewhere())


@pytest.mark.parametrize("place", ["*", "{a}", JOB])
def test_a_place_where_no_job_can_be_is_refused(place: str, tmp_path: Any) -> None:
    here = LocalStore(str(tmp_path))
    for path, data in files_of(Stored(SMALL).store).items():
        here.create(path, data)
    code = "COPY_OCCUPIED" if place == JOB else "STORAGE_PATH_UNSUPPORTED"
    assert refused(here, LocalStore(f"{tmp_path}/{place}/state")).code == code


def test_what_is_damaged_on_its_way_is_no_job() -> None:
    class Bad(Elsewhere):
        def copy_from(self, source: Store, path: str, target: str) -> int:
            self.replace(target, b"x" * len(source.read(path)))
            return 0

    there = Bad()
    assert refused(Stored(SMALL).store, there).code == "COPY_NOT_WHOLE"
    assert jobs(there) == []


def test_a_start_takes_no_copy_for_its_job_and_makes_none_beside_it() -> None:
    here, there = Stored(SMALL).store, Elsewhere()
    refused(here, Watched(there, before=dying_at(30)))
    storage = JobStorage(there, JOB)
    with pytest.raises(ControlError, match="COPY_UNFINISHED"):
        identify(storage, 0)
    assert storage.identity() is None
    copy(here, there)
    assert identify(storage, 0) == storage.identity() == JobStorage(here, JOB).identity()


def test_of_a_start_and_a_copy_at_once_none_takes_what_is_the_others() -> None:
    here, there = Stored(SMALL).store, Elsewhere()

    def start(write: int) -> None:
        if write == 1:
            identify(JobStorage(there, JOB), 0)

    assert refused(here, Watched(there, before=start)).code == "COPY_TARGET_TAKEN"
    assert [entry.path for entry in there.walk("")] == [layout.identity(JOB)]


def test_a_repair_removes_a_copy_that_was_not_finished() -> None:
    here, there = Stored(SMALL).store, Elsewhere()
    refused(here, Watched(there, before=dying_at(30)))
    remove_orphans(there, check_storage(there))
    assert [*there.walk("")] == []


def test_a_mark_that_cannot_be_read_is_an_error_and_no_reason_to_go_on() -> None:
    here, there = Stored(SMALL).store, Elsewhere()
    there.create(layout.copied(JOB), b'{"format": 2}')
    assert refused(here, there).code == "FORMAT_NEWER"
    with pytest.raises(StorageError, match="FORMAT_NEWER"):
        identify(JobStorage(there, JOB), 0)
