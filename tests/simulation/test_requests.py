"""What a driver asks of a store in which each look is paid for: at rest, for a checkpoint, for a batch.

Rekindle's own requests; `make bench-requests` counts those of Spark too. `docs/object-storage.md` has these figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.storage.port import Entry
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.world import Plan, World

WARM_UP_S, SECONDS = 200, 600
OF_SPARK = ("/spark/", "/_spark_metadata")


class BilledStore(MemoryStore):
    """A store that calls each request what the bill of a bucket calls it; those of Spark, by their paths, are none."""

    def __init__(self) -> None:
        super().__init__()
        self.bill: Counter[str] = Counter()

    @property
    def pace(self) -> int:
        return 10

    def _add(self, kind: str, path: str) -> None:
        if not any(part in f"{path}/" for part in OF_SPARK):
            self.bill[kind] += 1

    def read(self, path: str) -> bytes:
        self._add("GET", path)
        return super().read(path)

    def open(self, path: str) -> BinaryIO:
        self._add("GET", path)
        return super().open(path)

    def exists(self, path: str) -> bool:
        self._add("GET", path)
        return super().exists(path)

    def create(self, path: str, data: bytes) -> bool:
        self._add("PUT", path)
        return super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._add("PUT", path)
        super().replace(path, data)

    def names(self, folder: str) -> list[str]:
        self._add("LIST", folder)
        return super().names(folder)

    def walk(self, folder: str) -> Iterator[Entry]:
        self._add("LIST", folder)
        return super().walk(folder)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        self._add("LIST", folder)
        super().delete_trees(folder, names)

    def delete_many(self, paths: Sequence[str]) -> None:
        super().delete_many(paths)  # free, as is to delete one


class Counted(NamedTuple):
    """What was asked in ten minutes, and what was done."""

    bill: Counter[str]
    batches: int
    checkpoints: int


def counted(*, checkpoints: str = "0", rows_a_second: float = 0.0) -> Counted:
    """Live a job of one task over a live source."""
    plan = Plan(
        graph=JobGraph(
            name="billed",
            sources=(Source(uid="rows", bounded=False, event_time="ts", watermark="4 seconds"),),
            tasks=(Task(uid="count", inputs=("rows",), event_time="ts"),),
            sinks=(Sink(uid="out", task="count", kind="Fake"),),
        ),
        files={},
        speed={"count": 1_000.0},
        windowed=frozenset(),
        live={"rows": rows_a_second},
        settings={"checkpoint.interval": checkpoints},
    )
    store = BilledStore()
    world, found = World(plan, seed=1, calm=True, store=store), []

    def count() -> None:
        world.scheduler.pause(WARM_UP_S)
        before, billed = world.storage.status(), Counter(store.bill)
        assert before is not None
        world.scheduler.pause(SECONDS)
        bill = store.bill - billed
        after = world.storage.status()
        assert after is not None
        done = after.checkpoints_completed - before.checkpoints_completed
        found.append(Counted(bill, after.batches - before.batches, done))
        world.ask(ControlRequest(verb="stop"))

    result = world.run(plan.settings, count)
    assert result is not None and result.state == "STOPPED"
    return found[0]


def test_at_rest_a_driver_reads_two_documents_every_two_seconds_and_lists_almost_nothing() -> None:
    at_rest = counted()
    minutes = SECONDS / 60
    assert at_rest.bill["PUT"] <= 12 * minutes + 2  # the heartbeat and the rates, every ten seconds
    # Every two seconds whether a newer run has come, and the bell; with each heartbeat that the job is there.
    assert at_rest.bill["GET"] <= 85 * minutes
    assert at_rest.bill["LIST"] <= minutes + 3


def test_a_checkpoint_is_three_puts_and_three_lists() -> None:
    at_rest, taken = counted(), counted(checkpoints="30 seconds")
    assert taken.checkpoints == SECONDS / 30
    more = {kind: (taken.bill[kind] - at_rest.bill[kind]) / taken.checkpoints for kind in ("PUT", "LIST", "GET")}
    assert more["PUT"] <= 3.1 and more["LIST"] <= 3.1 and more["GET"] <= 14.1, more


def test_a_batch_is_one_put_and_two_gets() -> None:
    at_rest, busy = counted(), counted(rows_a_second=0.1)
    assert busy.batches >= 50
    more = {kind: (busy.bill[kind] - at_rest.bill[kind]) / busy.batches for kind in ("PUT", "LIST", "GET")}
    assert more["PUT"] <= 1.1 and more["LIST"] <= 0.1 and more["GET"] <= 2.1, more
