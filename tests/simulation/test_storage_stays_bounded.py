"""However much goes through a job, what lies in its storage stays under a bound that does not grow."""

from __future__ import annotations

import pytest

from rekindle.channels.inbox import Inbox
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.storage import layout
from tests.simulation.world import Plan, World

CHECKPOINT_S = 3
BATCH_S = 0.1
READS = ((("first", 0), "source"), (("second", 0), "first"))


def two_tasks(files: int) -> Plan:
    """Each file of a source is an admission, and a batch of `first`; `second` reads that, and keeps rows back."""
    tasks = (
        Task(uid="first", inputs=("source",), event_time="ts"),
        Task(uid="second", inputs=("first",), event_time="ts"),
    )
    return Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="source", bounded=True, event_time="ts"),),
            tasks=tasks,
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
        ),
        files={"source": [[("source", number, 10_000_000 + number)] for number in range(files)]},
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


class Watch:
    """Looks at a storage every now and then, and keeps what it saw."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.files: list[int] = []
        self.bytes: list[int] = []

    def look(self) -> None:
        """Count, every half of a checkpoint's interval; what was fixed at the start does not count."""
        while True:
            self._world.scheduler.pause(CHECKPOINT_S / 2)
            sizes = [
                entry.size_bytes
                for entry in self._world.store.walk("simulated")
                if "/sources/source/" not in entry.path
            ]
            self.files.append(len(sizes))
            self.bytes.append(sum(sizes))


def lived(admissions: int) -> Watch:
    world = World(two_tasks(admissions // 2), seed=1, calm=True)
    watch = Watch(world)
    result = world.run(world.plan.settings, watch.look)
    assert result is not None and result.state == "FINISHED", result
    assert world.shown() == world.expected() and world.all_read()
    inboxes = (layout.inbox(layout.subtask("simulated", *one, 1), uid) for one, uid in READS)
    assert sum(Inbox(world.store, folder, 0).last_admitted() + 1 for folder in inboxes) >= admissions
    return watch


def assert_bounded(watch: Watch) -> None:
    quarter = len(watch.files) // 4
    assert quarter > 5
    for counts in (watch.files, watch.bytes):
        early, late = counts[quarter : 2 * quarter], counts[-quarter:]
        assert max(late) <= 1.1 * max(early), (max(early), max(late))


def test_ten_thousand_admissions_leave_no_more_behind_than_a_few() -> None:
    assert_bounded(lived(10_000))


@pytest.mark.slow
def test_a_hundred_thousand_admissions_leave_no_more_behind_than_a_few() -> None:
    assert_bounded(lived(100_000))
