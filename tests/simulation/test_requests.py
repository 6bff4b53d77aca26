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

WARM_UP_S, SECONDS = 600, 600
PRICES = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7}
"""Dollars for a request: S3 Standard, us-east-1."""
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


def counted(
    *,
    checkpoints: str = "0",
    rows_a_second: float = 0.0,
    tasks: int = 1,
    warm_up_s: int = WARM_UP_S,
    seconds: int = SECONDS,
) -> Counted:
    """Live a job of so many tasks, side by side, over a live source; count after the warm-up."""
    uids = [f"count_{number}" for number in range(tasks)]
    plan = Plan(
        graph=JobGraph(
            name="billed",
            sources=(Source(uid="rows", bounded=False, event_time="ts", watermark="4 seconds"),),
            tasks=tuple(Task(uid=uid, inputs=("rows",), event_time="ts") for uid in uids),
            sinks=tuple(Sink(uid=f"out_{uid}", task=uid, kind="Fake") for uid in uids),
        ),
        files={},
        speed=dict.fromkeys(uids, 1_000.0),
        windowed=frozenset(),
        live={"rows": rows_a_second},
        settings={"checkpoint.interval": checkpoints},
    )
    store = BilledStore()
    world, found = World(plan, seed=1, calm=True, store=store), []

    def count() -> None:
        world.scheduler.pause(warm_up_s)
        before, billed = world.storage.status(), Counter(store.bill)
        assert before is not None
        world.scheduler.pause(seconds)
        bill = store.bill - billed
        after = world.storage.status()
        assert after is not None
        done = after.checkpoints_completed - before.checkpoints_completed
        found.append(Counted(bill, after.batches - before.batches, done))
        world.ask(ControlRequest(verb="stop"))

    result = world.run(plan.settings, count)
    assert result is not None and result.state == "STOPPED"
    return found[0]


def test_at_rest_a_driver_reads_a_document_every_five_seconds_and_writes_one_every_thirty() -> None:
    at_rest = counted(checkpoints="30 seconds")
    minutes = SECONDS / 60
    assert at_rest.checkpoints == 0  # there is nothing to add to the last one
    assert at_rest.bill["PUT"] <= 2 * minutes + 2  # the heartbeat; the rates, every ten minutes
    # Every five seconds the bell; with each heartbeat the identity and the run, and whether a newer one has come.
    assert at_rest.bill["GET"] <= (12 + 2 * 3) * minutes + 2
    assert at_rest.bill["LIST"] <= 3  # every five minutes what is asked, every ten the runs
    month = 730 * 3_600 / SECONDS * sum(PRICES[kind] * count for kind, count in at_rest.bill.items())
    assert month < 1


def test_at_work_it_reads_the_bell_every_two_seconds_and_writes_two_documents_every_ten() -> None:
    few, many = counted(rows_a_second=0.1), counted(rows_a_second=0.2)
    assert few.batches >= 50 and many.batches >= 1.6 * few.batches
    more = {kind: (many.bill[kind] - few.bill[kind]) / (many.batches - few.batches) for kind in PRICES}
    # A batch: its record, and who is in force, before and after.
    assert more["PUT"] <= 1.1 and more["LIST"] <= 0.1 and more["GET"] <= 2.1, more
    minutes = SECONDS / 60
    beside = {kind: few.bill[kind] - few.batches * most for kind, most in (("PUT", 1), ("GET", 2), ("LIST", 0))}
    assert beside["PUT"] <= 12 * minutes + 2
    assert beside["GET"] <= (30 + 6 * 4) * minutes + 2
    assert beside["LIST"] <= 4  # every five minutes what is asked, every ten the runs, and the rates that are too old


def _of_a_checkpoint(tasks: int, warm_up_s: int = WARM_UP_S, seconds: int = SECONDS) -> dict[str, float]:
    """Return what a checkpoint adds to the bill of a job that does the same without."""
    both = ("0", "30 seconds")
    without, taken = (
        counted(checkpoints=every, rows_a_second=0.2, tasks=tasks, warm_up_s=warm_up_s, seconds=seconds)
        for every in both
    )
    assert taken.checkpoints == seconds / 30 and without.batches == taken.batches
    return {kind: (taken.bill[kind] - without.bill[kind]) / taken.checkpoints for kind in PRICES}


def test_a_checkpoint_is_three_puts_and_two_lists() -> None:
    more = _of_a_checkpoint(tasks=1)
    # What its outputs leave is looked for every 50 batches of a task, by three lists.
    assert more["PUT"] <= 3.1 and more["LIST"] <= 2.6 and more["GET"] <= 20.3, more


def test_a_checkpoint_of_ten_tasks_is_no_more_puts_and_hardly_more_lists() -> None:
    more = _of_a_checkpoint(tasks=10, warm_up_s=60, seconds=300)
    assert more["PUT"] <= 3.1 and more["LIST"] <= 7.1 and more["GET"] <= 96, more
