"""`rekindle.upkeep.check` on storages that the real driver has written, in simulated lives."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, ItemsView, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import ControlError
from rekindle.storage import layout, read_layout
from rekindle.storage.codec import encode
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Committed
from rekindle.storage.documents.runs import Identity, Result
from rekindle.storage.documents.sources import SplitRead
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_documents import place
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Entry, Store
from rekindle.testing.memory_store import MemoryStore
from rekindle.upkeep.check import Checked, check_storage, remove_orphans
from rekindle.upkeep.findings import Findings
from rekindle.upkeep.opened import open_all
from rekindle.upkeep.orphans import orphans_of
from tests.cli.kit import beat, start
from tests.simulation.lives import live
from tests.simulation.test_custom_sources_simulated import custom_plan
from tests.simulation.world import World
from tests.upkeep.kit import JOB, Stored, drain, stopped


def check(store: Store) -> Checked:
    return check_storage(store)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_nothing_is_wrong_after_a_life_with_kills(seed: int) -> None:
    found = check(live(seed).store)
    assert [one.name for one in found.jobs] == [JOB]
    assert found.whole, [fault.message for fault in found.jobs[0].faults]


SEEDS = (4, 6, 1, 3, 5, *range(7, 40))
"""Lives, one of which has what is looked for, whatever becomes of lives in time."""

NEEDED: dict[str, Callable[[Stored], list[str]]] = {
    "the lineage": lambda world: paths(world, r".*/lineages/\d+\.json"),
    "the record of a checkpoint's batch": lambda world: [
        layout.batch(layout.subtask(JOB, uid, index, one.lineage), snapshot.batch)
        for one in world.storage.manifests()
        for uid, subtasks in one.tasks.items()
        for index, snapshot in subtasks.items()
        if snapshot.batch >= 0
    ],
    "a frozen list": lambda world: paths(world, r".*/files\.json"),
    "Spark's plan": lambda world: newest(world, r"(.*/spark)/offsets/(\d+)"),
    "Spark's commit": lambda world: newest(world, r"(.*/spark)/commits/(\d+)"),
    # Where there is no other version, nothing says that there ever was a state: Spark's own metadata are not simulated.
    "Spark's state": lambda world: [
        path
        for path in newest(world, r"(.*/state/0/0)/(\d+)\.snapshot")
        if len(world.store.names(path.rpartition("/")[0])) > 1
    ],
}
"""What a checkpoint needs → where it lies."""


def paths(world: Stored, pattern: str) -> list[str]:
    return [entry.path for entry in world.store.walk(JOB) if re.fullmatch(pattern, entry.path)]


def newest(world: Stored, pattern: str) -> list[str]:
    """Of each folder what the newest checkpoint is of: a job that is stopped has it last."""
    manifest = world.storage.newest_manifest()
    assert manifest is not None
    found = []
    for path in paths(world, pattern):
        folder, number = re.fullmatch(pattern, path).groups()  # type: ignore[union-attr]
        _, _, uid, index, lineage, *_ = folder.split("/")
        batch = manifest.tasks[uid][int(index)].batch
        wanted = batch + 1 if "state" in pattern else batch
        if int(number) == wanted and int(lineage) == manifest.lineage and not manifest.needs_no_state(uid):
            found.append(path)
    return found


def test_an_operator_that_has_lost_all_of_its_state_is_missed() -> None:
    world = Stored(3)
    [path, *_] = newest(world, r"(.*/spark)/offsets/(\d+)")
    operator = f"{path.rpartition('/offsets/')[0]}/state/7"
    world.store.create(f"{operator}/_metadata/metadata", b"v1\n{}")
    faults = check(world.store).jobs[0].faults
    assert {(fault.code, fault.path) for fault in faults} == {("OBJECT_MISSING", operator)}


@pytest.mark.parametrize("forgets_status", [False, True])
def test_manifests_that_are_all_gone_are_missed_where_the_job_says_that_it_has_completed_one(
    forgets_status: bool,
) -> None:
    world = Stored(3)
    assert check(world.store).whole
    newest_one = layout.manifest(layout.checkpoint(JOB, world.storage.checkpoints()[0]))
    if forgets_status:
        world.store.delete(layout.status(JOB))
    for path in paths(world, r".*/checkpoints/\d+/manifest\.json"):
        world.store.delete(path)

    faults = check(world.store).jobs[0].faults

    assert ("OBJECT_MISSING", newest_one) in {(fault.code, fault.path) for fault in faults}


def test_a_job_whose_older_checkpoints_were_forgotten_or_that_had_none_misses_nothing() -> None:
    world = Stored(3)
    world.storage.forget_checkpoints(world.storage.checkpoints()[1:])
    assert check(world.store).whole

    new = JobStorage(MemoryStore(), JOB)
    start(new)
    beat(new, latest_checkpoint=None)
    assert check(new.store).whole


@pytest.mark.parametrize("what", NEEDED)
def test_what_a_checkpoint_needs_is_missed_when_it_is_gone_empty_or_cut(what: str) -> None:
    looked = 0
    for seed in SEEDS:
        if looked:
            break
        world = Stored(seed)
        assert check(world.store).whole
        for path in NEEDED[what](world)[:6]:
            data = world.store.read(path)
            for damage in (None, b"", data[: len(data) // 2]):
                if damage == data or (damage and "/state/" in path):
                    continue  # what a snapshot holds is Spark's secret
                world.store.delete(path)
                if damage is not None:
                    world.store.create(path, damage)
                assert not check(world.store).whole, (path, damage)
            world.store.replace(path, data)
            looked += 1
    assert looked


class WrittenDuringTheLook(ForwardingStore):
    """A store in which the first list of the whole job comes too early for a file, or sees it half."""

    def __init__(self, store: Store, path: str, size_bytes: int | None) -> None:
        super().__init__(store)
        self.path, self.size_bytes = path, size_bytes
        self.lists = 0

    def walk(self, folder: str) -> Iterator[Entry]:
        self.lists += folder == layout.job(JOB)
        for entry in super().walk(folder):
            if entry.path != self.path or self.lists > 1 or folder != layout.job(JOB):
                yield entry
            elif self.size_bytes is not None:
                yield entry._replace(size_bytes=self.size_bytes)


@pytest.mark.parametrize(
    ("what", "size_bytes"),
    [
        ("the lineage", None),
        ("a frozen list", None),
        ("Spark's plan", None),
        ("Spark's commit", None),
        ("Spark's state", None),
        ("Spark's plan", 0),
        ("Spark's state", 0),
    ],
)
def test_a_file_that_is_written_during_the_look_is_no_fault(what: str, size_bytes: int | None) -> None:
    """So it is with the state of a job that has ended, where the session lives on and Spark tidies up in it."""
    world, path = next((world, path) for world in map(Stored, SEEDS) for path in NEEDED[what](world))
    store = WrittenDuringTheLook(world.store, path, size_bytes)
    found = check(store)
    assert found.whole
    assert found.every_orphan == check(world.store).every_orphan
    assert store.lists == 2, "the first look has missed nothing"


@pytest.mark.parametrize("what", [*NEEDED, "the log of an inbox"])
def test_a_folder_in_the_place_of_a_file_is_a_fault(what: str, tmp_path: Path) -> None:
    found_in = NEEDED.get(what, lambda world: paths(world, r".*/marks/.*/_spark_metadata/\d+"))
    world, path = next((world, path) for world in map(Stored, SEEDS) for path in found_in(world))
    store = LocalStore(str(tmp_path))
    for entry in world.store.walk(""):
        store.create(entry.path, world.store.read(entry.path))
    store.delete(path)
    (tmp_path / path).mkdir()

    assert {fault.code for fault in check(store).jobs[0].faults} == {"OBJECT_MISSING"}


def test_a_segment_that_is_still_to_be_read_is_missed_and_its_size_compared() -> None:
    looked = 0
    for seed in SEEDS:
        if looked:
            break
        world = Stored(seed, stops=False)
        for path in [one for one in paths(world, r".*/segments/.*") if _is_named(world, one)][:4]:
            data = world.store.read(path)
            before = check(world.store)
            world.store.replace(path, data + b" ")
            larger = check(world.store)
            world.store.delete(path)
            gone = check(world.store)
            world.store.create(path, data)
            assert before.whole
            assert larger.whole == gone.whole, "it is looked for, or not needed any more"
            looked += not gone.whole
    assert looked


def _is_named(world: Stored, path: str) -> bool:
    folder = path.partition("/segments/")[0]
    records = [world.storage.record(folder, batch) for batch in world.storage.records(folder)]
    return any(path == f"{folder}/{one.path}" for record in records if record for one in record.segments)


_COMMITTED = encode(Committed(checkpoint=999, run=1, committed_ms=0))

ORPHANS = {
    f"{JOB}/tasks/t0/0/000099/spark/offsets/0": "lineage",
    f"{JOB}/checkpoints/000000999/committed.json": "manifest",
    f"{JOB}/tasks/t0/0/000001/segments/000000001-0badcafe/part-0.parquet": "record",
    f"{JOB}/tasks/t0/0/000001/marks/s00/rows/000000001-0bad.parquet": "admission",
    f"{JOB}/sources/s00/segments/000001-0bad/part-0.parquet": "list",
    f"{JOB}/tasks/t0/0/000001/spark/offsets/.7.0bad.tmp": "cut short",
    f"_savepoints/{JOB}-000000001-0badca/tasks/t0/0/spark/metadata": "not finished",
    f"_savepoints/{JOB}-adopted-0badcafe/tasks/t0/0/spark/metadata": "not finished",
    "_savepoints/gone-000000001-0badca/disposed.json": "deletion has begun",
    "_savepoints/new-adopted-0badcafe/tasks/t0/0/spark/metadata": "not finished",
}  # fmt: skip


def _bytes(path: str) -> bytes:
    return _COMMITTED if path.endswith("committed.json") else b"12345"


def test_orphans_are_listed_with_their_sizes_and_removed_alone() -> None:
    world = Stored(3)
    remove_orphans(world.store, check(world.store))
    assert check(world.store).every_orphan == []
    before = {entry.path for entry in world.store.walk("")}
    strangers = {f"{JOB}/notes.txt", "holiday/picture.jpg", "_savepoints/other-000000001-0badca/tasks/t0/0/schema.json"}
    for path in (*ORPHANS, *strangers):
        world.store.create(path, _bytes(path))

    found = check(world.store)
    assert found.whole, [fault.message for fault in found.jobs[0].faults]
    orphans = {path: one for one in found.every_orphan for path in ORPHANS if f"{path}/".startswith(f"{one.path}/")}
    assert orphans.keys() == ORPHANS.keys()
    for path, word in ORPHANS.items():
        assert word in orphans[path].reason and orphans[path].size_bytes == len(_bytes(path))

    remove_orphans(world.store, found)
    assert {entry.path for entry in world.store.walk("")} == before | strangers
    assert check(world.store).every_orphan == []


def test_of_a_batch_without_rows_one_attempt_is_its_own_and_of_two_neither_is_needed() -> None:
    world = Stored(3)
    folder = layout.subtask(JOB, "t0", 0, 1)
    batch = world.storage.records(folder)[-1] + 1
    world.storage.create(layout.batch(folder, batch), BatchRecord(batch=batch, offsets_hash="", run=1))
    own, other = (f"{layout.segment_folder(folder, batch, name)}/part-0.parquet" for name in ("0bad", "1bad"))

    def found() -> list[str]:
        sizes = {entry.path: entry.size_bytes for entry in world.store.walk(JOB)}
        return [one.path for one in orphans_of(world.storage, world.storage.manifests(), sizes) if "bad" in one.path]

    world.store.create(own, b"12345")
    assert found() == []
    world.store.create(other, b"12345")
    assert found() == [path.removesuffix("/part-0.parquet") for path in (own, other)]


class Together(MemoryStore):
    """The first two reads wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.met = 2, threading.Barrier(2)

    def read(self, path: str) -> bytes:
        """See `Store`."""
        self.left -= 1
        if self.left >= 0:
            self.met.wait(60)
        return super().read(path)


