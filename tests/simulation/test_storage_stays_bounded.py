"""However much goes through a job, what lies in its storage stays under a bound that does not grow."""

from __future__ import annotations

import pytest

from rekindle.channels.inbox import Inbox
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.world import Plan, World

CHECKPOINT_S = 3
BATCH_S = 0.1
READS = ((("first", 0), "source"), (("second", 0), "first"))


def two_tasks(files: int, *, rows_every: int | None = 1, event_time: str | None = "ts") -> Plan:
    """Each file of a source is an admission, and a batch of `first`; `second` reads that, and keeps rows back.

    Args:
        rows_every: one file of so many has a row; None: none has.
        event_time: of `first`: without one its reader is not even given the time.
    """
    tasks = (
        Task(uid="first", inputs=("source",), event_time=event_time),
        Task(uid="second", inputs=("first",), event_time="ts" if event_time else None),
    )
    return Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="source", bounded=True, event_time="ts"),),
            tasks=tasks,
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
        ),
        files={
            "source": [
                [("source", number, 10_000_000 + number)] if rows_every and number % rows_every == 0 else []
                for number in range(files)
            ]
        },
        speed={"first": 1 / BATCH_S, "second": 1 / BATCH_S},
        windowed=frozenset(),
        live={},
        settings={
            "checkpoint.interval": f"{CHECKPOINT_S} s",
            "checkpoint.retained": 1,
            "input.target_batch_duration": "1 ms",
        },
        file_bytes=10**9,  # one is more than enough for a batch
    )


class CountingStore(MemoryStore):
    """Counts what is read of batch records."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, path: str) -> bytes:
        """See `Store`."""
        self.reads += "/batches/" in path
        return super().read(path)


class Watch:
    """Looks at a storage every now and then, and keeps what it saw."""

    def __init__(self, world: World, store: CountingStore) -> None:
        self._world = world
        self._store = store
        self.files: list[int] = []
        self.bytes: list[int] = []
        #: since the look before
        self.reads: list[int] = []
        self.admissions = 0

    def look(self) -> None:
        """Count, every half of a checkpoint's interval; neither what was fixed at the start nor what has room for so
        many checkpoints and rows, and is full some day: the status, and the history (`tests/history`)."""
        while True:
            self._world.scheduler.pause(CHECKPOINT_S / 2)
            sizes = [
                entry.size_bytes
                for entry in self._world.store.walk("simulated")
                if "/sources/source/" not in entry.path
                and entry.path != layout.status("simulated")
                and not entry.path.startswith(layout.history("simulated", ""))
            ]
            self.files.append(len(sizes))
            self.bytes.append(sum(sizes))
            self.reads.append(self._store.reads)
            self._store.reads = 0


def lived(plan: Plan, *, restarts: int = 0) -> Watch:
    """Live the job of a plan, stopped so often on its way."""
    store = CountingStore()
    world = World(plan, seed=1, calm=True, store=store)
    watch = Watch(world, store)

    def stop() -> None:
        world.scheduler.spawn(watch.look, "watch")
        world.scheduler.pause(5 * CHECKPOINT_S)
        world.ask(ControlRequest(verb="stop"))

    states = []
    for number in range(restarts + 1):
        result = world.run(world.plan.settings, stop if number < restarts else watch.look)
        states.append(result.state if result else None)
    assert states == ["STOPPED"] * restarts + ["FINISHED"]
    assert world.shown() == world.expected() and world.all_read()
    watch.admissions = sum(
        Inbox(store, layout.inbox(layout.subtask("simulated", *one, 1), uid), 0).last_admitted() + 1
        for one, uid in READS
    )
    return watch


def assert_bounded(watch: Watch) -> None:
    quarter = len(watch.files) // 4
    assert quarter > 5
    for counts in (watch.files, watch.bytes, watch.reads):
        early, late = counts[quarter : 2 * quarter], counts[-quarter:]
        assert max(late) <= 1.1 * max(early), (max(early), max(late))


def test_five_thousand_admissions_leave_no_more_behind_than_a_few() -> None:
    watch = lived(two_tasks(2_500))
    assert watch.admissions >= 5_000
    assert_bounded(watch)


@pytest.mark.parametrize(("rows_every", "event_time"), [(None, None), (None, "ts"), (300, None)])
def test_a_channel_with_hardly_anything_in_it_leaves_no_more_behind(
    rows_every: int | None, event_time: str | None
) -> None:
    watch = lived(two_tasks(1_200, rows_every=rows_every, event_time=event_time), restarts=1)
    assert watch.admissions <= 1_200 + 4 + 1, "its reader is given nothing to read"
    assert_bounded(watch)


@pytest.mark.slow
def test_a_hundred_thousand_admissions_leave_no_more_behind_than_a_few() -> None:
    watch = lived(two_tasks(50_000))
    assert watch.admissions >= 100_000
    assert_bounded(watch)
