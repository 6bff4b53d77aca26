"""A job's checkpoints, read from its storage before it deletes them; and when a shadow is stopped."""

from __future__ import annotations

import json

import pytest

from rekindle.errors import ControlError
from rekindle.progress.file_streams import read_file_stream
from rekindle.shadowing.following import Following, standings
from rekindle.shadowing.plan import ShadowPlan, comparable
from rekindle.shadowing.watching import ShadowWatch
from rekindle.sinks import Foreach, Parquet
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import Committed, Manifest, Rewound, SubtaskSnapshot, Transaction
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import SinkDescription
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore


def made(checkpoint: int, lineage: int = 1, offset: int = 0, batches: tuple[int, ...] = ()) -> Manifest:
    position = InputPosition(offset=offset, sources=(0,))
    out = [Transaction(task="t", subtask=0, batch=batch, committables=[{}]) for batch in batches]
    return Manifest(
        checkpoint=checkpoint, job="j", kind="periodic", run=1, lineage=lineage, triggered_ms=0, completed_ms=0,
        graph={"t": ["s"]}, tasks={"t": {0: SubtaskSnapshot(batch=1, inputs={"s": position})}},
        transactions={"out": out} if out else {},
    )  # fmt: skip


class World:
    def __init__(self) -> None:
        self.storage = JobStorage(MemoryStore(), "j")

    def complete(
        self, number: int, *, commit: bool = True, lineage: int = 1, offset: int = 0, batches: tuple[int, ...] = ()
    ) -> None:
        folder = layout.checkpoint("j", number)
        self.storage.create(layout.manifest(folder), made(number, lineage, offset, batches))
        if commit:
            self.storage.create(layout.committed(folder), Committed(checkpoint=number, run=1, committed_ms=0))

    def followed(self) -> Following:
        return Following(storage=self.storage, last=1)


def numbers(manifests: list[Manifest]) -> list[int]:
    return [one.checkpoint for one in manifests]


def test_checkpoints_stay_known_when_the_job_has_deleted_them() -> None:
    world = World()
    following = world.followed()
    for number in (1, 2, 3):
        world.complete(number)
    following.look()
    world.storage.forget_checkpoints([1, 2])
    world.complete(4, commit=False)
    following.look()
    assert numbers(following.whole()) == [2, 3], "the rows of the newest may not be in the sinks yet"
    world.storage.create(layout.committed(layout.checkpoint("j", 4)), Committed(checkpoint=4, run=1, committed_ms=0))
    assert numbers(following.whole()) == [2, 3, 4]


def test_the_rows_of_one_that_failed_although_its_manifest_arrived_are_those_of_the_next() -> None:
    world = World()
    world.complete(2, batches=(4,), commit=False)
    world.complete(3, batches=(4, 5))
    following = world.followed()
    following.look()
    assert numbers(following.whole()) == [3]


def test_one_that_was_deleted_unseen_makes_the_job_incomparable() -> None:
    world = World()
    following = world.followed()
    for number in (2, 3, 4):
        world.complete(number)
    world.storage.forget_checkpoints([2])
    following.look()
    assert following.lost == 2
    with pytest.raises(ControlError) as unknown:
        following.line(made(1))
    assert unknown.value.code == "SHADOW_ORIGINAL_UNKNOWN" and "2" in unknown.value.message


def test_a_number_that_no_checkpoint_has_is_no_gap() -> None:
    world = World()
    following = world.followed()
    world.complete(2)
    world.storage.use_up(3, 2)
    world.complete(4)
    following.look()
    assert numbers(following.line(made(1))) == [2, 4]


def test_a_job_that_went_back_with_its_sinks_has_what_it_committed_since() -> None:
    world = World()
    following = world.followed()
    for number in (2, 3):
        world.complete(number)
    world.storage.create(layout.rewound(layout.checkpoint("j", 3)), Rewound(checkpoint=3, run=2, to=2, rewound_ms=0))
    document = Lineage(lineage=2, run=2, created_ms=0, restored_from="x", restored_checkpoint=2)
    world.storage.create(layout.lineage("j", 2), document)
    world.complete(4, lineage=2)
    following.look()
    assert numbers(following.line(made(1))) == [2, 4]


def test_a_job_that_was_started_from_elsewhere_is_not_comparable() -> None:
    world = World()
    following = world.followed()
    world.complete(2)
    world.complete(3, lineage=7)
    following.look()
    with pytest.raises(ControlError) as unknown:
        following.line(made(1))
    assert "checkpoint 3" in unknown.value.message