def test_documents_are_opened_several_at_a_time_and_their_faults_keep_their_order() -> None:
    world, store = Stored(3), Together()
    for entry in world.store.walk(JOB):
        store.create(entry.path, world.store.read(entry.path))
    records = paths(world, r".*/batches/\d+\.json")
    for path in records:
        store.replace(path, b"{")

    found = Findings(JOB)
    open_all(store, (entry.path for entry in store.walk(JOB)), found)
    assert [fault.path for fault in found.faults] == [place(store, path) for path in records]


class Walked(dict[str, int]):
    """Counts how often all of it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def items(self) -> ItemsView[str, int]:
        """See `dict`."""
        self.times += 1
        return super().items()


def test_many_orphans_do_not_each_go_through_all_files() -> None:
    def walks(orphans: int) -> int:
        world = Stored(3)
        for number in range(orphans):
            for name in (f"{number:09d}-0badcafe", f"{number:09d}-0badcafe-more"):
                world.store.create(f"{JOB}/tasks/t0/0/000001/segments/{name}/a.parquet", b"12345")
        sizes = Walked({entry.path: entry.size_bytes for entry in world.store.walk(JOB)})
        found = [one for one in orphans_of(world.storage, world.storage.manifests(), sizes) if "0badcafe" in one.path]
        assert len(found) == 2 * orphans and {one.size_bytes for one in found} == {5}
        return sizes.times

    assert walks(3) == walks(60)


def test_what_has_become_a_job_or_a_savepoint_since_the_look_is_not_removed() -> None:
    store = Stored(3).store
    saved, copied = f"_savepoints/{JOB}-000000001-0badca", "copied"
    for path in (f"{saved}/schema.json", layout.copied(copied), f"{copied}/schema.json"):
        store.create(path, b"12345")
    found = check(store)
    assert {saved, copied} <= {orphan.path for orphan in found.orphans}
    store.create(layout.manifest(saved), b"12345")
    store.create(layout.identity(copied), b"12345")

    removed = remove_orphans(store, found)

    assert not {saved, copied} & {orphan.path for orphan in removed}
    assert all(store.exists(f"{folder}/schema.json") for folder in (saved, copied))


def test_orphans_of_a_job_that_has_run_since_the_look_are_not_removed() -> None:
    store = Stored(3).store
    for path in ORPHANS:
        store.create(path, _bytes(path))
    found, storage = check(store), JobStorage(store, JOB)
    latest = storage.latest_run()
    assert latest is not None
    storage.fence.claim(replace(latest, run=latest.run + 1, token="another"))
    storage.record_result(Result(run=latest.run + 1, state="FAILED", ended_ms=0))

    with pytest.raises(ControlError, match="JOB_CHANGED"):
        remove_orphans(store, found)

    assert all(store.exists(path) for path in ORPHANS)


def test_orphans_of_a_job_that_starts_during_the_repair_stay() -> None:
    """It may take the number of a checkpoint that has no manifest."""
    store = Stored(3).store
    numbered = [layout.committed(layout.checkpoint(JOB, number)) for number in (998, 999)]
    for path in numbered:
        store.create(path, _COMMITTED)

    class Started(ForwardingStore):
        """A store in which the job starts after the first deletion."""

        def delete_tree(self, folder: str) -> None:
            super().delete_tree(folder)
            storage = JobStorage(store, JOB)
            if (latest := storage.latest_run()) is not None:
                storage.fence.claim(replace(latest, run=latest.run + 1, token="another"))

    removed = remove_orphans(Started(store), check(store))

    assert len(removed) == 1
    assert not store.exists(f"{removed[0].path}/committed.json")
    assert [store.exists(path) for path in numbered].count(True) >= 1


def test_the_job_goes_on_and_ends_well_after_a_repair() -> None:
    world = stopped(1)
    remove_orphans(world.store, check(world.store))
    drain(world)


def test_of_a_job_that_runs_no_orphan_is_looked_for_and_none_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Stored(3)
    for path in ORPHANS:
        world.store.create(path, _bytes(path))
    found = check(world.store)
    monkeypatch.setattr(JobStorage, "state", lambda storage, earlier=None: "RUNNING")
    with pytest.raises(ControlError, match="JOB_RUNNING"):
        remove_orphans(world.store, found)
    assert all(world.store.exists(path) for path in ORPHANS)
    running = check(world.store)
    assert running.whole
    others = ["_savepoints/gone-000000001-0badca", "_savepoints/new-adopted-0badcafe"]
    assert [one.path for one in running.every_orphan] == others


def test_a_document_of_a_newer_version_is_a_fault_that_says_so() -> None:
    store = MemoryStore()
    newer = encode(Identity(job="bids", created_ms=0, format=2))
    store.create("bids/job.json", newer)
    [found] = check(store).jobs
    assert {fault.code for fault in found.faults} == {"FORMAT_NEWER"}


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_wrong_after_a_life_of_a_custom_source(seed: int) -> None:
    found = check(live(seed, plan=custom_plan).store)
    assert found.whole, [fault.message for fault in found.jobs[0].faults]


def killed_while_it_reads(seed: int) -> tuple[World, list[str]]:
    """A job whose driver was killed, and the rows that it had staged and that no record covers."""
    world = World(custom_plan(random.Random(seed), 1), seed)

    def die() -> None:
        world.scheduler.pause(2)
        world.scheduler.kill()

    world.run(world.plan.settings, die)
    staged = []
    for index in range(world.plan.graph.task("reads").parallelism):
        folder = layout.subtask(JOB, "reads", index, 1)
        reads = read_layout.reads(folder, "custom")
        record = world.storage.last_record(folder)
        for number in range(record.inputs["custom"].reads if record else 0, 9):
            read = world.storage.read(read_layout.split_read(reads, number), SplitRead)
            staged += [f"{reads}/{file.path}" for file in read.files] if read else []
    return world, staged


def test_rows_that_were_read_and_are_gone_are_missed_and_those_that_no_read_names_are_orphans() -> None:
    world, staged = next(found for seed in range(40) if (found := killed_while_it_reads(seed))[1])
    assert check(world.store).whole
    attempt = f"{staged[0].rsplit('/reads/', 1)[0]}/reads/custom/000000009-000001-dead"
    world.store.replace(f"{attempt}/part-0.parquet", b"rows")
    sizes = {entry.path: entry.size_bytes for entry in world.store.walk("")}
    orphans = orphans_of(world.storage, world.storage.manifests(), sizes)
    assert [one.path for one in orphans if "/reads/custom/" in one.path] == [attempt]

    world.store.delete(staged[0])

    faults = check(world.store).jobs[0].faults
    assert any(staged[0] in fault.message for fault in faults), faults
