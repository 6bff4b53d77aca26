"""Sinks go back with the checkpoint that a start begins from, wherever that start is killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.config import Config
from rekindle.errors import RestoreError, SinkError, StorageError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.leftovers import refuse_sink_ahead
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.start.permissions import Permissions
from rekindle.storage import layout
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result
from rekindle.storage.savepoints import savepoints_in
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.cooperative import Killed
from tests.simulation.world import Plan, World

QUICK = {
    "checkpoint.interval": "1 s",
    "checkpoint.retained": 9,
    "checkpoint.tolerable_failures": 9,
    "input.target_batch_duration": "1 ms",
}
REWIND = Permissions(rewind_sinks=True)


class Unanswering(MemoryStore):
    """A storage that is cut off once: it creates a manifest, and neither says so nor is read right after it."""

    def __init__(self, checkpoint: int) -> None:
        super().__init__()
        self._path = layout.manifest(layout.checkpoint("simulated", checkpoint))
        self._answers = ["create", "read"]

    def create(self, path: str, data: bytes) -> bool:
        """See `Store`."""
        made = super().create(path, data)
        self._lose("create", path)
        return made

    def read(self, path: str) -> bytes:
        """See `Store`."""
        self._lose("read", path)
        return super().read(path)

    def _lose(self, act: str, path: str) -> None:
        if path == self._path and self._answers[:1] == [act]:
            del self._answers[0]
            raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason="no answer")


def new_world(store: MemoryStore | None = None) -> World:
    """A history of 40 files of one row, one a batch; two tasks with a sink each."""
    tasks = (
        Task(uid="first", inputs=("files",), event_time="ts"),
        Task(uid="second", inputs=("first",), event_time="ts"),
    )
    plan = Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="files", bounded=True, event_time="ts"),),
            tasks=tasks,
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
        ),
        files={"files": [[("files", number, 10_000_000 + number)] for number in range(40)]},
        speed={"first": 10, "second": 10},
        windowed=frozenset(),
        live={},
        settings=QUICK,
        file_bytes=10**9,
    )
    return World(plan, 1, calm=True, store=store)


def ends_after(world: World, seconds: float, verb: str = "stop") -> Result | None:
    def ask() -> None:
        world.scheduler.pause(seconds)
        world.ask(ControlRequest(verb=verb))

    return world.run(QUICK, ask)


def committed_with(world: World, upto: int) -> dict[str, Counter[object]]:
    """Sink → the rows of the checkpoints up to a number, by their manifests."""
    found: dict[str, Counter[object]] = {uid: Counter() for uid in world.sinks}
    for manifest in world.storage.manifests():
        for uid, transactions in manifest.transactions.items() if manifest.checkpoint <= upto else ():
            for committable in (one for each in transactions for one in each.committables):
                found[uid] += Counter(map(tuple, world.sinks[uid].committed[committable["attempt"]]))
    return found


def test_rows_after_the_checkpoint_are_taken_back_and_written_once_more() -> None:
    world = new_world()
    ends_after(world, 3)
    number, newest = 2, world.storage.checkpoints()[0]
    before = committed_with(world, number)
    world.permissions = REWIND
    with world.stood_in():
        said = world.launch(Config.of(QUICK)).preview(str(number))
    assert [(one.sink, one.rows > 0, one.checkpoints[-1]) for one in said.rewinds] == [
        ("first_out", True, newest), ("second_out", True, newest),
    ]  # fmt: skip

    seen = []
    for sink in world.sinks.values():
        sink.before["prepare"] = lambda: seen.append(world.shown()) if not seen else None
    result = world.run(QUICK, restore=number)
    assert result is not None and result.state == "FINISHED"
    assert seen[0] == before, "as with that checkpoint"
    assert world.shown() == world.expected() and world.all_read()

    world.permissions = Permissions(sink_ahead=True)
    with pytest.raises(RestoreError, match="CHECKPOINT_REWOUND"):
        world.run(QUICK, restore=number + 1)


def test_a_savepoint_of_a_checkpoint_that_was_taken_back_stays_refused_when_that_is_not_kept(tmp_path: Path) -> None:
    world = new_world()
    ends_after(world, 3)
    newest = world.storage.checkpoints()[0]
    savepoint_at_rest(world.storage, str(tmp_path))
    world.permissions = REWIND
    result = world.run(QUICK, restore=2)
    assert result is not None and result.state == "FINISHED"

    world.storage.forget_checkpoints(range(newest + 1))
    world.permissions = Permissions(sink_ahead=True)
    with pytest.raises(RestoreError, match="CHECKPOINT_REWOUND"):
        world.run(QUICK, restore=savepoints_in(str(tmp_path))[0].path)


def test_a_sink_is_where_it_went_back_to_though_the_checkpoint_taken_back_is_not_kept() -> None:
    world = new_world()
    ends_after(world, 3)
    place, newest = world.storage.manifest(2), world.storage.newest_manifest()
    assert place is not None and newest is not None and min(newest.last_commits.values()) > 2
    with pytest.raises(RestoreError, match="SINK_AHEAD"):
        refuse_sink_ahead(world.storage, place, "2")
    gone_back = {"restored_checkpoint": 2, "rewound_from": newest.checkpoint}
    world.storage.create(layout.lineage("simulated", 2), Lineage(lineage=2, run=2, created_ms=0, **gone_back))
    refuse_sink_ahead(world.storage, place, "2")


def test_where_one_sink_cannot_go_back_no_later_checkpoint_is_begun_from() -> None:
    world = new_world()
    ends_after(world, 3)
    newest = world.storage.checkpoints()[0]
    world.permissions = REWIND

    def refuse() -> None:
        raise RuntimeError("its files were compacted")

    world.sinks["second_out"].before["rewind"] = refuse
    with pytest.raises(SinkError, match="SINK_REWIND_FAILED"):
        world.run(QUICK, restore=2)

    for permissions in (Permissions(), REWIND, Permissions(sink_ahead=True)):
        world.permissions = permissions
        with pytest.raises(RestoreError, match="CHECKPOINT_REWOUND"):
            world.run(QUICK, restore=newest)
    del world.sinks["second_out"].before["rewind"]
    result = world.run(QUICK)
    assert result is not None and result.state == "FINISHED"
    assert world.shown() == world.expected() and world.all_read()


@pytest.mark.parametrize("kill_at", [pytest.param(at, marks=pytest.mark.slow if at % 3 else ()) for at in range(1, 26)])
def test_wherever_it_is_killed_the_same_command_or_a_plain_start_completes_it(
    kill_at: int,
) -> None:
    world = new_world()
    # The newest checkpoint may not be committed: its rows are prepared, or in part there.
    scheduler, steps = world.scheduler, [0]

    def step(name: str) -> None:
        if scheduler.dead:
            raise Killed
        steps[0] += name in counted
        if steps[0] == kill_at:
            steps[0] += 1
            scheduler.kill()
            raise Killed

    counted = {"sink.commit/before"}
    scheduler.step = step  # type: ignore[method-assign]
    steps[0] = kill_at - 5
    assert ends_after(world, 60) is None, "it was killed before a commit"
    # Each step of the start, until its lineage is there.
    counted = {
        f"{name}/{when}"
        for name in ("sink.rewind", "committed.create", "rewound.create", "lineage.create", "record.create")
        for when in ("before", "after")
    }
    steps[0], world.permissions = 0, REWIND
    assert world.run(QUICK, restore=2) is None, "it was killed"
    steps[0] = 1_000
    is_plain = kill_at % 2 == 0
    world.permissions = Permissions() if is_plain else REWIND
    result = world.run(QUICK, restore=None if is_plain else 2)
    assert result is not None and result.state == "FINISHED", result
    assert world.shown() == world.expected() and world.all_read()


def test_what_cannot_go_back_is_refused_by_name_and_nothing_is_touched() -> None:
    world = new_world()
    ends_after(world, 3)
    before, graph = world.shown(), world.plan.graph
    fixed = replace(graph.sinks[1], cannot_rewind="what it wrote cannot be taken back")
    refusals = {
        "SINK_REWIND_UNSUPPORTED.*second_out.*taken back": replace(graph, sinks=(graph.sinks[0], fixed)),
        "SINK_REWIND_UNSUPPORTED.*second_out.*so any more": replace(
            graph, sinks=(graph.sinks[0], replace(graph.sinks[1], uid="other"))
        ),
    }
    world.permissions = REWIND
    for refusal, changed in refusals.items():
        world.plan = replace(world.plan, graph=changed)
        world.sinks.setdefault("other", world.sinks["second_out"])
        with pytest.raises(RestoreError, match=refusal):
            world.run(QUICK, restore=2)
    world.sinks.pop("other")
    world.plan = replace(world.plan, graph=graph)
    world.storage.forget_checkpoints([3])
    with pytest.raises(RestoreError, match=r"REWIND_IMPOSSIBLE.*what checkpoint 3 has committed"):
        world.run(QUICK, restore=2)
    assert world.shown() == before


def test_a_checkpoint_that_failed_although_its_manifest_arrived_is_nothing_to_go_back_to() -> None:
    """The next checkpoint has committed its rows: taken back with that one, they would not come again."""
    world = new_world(Unanswering(2))
    ends_after(world, 4)
    manifests = {manifest.checkpoint: manifest for manifest in world.storage.manifests()}
    failed, next_one = manifests[2], manifests[3]
    for uid, transactions in failed.transactions.items():
        assert transactions and transactions == next_one.transactions[uid][: len(transactions)]
    before = world.shown()
    world.permissions = REWIND
    with pytest.raises(RestoreError, match=r"REWIND_IMPOSSIBLE.*a later checkpoint has committed its rows"):
        world.run(QUICK, restore=2)
    assert world.shown() == before

    with world.stood_in():
        said = world.launch(Config.of(QUICK)).preview("1")
    after = {uid: sum(rows.values()) for uid, rows in before.items()}
    kept = {
        uid: sum(one["rows"] for each in transactions for one in each.committables)
        for uid, transactions in manifests[1].transactions.items()
    }
    assert {one.sink: one.rows for one in said.rewinds} == {uid: after[uid] - kept.get(uid, 0) for uid in after}
    result = world.run(QUICK, restore=1)
    assert result is not None and result.state == "FINISHED"
    assert world.shown() == world.expected() and world.all_read()


def with_lost_rows(*, can_go_back: bool) -> tuple[World, int]:
    """A job whose first sink has lost what was prepared for the newest checkpoint; its number."""
    world = new_world()
    if not can_go_back:
        sinks = tuple(replace(one, cannot_rewind="as a topic of Kafka") for one in world.plan.graph.sinks)
        world.plan = replace(world.plan, graph=replace(world.plan.graph, sinks=sinks))
    ends_after(world, 3)
    sink, lost = world.sinks["first_out"], list[int]()

    def lose() -> None:
        lost[:] = lost or [sink.permits[-1]]
        if sink.permits[-1] in lost:
            sink.staged.clear()

    sink.before["commit"] = lose
    result = ends_after(world, 3)
    assert result is not None and result.error is not None and result.error["code"] == "SINK_STAGING_LOST"
    return world, lost[0]


@pytest.mark.parametrize(
    ("can_go_back", "permissions"),
    [(True, REWIND), (True, Permissions(sink_ahead=True)), (False, Permissions(sink_ahead=True))],
)
def test_the_ways_out_that_are_named_after_prepared_rows_were_lost_lead_out(
    can_go_back: bool, permissions: Permissions
) -> None:
    world, lost = with_lost_rows(can_go_back=can_go_back)
    world.permissions = permissions

    result = world.run(QUICK, restore=lost - 1)

    assert result is not None and result.state == "FINISHED"
    assert world.shown()["first_out"] == world.expected()["first_out"]
    assert not world.expected()["second_out"] - world.shown()["second_out"]
    if permissions.rewind_sinks:  # else what the other sink had committed may come once more
        assert world.shown() == world.expected()
    with pytest.raises(RestoreError, match="CHECKPOINT_REWOUND"):
        world.run(QUICK, restore=lost)