def test_the_log_of_a_stream_of_files_is_read_whole_and_under_the_tasks_new_name() -> None:
    world = World()
    log = f"{layout.spark_progress_dir(layout.subtask('j', 't', 0, 1))}/sources/0"

    def entry(path: str, batch: int) -> str:
        return json.dumps({"path": path, "timestamp": 1, "batchId": batch})

    world.storage.store.create(f"{log}/8", "\n".join(["v1", entry("old", 8)]).encode())
    world.storage.store.create(f"{log}/9.compact", "\n".join(["v1", entry("a", 0), entry("old", 8)]).encode())
    world.storage.store.create(f"{log}/10", "\n".join(["v1", entry("b", 10)]).encode())
    [standing] = standings(world.storage, [made(2)], {"t": "renamed"})
    assert standing.logs == {("renamed", 0): {"a": 0, "old": 8, "b": 10}}
    assert standing.manifest.tasks.keys() == {"renamed"}


def test_what_is_no_log_of_files_has_none() -> None:
    store = MemoryStore()
    store.create("sources/0/0", b'v1\n{"topic":{"0":1}}')
    assert read_file_stream(store, "sources/0") is None
    assert read_file_stream(store, "nowhere") is None


def test_sinks_are_compared_where_both_have_them_and_they_can_be_read() -> None:
    kinds = {"out": "Parquet", "call": "Foreach", "old": "Parquet", "moved": "Delta"}
    described = [SinkDescription(uid=uid, task="t", kind=kind) for uid, kind in kinds.items()]
    sinks = {"out": Parquet("x"), "call": Foreach(print), "new": Parquet("y"), "moved": Parquet("z")}
    found = comparable(sinks, described)
    assert found.pop("out") is None
    assert found == {
        "call": "what such a sink has written cannot be read back",
        "new": "the original does not have this sink",
        "moved": "the original writes to Delta, the new code to Parquet",
        "old": "the new code does not have this sink",
    }


class Shadow:
    def stop(self) -> object:
        raise AssertionError("nothing stops it here")


def watch(ours: World, theirs: World, *, for_s: float | None = None, until: int | None = None) -> ShadowWatch:
    plan = ShadowPlan(origin="x", since=made(1), original=ours.storage, names={}, unseen={})
    watched = ShadowWatch(plan, ours.followed(), Following(storage=theirs.storage, last=0), Shadow(), for_s=for_s,
                    until_checkpoint=until)  # fmt: skip
    watched.look()
    return watched


def test_a_shadow_is_stopped_once_it_has_what_the_job_had_at_a_checkpoint() -> None:
    ours, theirs = World(), World()
    ours.complete(2, offset=5)
    theirs.complete(1, offset=4)
    assert not watch(ours, theirs, until=2).is_time(9e9)
    theirs.complete(2, offset=6)
    assert watch(ours, theirs, until=2).is_time(0)
    assert not watch(ours, theirs, until=3).is_time(9e9), "the job has not come there yet"


def test_a_shadow_is_stopped_when_its_time_is_up_or_nothing_could_be_compared_any_more() -> None:
    ours, theirs = World(), World()
    assert not watch(ours, theirs).is_time(9e9)
    assert not watch(ours, theirs, for_s=10).is_time(9)
    assert watch(ours, theirs, for_s=10).is_time(10)
    ours.complete(3)
    assert watch(ours, theirs).is_time(0)


def test_a_shadow_is_stopped_also_where_the_job_has_no_checkpoint_of_that_number() -> None:
    ours, theirs = World(), World()
    ours.complete(2, offset=5)
    ours.storage.use_up(3, 1)
    assert not watch(ours, theirs, until=3).is_time(0), "the shadow has read nothing yet"
    theirs.complete(1, offset=5)
    assert watch(ours, theirs, until=3).is_time(0), "3 failed"
    assert watch(ours, theirs, until=1).is_time(0), "1 is where it began"

    ours.complete(4, offset=9, commit=False)
    theirs.complete(2, offset=9)
    assert not watch(ours, theirs, until=4).is_time(0), "its rows may not be in the sinks yet"
    ours.complete(5, offset=9, lineage=7)
    assert watch(ours, theirs, until=5).is_time(0), "it was started from elsewhere"
