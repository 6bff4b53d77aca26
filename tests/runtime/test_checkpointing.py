"""Manifests, what they name, what is committed and when, and what is kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from rekindle.errors import ControlError, RekindleError, RestoreError, SinkError, StorageError, one_line
from rekindle.handle import JobHandle
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.reasons import CheckpointKind
from rekindle.runtime.checkpointing import Checkpointing, snapshots_of, write_savepoint
from rekindle.runtime.driven import drive_no_more
from rekindle.runtime.retention import Retention
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store
from rekindle.storage.origin import find_origin
from tests.claims import claim
from tests.runtime.kit import JOB, NEVER, OFTEN, TASK, Faulty, World, ended, until

SUBTASK = SubtaskId(TASK, 0)


def test_each_manifest_names_exactly_the_transactions_since_the_one_before(world: World) -> None:
    world.rows.batch_rows = 1
    world.rows.available, world.rows.ended = 30, False
    world.before["purge"] = Faulty(1_000)  # the records are to be looked at afterwards
    handle = world.start(**OFTEN)

    def several_after_one_more_row() -> bool:  # without new rows there is no new checkpoint
        world.rows.available += 1
        return len(world.manifests()) > 5

    until(several_after_one_more_row)
    world.rows.available, world.rows.ended = world.rows.available + 10, True
    assert ended(handle).state == "FINISHED"

    manifests, records = world.manifests(), world.records()
    assert [manifest.checkpoint for manifest in manifests] == list(range(1, len(manifests) + 1))
    assert {manifest.kind for manifest in manifests} == {"periodic", "final"}
    before = -1
    for manifest in manifests:
        batch = snapshots_of(manifest)[SUBTASK].batch
        for uid in world.sinks:
            named = {one.batch: one.committables for one in manifest.transactions.get(uid, [])}
            rows = {number: record.committables[uid] for number, record in records.items()}
            assert named == {number: rows[number] for number in range(before + 1, batch + 1) if rows[number]}
        assert layout.committed(layout.checkpoint(JOB, manifest.checkpoint)) in world.files()
        before = batch
    assert before == max(records)
    assert world.all_committed()


def test_nothing_is_committed_before_a_manifest_names_it(world: World) -> None:
    world.rows.available, world.rows.ended = 20, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 20)
    assert world.sinks["out"].rows == []

    number = handle.checkpoint().number

    assert sorted(world.sinks["out"].rows) == list(range(18))
    assert world.sinks["out"].permits == [number] == [1]
    handle.cancel()


@pytest.mark.usefixtures("leaving_soon")
def test_a_run_commits_first_what_the_newest_manifest_names_and_no_older_one(world: World) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 9)
    handle.checkpoint()
    hanging = threading.Event()
    world.sinks["second"].before["commit"] = lambda: hanging.wait(30) and None

    def ask() -> None:
        with pytest.raises(ControlError, match="CANCELED_MEANWHILE"):
            handle.checkpoint()

    asking = threading.Thread(target=ask)
    world.rows.available = 20
    until(lambda: world.read() == 20)
    asking.start()
    until(lambda: len(world.manifests()) == 2)
    handle.cancel()
    asking.join(10)
    ended(handle)
    world.sinks["second"].before.clear()
    world.sinks["second"].permits.clear()

    world.rows.ended = True
    assert world.run(**NEVER).state == "FINISHED"

    assert world.sinks["second"].permits[0] == 2
    hanging.set()
    assert world.all_committed()


@pytest.mark.usefixtures("leaving_soon")
def test_two_drivers_can_only_commit_the_same(world: World) -> None:
    """The older one hangs in its commit and wakes after the newer one has gone on."""
    world.rows.available = 20
    hanging, arrived = threading.Event(), threading.Event()

    def hang_once() -> None:
        if not arrived.is_set():
            arrived.set()
            hanging.wait(30)

    world.sinks["second"].before["commit"] = hang_once
    old = world.start(**NEVER)
    until(arrived.is_set)
    newer, storage = partial(claim, world.storage), world.storage
    newer(lambda number: Run(run=number, started_ms=0, lineage=1, host="elsewhere", pid=1, token="x"))
    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        ended(old)
    storage.store.delete(layout.run(JOB, 2))
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()

    hanging.set()

    until(lambda: world.sinks["second"].staged == {})
    assert world.all_committed()


def test_a_commit_needs_its_manifest(world: World) -> None:
    world.driver()
    checkpointing = world.checkpointing()
    with pytest.raises(ControlError, match="CHECKPOINT_FAILED"):
        checkpointing.commit(CommitPermit(7))
    with pytest.raises(ControlError, match="SAVEPOINT_FAILED"):
        checkpointing.seal(7, world.location)


def test_the_sink_reports_prepared_rows_that_were_lost(world: World) -> None:
    world.rows.available = 20
    world.sinks["out"].before["commit"] = world.sinks["out"].staged.clear

    result = world.run(**NEVER, **{"restart.attempts": "0"})

    assert result.error is not None
    assert result.error["code"] == "SINK_STAGING_LOST"
    assert isinstance(SinkError("SINK_STAGING_LOST", **result.error["parameters"]), SinkError)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_driver_that_was_thought_dead_completes_no_checkpoint_whatever_its_number(world: World, number: int) -> None:
    world.rows.available = 5
    _, storage = world.driver()
    old = world.checkpointing()
    drive_no_more(storage, 1)  # as one on a machine that is suspended, which seems to be gone
    world.driver()
    new = world.checkpointing()
    assert storage.checkpoints() == [] and storage.numbers_used() == [1]

    def complete(checkpointing: Checkpointing, checkpoint: int) -> Manifest:
        order = c.WriteManifest(checkpoint=checkpoint, kind=CheckpointKind.MANUAL, triggered_ms=1, finished=())
        checkpointing.order(c.TakeSnapshot(task=SUBTASK, checkpoint=checkpoint, batch=-1))
        assert [taken.task for taken in checkpointing.snapshots()] == [SUBTASK]
        return checkpointing.complete(order)

    with pytest.raises(ControlError, match="its number is taken"):
        complete(old, number)

    assert storage.checkpoints() == [], "it has none"
    assert complete(new, 2) == storage.manifest(2)
    with pytest.raises(ControlError, match="its number is taken"):
        complete(old, 3)
    assert storage.checkpoints() == [2]


@pytest.mark.parametrize("method", ["commit", "close", "finish", "prepare"])
def test_a_sink_that_leaves_python_is_a_sink_that_fails(world: World, method: str) -> None:
    left: list[str] = []

    def leave() -> None:
        if not left:
            left.append(method)
            raise SystemExit("someone's script ends here")

    world.sinks["out"].before[method] = leave
    world.rows.available, world.rows.ended = 9, True
    assert ended(world.start(**NEVER, **{"restart.delay": "10 ms"})).state == "FINISHED"
    assert left
    assert world.all_committed()


def test_a_manifest_that_arrived_and_whose_answer_was_lost_is_a_complete_checkpoint(world: World) -> None:
    tried: list[str] = []

    class WithoutAnAnswer(LocalStore):
        def create(self, path: str, data: bytes) -> bool:
            created = super().create(path, data)
            if path.endswith("manifest.json"):
                tried.append(path)
            if len(tried) == 1:
                raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason="it did not answer in time")
            return created

    world.store = WithoutAnAnswer(world.location)
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 9)
    assert handle.checkpoint().number == 1
    assert len(tried) == 2, "created again, in case it was not forced to the disk"
    assert world.sinks["out"].permits == [1]
    handle.cancel()


def test_numbers_of_checkpoints_that_failed_are_used_up_before_the_next_is_complete(world: World) -> None:
    world.rows.available = 5
    _, storage = world.driver()
    checkpointing = world.checkpointing()
    order = c.WriteManifest(checkpoint=4, kind=CheckpointKind.MANUAL, triggered_ms=1, finished=())
    checkpointing.order(c.TakeSnapshot(task=SUBTASK, checkpoint=4, batch=-1))
    assert [*checkpointing.snapshots()]

    checkpointing.complete(order)

    assert storage.numbers_used() == [1, 2, 3, 4] and storage.checkpoints() == [4]
    assert storage.newest_manifest() == storage.manifest(4) and storage.manifest(3) is None
    with pytest.raises(RestoreError, match="CHECKPOINT_UNKNOWN"):
        find_origin(f"{world.location}/{layout.checkpoint(JOB, 3)}")
    world.retention().discard_older(c.DiscardOlder(keep=1))
    assert storage.numbers_used() == [4]


def test_as_many_checkpoints_are_kept_as_retained_says_and_what_only_older_ones_needed_is_gone(world: World) -> None:
    world.rows.batch_rows = 1
    world.rows.available, world.rows.ended = 30, False
    handle = world.start(**{**OFTEN, "checkpoint.retained": "2"})
    until(lambda: world.read() == 30 and handle.status().checkpoints_completed > 4)
    handle.stop()
    ended(handle)

    until(lambda: len(world.manifests()) == 2)
    oldest, newest = world.manifests()
    assert newest.checkpoint == oldest.checkpoint + 1 > 4
    kept = snapshots_of(oldest)[SUBTASK].batch
    until(lambda: min(world.storage.records(world.folder)) == kept)
    world.rows.ended = True
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_a_damaged_manifest_keeps_what_it_may_pin_and_goes_when_its_time_has_come(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    for _ in range(3):
        handle.checkpoint()
    path = layout.manifest(layout.checkpoint(JOB, 2))
    world.storage.store.replace(path, b"{")
    retention = world.retention()

    with pytest.raises(StorageError, match="OBJECT_CORRUPT"):
        retention.discard_older(c.DiscardOlder(keep=2))
    assert world.storage.checkpoints() == [3, 2]
    retention.discard_older(c.DiscardOlder(keep=1))

    assert world.storage.checkpoints() == [3]
    handle.cancel()


def test_old_runs_go_though_the_place_of_a_claimed_savepoint_is_away_for_good(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    for _ in range(4):
        handle = world.start(**NEVER)
        handle.checkpoint()
        if world.storage.run(4) is None:
            handle.stop()
            ended(handle)
    lineage = world.storage.lineage()
    assert lineage is not None
    claimed = replace(lineage, claimed=True, restored_from="nowhere://savepoint")
    world.storage.replace(layout.lineage(JOB, 1), claimed)

    with pytest.raises(StorageError, match="STORAGE_SCHEME_UNSUPPORTED"):
        world.retention(runs=1).discard_older(c.DiscardOlder(keep=1))

    left = [number for number in range(1, 5) if world.storage.run(number) is not None]
    assert left == [1, 2, 4], "the first has opened the lineage, and the next one shows that it is not the newest"
    handle.cancel()


def test_a_fenced_driver_deletes_nothing_and_warns_of_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**OFTEN)
    for _ in range(4):
        handle.checkpoint()
    handle.stop()
    ended(handle)
    _, storage = world.driver()
    retention = world.retention()
    before = {path for path in world.files() if "/checkpoints/" in path or "/batches/" in path}
    claim(storage, lambda number: Run(run=number, started_ms=0, lineage=1, host="elsewhere", pid=1))

    retention.order(c.DiscardOlder(keep=1))
    retention.close(30)

    assert before <= set(world.files())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_checkpoints_commit_while_old_ones_are_deleted_and_of_several_orders_the_last_is_carried_out(
    world: World,
) -> None:
    go, calls = threading.Event(), list[int]()

    def slow() -> None:
        calls.append(1)
        assert go.wait(30)

    world.before["purge"] = slow
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    numbers = [handle.checkpoint().number]
    until(lambda: len(calls) == 1)
    numbers += [handle.checkpoint().number for _ in range(4)]
    assert numbers == [1, 2, 3, 4, 5] and len(calls) == 1, "none has waited for the deletions of the first"
    go.set()
    until(lambda: world.storage.numbers_used() == [3, 4, 5] and len(calls) == 2)
    handle.stop()
    assert ended(handle).state == "STOPPED"


def test_folders_of_lineages_gone_by_are_looked_for_until_there_are_none(world: World) -> None:
    """A listing of every task for each checkpoint would be paid for each time."""
    looked: list[str] = []

    class Noted(LocalStore):
        def names(self, folder: str) -> list[str]:
            looked.append(folder)
            return super().names(folder)

    world.store = Noted(world.location)
    world.store.create(f"{layout.tasks(JOB)}/{TASK}/0/.DS_Store", b"of another program")
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    looked.clear()
    handle.checkpoint()
    until(lambda: layout.tasks(JOB) in looked)
    looked.clear()
    for number in (2, 3, 4):
        assert handle.checkpoint().number == number
    until(lambda: world.storage.numbers_used() == [2, 3, 4])
    assert layout.tasks(JOB) not in looked
    handle.cancel()


def test_snapshots_of_an_aborted_checkpoint_are_forgotten(world: World) -> None:
    world.driver()
    checkpointing = world.checkpointing()
    checkpointing.order(c.TakeSnapshot(task=SUBTASK, checkpoint=1, batch=-1))
    assert [taken.task for taken in checkpointing.snapshots()] == [SUBTASK]
    checkpointing.abort(1)
    checkpointing.abort(1)
    with pytest.raises(KeyError):
        checkpointing.complete(c.WriteManifest(checkpoint=1, kind=CheckpointKind.MANUAL, triggered_ms=1, finished=()))


@pytest.mark.parametrize("drained", [False, True])
def test_a_savepoint_has_no_state_of_what_finished_by_itself_and_all_of_what_was_drained(
    world: World, tmp_path: Path, drained: bool
) -> None:
    world.rows.available, world.rows.ended = 9, not drained
    handle = world.start(**NEVER)
    if drained:
        until(lambda: world.read() == 9)
        handle.stop(drain=True)
    assert ended(handle).state == ("DRAINED" if drained else "FINISHED")
    copied: list[SubtaskId] = []

    def copy(task: SubtaskId, snapshot: SubtaskSnapshot, target: str) -> int:
        copied.append(task)
        return 0

    path, _ = write_savepoint(world.storage, world.manifests()[-1], open_store(str(tmp_path)), copy, lambda: None)
    assert find_origin(path).manifest.finished_tasks == (TASK,)
    assert copied == ([SUBTASK] if drained else []), "a drain can be undone, and needs it then"


# -- while a savepoint is made ----------------------------------------------------------------------------------------


class Saving(NamedTuple):
    handle: JobHandle
    answer: Future[str]
    go: threading.Event


@pytest.fixture
def saving(world: World, tmp_path: Path) -> Iterator[Saving]:
    """A job of which a savepoint is being made; the copy hangs until it is let go."""
    world.rows.available, world.rows.ended = 9, False
    copying, go = threading.Event(), threading.Event()

    def hang() -> None:
        copying.set()
        go.wait(30)

    world.before["copy"] = hang
    handle = world.start(**{"checkpoint.interval": "0", "checkpoint.retained": "1"})
    until(lambda: world.read() == 9)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(handle.savepoint, str(tmp_path / "saves"))
        assert copying.wait(30)
        yield Saving(handle, answer, go)
        go.set()
        if handle.wait(0) is None:
            handle.cancel()


def test_checkpoints_and_commits_go_on_and_the_savepoint_is_whole(world: World, saving: Saving) -> None:
    for available in (18, 27, 36):
        world.rows.available = available
        until(lambda: world.read() == available)  # noqa: B023
        saving.handle.checkpoint()
    assert sorted(world.sinks["out"].rows) == list(range(34))
    # The one that is saved is kept; the others are deleted beside the loop.
    until(lambda: [manifest.checkpoint for manifest in world.manifests()] == [1, 4])
    kept = world.manifests()[0].tasks[TASK][0].batch
    folder = layout.subtask(JOB, TASK, 0, 1)
    until(lambda: min(world.storage.records(folder)) == kept)

    saving.go.set()
    path = saving.answer.result(30)

    assert Path(path, "manifest.json").exists()
    until(lambda: [manifest.checkpoint for manifest in world.manifests()] == [4])
    until(lambda: min(world.storage.records(folder)) > kept)


def test_a_stop_does_not_wait_for_it(world: World, saving: Saving, tmp_path: Path) -> None:
    assert saving.handle.stop().state == "STOPPED"
    with pytest.raises(RekindleError, match="SAVEPOINT_FAILED"):
        saving.answer.result(30)
    ended(saving.handle)
    saving.go.set()
    assert list(tmp_path.glob("saves/*/manifest.json")) == []


def test_a_stop_with_a_savepoint_of_its_own_waits_for_that(world: World, saving: Saving, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(saving.handle.stop, savepoint=str(tmp_path / "last"))
        until(lambda: len(world.manifests()) == 2)
        assert saving.handle.status().state == "STOPPING"
        assert not stopped.done()
        saving.go.set()
        assert stopped.result(30).state == "STOPPED"
    assert Path(stopped.result().savepoint or "", "manifest.json").exists()
    assert Path(saving.answer.result(30), "manifest.json").exists()


def test_a_manifest_that_is_retained_is_read_once_by_those_who_clear_up(world: World) -> None:
    """A job may retain thousands of checkpoints: if each read all before it, they would slow down over the years."""
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    for _ in range(4):
        handle.checkpoint()
    read: list[str] = []

    class Noted(LocalStore):
        def read(self, path: str) -> bytes:
            read.append(path)
            return super().read(path)

    run, runner = world.storage.latest_run(), world.runner
    assert run is not None and runner is not None
    retention = Retention(JobStorage(Noted(world.location), JOB), run, {SUBTASK: runner})
    retention.discard_older(c.DiscardOlder(keep=3))
    manifests = [path for path in read if path.endswith("manifest.json")]
    read.clear()
    retention.discard_older(c.DiscardOlder(keep=3))

    assert len(manifests) == 3
    assert not any(path.endswith("manifest.json") for path in read)
    assert world.storage.checkpoints() == [4, 3, 2]
    handle.cancel()


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("\nfirst\nsecond", "OSError: first"),
        (
            "Generic error\n   \x1b[31m↳\x1b[0m Unable to copy\n    \x1b[31m↳\x1b[0m No space left\n",
            "OSError: Generic error: Unable to copy: No space left",
        ),
        ("", "OSError"),
    ],
)
def test_an_error_is_shown_in_one_line_with_the_reasons_that_delta_rs_puts_below(said: str, line: str) -> None:
    assert one_line(OSError(said)) == line
