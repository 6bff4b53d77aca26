"""A job's whole life on the real driver and the real channels, over a storage in memory and a Spark that is not there.

What is real: the start of a run, the driver and its workers, the protocol, the batch protocol, inboxes, feeds,
admission sizes, watermark rows, the clock, back-pressure, records, checkpoints, and what is deleted after them. What
stands in: Spark (`fake_spark`), threads and time (`cooperative`), the sinks, and the storage's disk.

A life has a time of turmoil, in which its driver is killed between any two writes, queries die, and somebody asks for
checkpoints and stops; then calm, in which it must come to its end. Afterwards its sinks must show each row as often as
there are ways to them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import patch

from pyspark.sql import types as T

import rekindle.channels.splits
import rekindle.runtime.driven
import rekindle.runtime.driver
import rekindle.spark.inputs.custom
import rekindle.spark.inputs.frames
import rekindle.spark.output.segments
import rekindle.spark.query.kept_batches
import rekindle.spark.query.query
import rekindle.spark.streaming.assembly
import rekindle.spark.streaming.batch_protocol
import rekindle.spark.streaming.flushing
import rekindle.start.decide
from rekindle.channels.marks import UNORDERED_DELAY
from rekindle.channels.splits import Splits
from rekindle.config import Config
from rekindle.errors import ControlError, RekindleError, RestoreError, one_line
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.progress.renumbering import Numbers
from rekindle.protocol.custom_splits import Split
from rekindle.protocol.operator_state import OperatorState
from rekindle.runtime.client import ControlRequest, send
from rekindle.runtime.definition import Definition, RunContext, SourceSpec
from rekindle.runtime.driver import Driver
from rekindle.runtime.examining import Examination, Examined
from rekindle.runtime.ports import Subtasks
from rekindle.runtime.steps import Steps
from rekindle.session.settings import BATCHES_KEPT
from rekindle.sinks.writing import WrittenFile
from rekindle.sources import Files, SplitSource, Stream
from rekindle.spark.inputs.event_times import EventTimeStats
from rekindle.spark.inputs.split_reader import Reads
from rekindle.spark.plans.leftovers import Leftovers
from rekindle.spark.streaming.assembly import Assembly
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.start.previews import StartPreview
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.sources import FrozenFile, FrozenFiles, SplitRead
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.port import Store
from rekindle.testing.fake_engine import FakeLifeline
from rekindle.testing.fake_sink import FakeSink
from rekindle.testing.memory_store import MemoryStore
from rekindle.testing.volatile_store import VolatileStore
from tests.simulation.cooperative import Process, Scheduler, Strand, Threading
from tests.simulation.fake_spark import (
    ENGINE,
    BatchFrame,
    Engine,
    Frame,
    Leaf,
    Row,
    Writer,
    bind,
    live_row,
    path_of,
    queries,
)

DELAY_MS = {UNORDERED_DELAY: 3_000_000 * 86_400_000}
LIVE_DELAY = "4 seconds"
DELAY_MS[LIVE_DELAY] = 4_000
IDLE_AFTER = "5 seconds"
"""Longer than a live source that has any rows goes without one: whatever else happens, it is not idle."""


class DriverDisk(MemoryStore):
    """A folder of a driver's own, which Spark can read too."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def uri(self, path: str) -> str:
        """See `Store`."""
        return f"memory:///{self._name}/{path}"


class FreezingStore(MemoryStore):
    """A storage at whose door the process may be frozen: after it has looked at the fence, before the act.

    Args:
        pace: see `Store`.
    """

    def __init__(self, scheduler: Scheduler, pace: int = 1) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._pace = pace
        self._created: set[str] = set()
        #: what was created, deleted, and created again
        self.created_again: set[str] = set()
        #: folders that are there before the first file in them, as in a directory
        self._empty: set[str] = set()

    @property
    def pace(self) -> int:
        """See `Store`."""
        return self._pace

    @property
    def boot_id(self) -> str:
        """See `Store`."""
        return self._scheduler.process.boot_id

    def create(self, path: str, data: bytes) -> bool:
        """See `Store`."""
        folder = path.rpartition("/")[0]
        if self._pace == 1 and not super().exists(folder):
            self._empty.add(folder)
        self._scheduler.may_freeze(path)
        is_new = super().create(path, data)
        self._empty.discard(folder)
        if is_new:
            (self.created_again if path in self._created else self._created).add(path)
        return is_new

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        found = super().names(folder)
        if not self._empty:
            return found
        start = len(folder) + 1 if folder else 0
        return sorted({*found, *(one[start:].split("/", 1)[0] for one in self._empty if one.startswith(folder + "/"))})

    def replace(self, path: str, data: bytes) -> None:
        """See `Store`."""
        self._scheduler.may_freeze(path)
        super().replace(path, data)

    def delete(self, path: str) -> None:
        """See `Store`."""
        self._scheduler.may_freeze(path)
        super().delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """See `Store`."""
        self._scheduler.may_freeze(" ".join(paths))
        super().delete_many(paths)

    def delete_tree(self, folder: str) -> None:
        """See `Store`."""
        self._scheduler.may_freeze(folder)
        self._empty = {one for one in self._empty if not f"{one}/".startswith(f"{folder}/")}
        super().delete_tree(folder)


class Conf(dict[str, str]):
    """The settings of a session."""

    set = dict.__setitem__

    def unset(self, key: str) -> None:
        """See Spark."""
        self.pop(key, None)


class RowSink(FakeSink):
    """Takes what a batch evaluates to."""

    def prepare(self, df: Any, batch: Any) -> Any:
        """See `TwoPhaseSink`."""
        return super().prepare(df.evaluate() if isinstance(df, BatchFrame) else df, batch)


@dataclass(frozen=True)
class CustomPlan:
    """A custom source to be lived."""

    #: split → its rows, in order
    splits: Mapping[str, list[Row]]
    bounded: bool
    #: how many of them there are at first; the others are found one by one, each time that it is asked
    at_first: int
    #: of what it keeps itself; empty: it keeps nothing
    kind: Literal["list", "union", "broadcast", ""] = ""
    #: True: a read that has nothing returns a DataFrame without rows, not None
    empty_frames: bool = False


@dataclass(frozen=True)
class Plan:
    """A job to be lived."""

    graph: JobGraph
    #: bounded source → its files, each a list of rows
    files: Mapping[str, list[list[Row]]]
    #: task → rows a second that it gets through
    speed: Mapping[str, float]
    #: tasks that hold rows back, as windows do
    windowed: frozenset[str]
    #: live source → rows a second
    live: Mapping[str, float]
    settings: Mapping[str, object] = field(default_factory=dict)
    #: custom source → its splits
    custom: Mapping[str, CustomPlan] = field(default_factory=dict)
    #: size of a file without rows, as Spark's listing would tell
    file_bytes: int = 50

    @property
    def is_endless(self) -> bool:
        """Whether it ends by a drain alone."""
        return bool(self.live) or any(not custom.bounded for custom in self.custom.values())


def random_plan(chance: random.Random, tasks_at_most: int = 4) -> Plan:
    """One to four tasks, or fewer; each reads sources, some of the tasks before it, or both."""
    tasks: list[Task] = []
    sources: list[Source] = []
    # Where most files are empty, so are most batches of the channels.
    most_rows = chance.choice(((6,), (6,), (0, 0, 0, 0, 0, 2)))
    for number in range(min(chance.choice((1, 2, 2, 3, 3, 4)), tasks_at_most)):
        producers = [task.uid for task in tasks if chance.random() < 0.6]
        own = [f"s{number}{index}" for index in range(chance.randint(0 if producers else 1, 2))]
        for uid in own:
            bounded = chance.random() < 0.7
            idle_after = None if bounded else chance.choice((None, None, IDLE_AFTER))
            delay = None if bounded else LIVE_DELAY
            sources.append(Source(uid=uid, bounded=bounded, event_time="ts", watermark=delay, idle_after=idle_after))
        shareable = all(source.bounded for source in sources if source.uid in own)
        tasks.append(
            Task(
                uid=f"t{number}",
                inputs=(*producers, *own),
                event_time="ts",
                parallelism=chance.choice((1, 2, 3)) if shareable else 1,
            )
        )
    files = {
        source.uid: [
            [
                (source.uid, 100 * number + row, 10_000_000 + chance.randint(1, 400_000))
                for row in range(chance.randint(0, chance.choice(most_rows)))
            ]
            for number in range(chance.choice((0, 1, 12, 25)))
        ]
        for source in sources
        if source.bounded
    }
    settings = {
        "checkpoint.interval": chance.choice(("0", "5 s", "30 s")),
        "checkpoint.mode": chance.choice(("aligned", "unaligned")),
        "checkpoint.retained": chance.choice((1, 2)),
        "checkpoint.tolerable_failures": 99,
        "channel.max_in_flight_bytes": chance.choice((1, 150, 10**9)),
        "input.target_batch_duration": "2 s",
        "restart.delay": "100 ms",
        "restart.attempts": 99,
    }
    drawn = {task.uid: chance.choice((2.0, 20.0, 1000.0)) for task in tasks}
    windowed = frozenset(task.uid for task in tasks if task.parallelism == 1 and chance.random() < 0.5)
    live = {
        source.uid: chance.choice((0.5, 3.0) if source.idle_after is None else (0.0, 0.5, 3.0))
        for source in sources
        if not source.bounded
    }
    # A task that falls further and further back ends no drain: its batches read ever more of the live stream.
    coming = dict[str, float]()
    for task in tasks:
        coming[task.uid] = sum(live.get(uid, 0.0) + coming.get(uid, 0.0) for uid in task.inputs)
    return Plan(
        graph=JobGraph(
            name="simulated",
            sources=tuple(sources),
            tasks=tuple(tasks),
            sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
        ),
        files=files,
        speed={uid: max(speed, 2 * coming[uid]) for uid, speed in drawn.items()},
        windowed=windowed,
        live=live,
        settings=settings,
    )


class World:
    """What outlives a driver: the storage, the sinks, the sources, time.

    Args:
        pace: of the storage, where none is given.
    """

    def __init__(
        self, plan: Plan, seed: int, *, calm: bool = False, store: MemoryStore | None = None, pace: int = 1
    ) -> None:
        self.plan = plan
        self.scheduler = Scheduler(seed, calm=calm)
        self.store = store or FreezingStore(self.scheduler, pace)
        self.storage = JobStorage(self.store, plan.graph.name)
        self.sinks = {sink.uid: RowSink() for sink in plan.graph.sinks}
        # What Spark writes it forces to no disk.
        of_spark = self.store.of_others() if isinstance(self.store, VolatileStore) else self.store
        self.engine = Engine(self.scheduler, of_spark, self._rows_of, self._seconds)
        #: of the machine that the next driver is on
        self.boot_id = ""
        #: queries that run, so that one can be made to die
        self.queries: list[Any] = []
        #: of the machine's clock, which somebody sets now and then
        self.clock_is_ahead_s = 0
        self.results: list[str] = []
        #: runs whose drivers came to their end by themselves
        self._came_back: set[int] = set()
        #: of each start
        self.permissions = Permissions()
        #: it reads what is available then, and stops by itself
        self.available_now = False
        #: no task is given more of its live sources than it gets through; else each batch may be longer than the last
        self.is_calm = False
        #: what a custom source was asked for although it was written down
        self.read_again: list[str] = []
        self._frozen = False

    def _rows_of(self, path: str) -> list[Row]:
        uid, number = path.removeprefix("source://").split("/")
        return self.plan.files[uid][int(number)]

    def _seconds(self, folder: str, rows: int) -> float:
        _, _, task, subtask, *_ = folder.split("/")
        speed = self.plan.speed[task]
        if self.is_calm:
            inputs = self.plan.graph.task(task).inputs
            speed = max(speed, 2 * sum(self.plan.live.get(uid, 0) for uid in inputs))
        return 0.05 + rows * (1 + int(subtask)) / speed

    # -- one run ------------------------------------------------------------------------------------------------------

    def run(
        self,
        settings: Mapping[str, object],
        wishes: Callable[[], None] | None = None,
        *,
        before_claim: Callable[[], object] | None = None,
        restore: int | str | None = None,
    ) -> Result | None:
        """Start a driver and let it run to its end; None if it was killed, or is frozen and taken for dead.

        Args:
            wishes: done beside it.
            before_claim: done once it has decided how to begin, and has not claimed its run.
            restore: a checkpoint to start from, in a new lineage.
        """
        self.queries.clear()
        scheduler, process = self.scheduler, Process()
        process.boot_id = self.boot_id
        outcome: list[Any] = []
        beside: list[Strand] = []

        def drive() -> None:
            try:
                driver = self._launched(Config.of(settings), before_claim, restore)
                if isinstance(driver, Driver):
                    beside.extend([scheduler.spawn(wishes, "somebody")] if wishes is not None else [])
                    outcome.append(driver.run())
                    self.results.append(outcome[0].state)
                    self._came_back.add(outcome[0].run)
                else:
                    outcome.append(driver)
            except Exception as error:
                outcome.append(error)
            finally:
                scheduler.kill(process)

        try:
            with self.stood_in():
                strand = scheduler.spawn(drive, "driver", process)
                scheduler.pause(math.inf, lambda: strand.over or process.frozen)
                for one in beside:
                    scheduler.drop(one)
                if process.frozen:
                    self._frozen = True
                    scheduler.sleepers.append(process)
                    self.results.append("frozen")
                    return None
                scheduler.bury(process)
        finally:
            # A dead process leaves no word; in this one its driver would pass for alive.
            rekindle.runtime.driven._DRIVEN_HERE.clear()
        if not outcome:
            self.results.append("killed")
            return None
        ended = outcome[0]
        if isinstance(ended, BaseException):
            # One that was frozen before its claim is a start like any other when it wakes up.
            overtaken = isinstance(ended, ControlError) and ended.code in ("DRIVER_FENCED", "JOB_ALREADY_RUNNING")
            # One that woke up has committed more since the checkpoint to start from was chosen.
            overtaken |= isinstance(ended, RestoreError) and ended.code == "SINK_AHEAD" and restore is not None
            if not overtaken or not self._frozen:
                raise ended
            self.results.append("overtaken")
            return None
        return ended

    @property
    def cut_off(self) -> set[int]:
        """Return the runs whose drivers were killed, or frozen for good."""
        newest = self.storage.latest_run()
        return set(range(1, newest.run + 1 if newest else 1)) - self._came_back

    @property
    def too_late(self) -> set[int]:
        """Return the checkpoints whose numbers had been used up, and were free again once they were below all others.

        A driver that slept through all that creates its manifest, finds that it is fenced, and commits nothing.
        """
        again = self.store.created_again if isinstance(self.store, FreezingStore) else set[str]()
        folder = layout.checkpoints(self.storage.job)
        numbers = self.storage.numbers(folder)
        return {number for number in numbers if layout.manifest(layout.checkpoint(self.storage.job, number)) in again}

    def end_sleepers(self) -> None:
        """End all that are frozen still."""
        with self.stood_in():
            while self.scheduler.sleepers:
                self.scheduler.bury(self.scheduler.sleepers.pop())

    def _launched(
        self, config: Config, before_claim: Callable[[], object] | None, restore: int | str | None
    ) -> Driver | Result:
        launch, path = self.launch(config), None if restore is None else f"{restore}"
        undisturbed = before_claim is None and self.scheduler.is_alone
        said = self.launch(config).preview(path) if undisturbed else None
        ended = launch.prepare(path)
        if ended is not None:
            assert said is None or said.beginning == "has ended"
            return ended
        if before_claim is not None:
            before_claim()
        driver = launch.begin(SimulatedEngine(self))
        if said is not None:
            self._check_preview(said)
        return driver

    def _check_preview(self, said: StartPreview) -> None:
        """What was said of the start that has just been carried out is what it did."""
        run, job = self.storage.latest_run(), self.storage.job
        assert run is not None
        opened = "restores" if run.restore_from is not None else "begins"
        assert said.beginning == (opened if run.lineage == run.run else "resumes")
        for task in said.tasks:
            if task.fate == "dropped":
                assert task.uid not in {one.uid for one in self.plan.graph.tasks}
                continue
            folders = [layout.subtask(job, task.uid, index, run.lineage) for index in range(task.subtasks)]
            ends = [end for folder in folders if (end := self.storage.end(folder)) is not None]
            batches = [max(self.storage.records(folder), default=-1) for folder in folders]
            last = max([*batches, *(end.batch for end in ends)])
            assert task.finished == len(ends)
            assert task.fate == ("finished" if len(ends) == task.subtasks else "resumes" if last >= 0 else "begins")
            dealt_out = any(one.uid == task.uid and "subtasks" in one.what for one in said.graph)
            known = None if last < 0 or (dealt_out and task.fate == "resumes") else last
            assert task.batch == known, (task, last, ends, batches)

    def launch(self, config: Config) -> Launch:
        """A start of the job; to be used inside `stood_in`."""
        graph = self.plan.graph
        specs = {source.uid: SourceSpec(source=source, spec=self._spec(source)) for source in graph.sources}
        functions: dict[str, Any] = dict.fromkeys((task.uid for task in graph.tasks), _nothing)
        definition = Definition(graph=graph, sources=specs, functions=functions, sinks=self.sinks)
        clock = lambda: round((self.scheduler.now_s + self.clock_is_ahead_s) * 1000)  # noqa: E731
        return Launch(
            definition,
            self.store,
            config,
            self.permissions,
            steps=self.scheduler.step,
            clock=clock,
            available_now=self.available_now,
        )

    def _spec(self, source: Source) -> Files | Stream | SplitSource:
        if source.uid in self.plan.custom:
            return SimulatedSource(self, source.uid)
        return Files(source.uid) if source.bounded else self._stream(source.uid)

    @property
    def spark(self) -> Any:
        """The session."""
        context = SimpleNamespace(
            defaultParallelism=1, setLocalProperty=lambda *_: None, getLocalProperty=lambda _: None
        )
        session = SimpleNamespace(streams=queries)
        return SimpleNamespace(
            _jvm=None, _jsparkSession=session, sparkContext=context, readStream=Writer(), conf=Conf()
        )

    def _stream(self, uid: str) -> Stream:
        frame: Any = Frame((Leaf(None, live=(uid, self.plan.live[uid])),))
        return Stream(lambda _: frame)

    @contextlib.contextmanager
    def stood_in(self) -> Iterator[None]:
        """Put what stands in where the product looks for it."""
        threads = Threading(self.scheduler)
        inputs, batch = rekindle.spark.inputs.frames, rekindle.spark.streaming.batch_protocol
        assembly = rekindle.spark.streaming.assembly
        query = rekindle.spark.query.query
        stand_ins: list[tuple[Any, str, Any]] = [
            (query, "started_with", self._started_with),
            (query, "check_settings", _nothing),
            (query, "same_for_each_batch", lambda _: {}),
            (rekindle.spark.query.kept_batches, "LEAST", 14),
            (rekindle.spark.query.kept_batches, "MOST_ROOM", 30),
            (Frame, "sparkSession", self.spark),
            (rekindle.spark.inputs.custom, "Reads", partial(Reads, clock=threads.monotonic, write=self._stage)),
            (rekindle.spark.inputs.custom, "columns_of", lambda *_: T.StructType()),
            (rekindle.start.decide, "find_origin", self._origin),
            (assembly, "build_task", self._build_task),
            (assembly, "bind", bind),
            (assembly, "refuse_duplicate_columns", _nothing),
            (assembly, "description_of", _nothing),
            (rekindle.spark.streaming.flushing, "leftovers_of", _leftovers_of),
            (rekindle.spark.streaming.flushing, "waits_for_the_clock", _nothing),
            (assembly, "files_too_old_ms", _nothing),
            (assembly, "lists_files", _nothing),
            (assembly, "settle_query", lambda *_: ()),
            (assembly, "refuse_duplicate_columns", _nothing),
            (assembly, "output_schema", lambda *_: T.StructType()),
            (assembly, "FIRST_ADMISSION_BYTES_PER_CORE", 250),
            (inputs, "made_by", lambda _, make, *given: make(*given)),
            (inputs, "read_inbox", lambda _, logs, folder, *__: Frame((Leaf(path_of(logs.spark_path(folder))),))),
            (assembly, "shown_logs", self._shown_logs),
            (inputs, "watermarked", _watermarked),
            (inputs, "delay_of", lambda frame, _: frame.delays_ms[0]),
            (batch, "check_present", _nothing),
            (batch, "check_unchanged", _nothing),
            (batch, "list_again", _nothing),
            (batch, "refuse_partly_read", _nothing),
            (rekindle.spark.streaming.blame, "has_static_file", _nothing),
            (rekindle.spark.streaming.parts, "waits_for_the_clock", _nothing),
            (batch, "seen", self._seen),
            (batch, "refuse_late_rows", self._refuse_late_rows),
            (rekindle.spark.output.segments, "write_parquet", self._write_parquet),
        ]
        # The same seed is the same life: names that are drawn are drawn from it too.
        bits = self.scheduler.chance.getrandbits
        stand_ins += [
            (secrets, "token_hex", lambda count=32: f"{bits(8 * count):0{2 * count}x}"),
            (uuid, "uuid4", lambda: uuid.UUID(int=bits(128))),
        ]
        ENGINE[:] = [self.engine]
        with threads.stood_in(), contextlib.ExitStack() as stack:
            for module, name, stand_in in stand_ins:
                stack.enter_context(patch.object(module, name, stand_in))
            yield

    @contextlib.contextmanager
    def _started_with(self, _: Any, settings: dict[str, str]) -> Iterator[None]:
        self.engine.keeps = int(settings[BATCHES_KEPT])
        yield

    def _shown_logs(self, store: Store, _: str | None = None) -> Store:
        if store.pace == 1:
            return store
        name = f"disk-{len(self.engine.disks)}"
        disk = self.engine.disks[name] = DriverDisk(name)
        return disk

    def _write_parquet(self, frame: BatchFrame, _: Any, folder: str, **__: Any) -> list[WrittenFile]:
        frame.write_to(folder)
        entries = [entry for entry in self.store.walk(folder) if entry.path.endswith(".parquet")]
        files = [
            WrittenFile(entry.path.removeprefix(f"{folder}/"), len(self.engine.read(entry.path)), entry.size_bytes)
            for entry in entries
        ]
        return [file for file in files if file.rows]

    def _stage(self, rows: list[Row], _: Any, __: Any, folder: str) -> list[WrittenFile]:
        """Write the rows of a read, two to a file; where there are none, one file, as Spark does."""
        files = []
        for at in range(0, max(len(rows), 1), 2):
            self.scheduler.step("spark.segment/before")
            data, name = json.dumps(rows[at : at + 2]).encode(), f"part-{at:05d}.parquet"
            self.engine.store.replace(f"{folder}/{name}", data)
            files.append(WrittenFile(name, len(rows[at : at + 2]), len(data)))
        return [file for file in files if file.rows]

    def _origin(self, path: str) -> Origin:
        number = path.rsplit("/", 1)[1]
        if not number.isdigit():
            return find_origin(path)  # a savepoint, in a folder of this machine
        manifest = self.storage.manifest(int(number))
        assert manifest is not None, f"{path} is gone"
        return Origin(store=self.store, folder="", manifest=manifest)

    def _build_task(self, task: Task, _: Any, inputs: Any) -> Frame:
        leaves: list[Leaf] = []
        delays: list[int] = []
        for item in inputs:
            item.spark_sources = (len(leaves),)
            item.mark_sources = tuple(len(leaves) + n for n, leaf in enumerate(item.frame.leaves) if leaf.is_marks)
            watermarked = len(delays) if item.frame.delays_ms else None
            leaves += [leaf._replace(input=watermarked) for leaf in item.frame.leaves]
            delays += item.frame.delays_ms
        return Frame(tuple(leaves), tuple(delays), windowed=task.uid in self.plan.windowed)

    def _seen(self, _: Any, inputs: Any) -> dict[str, EventTimeStats]:
        observed = [item.uid for item in inputs if item.observed]
        times = {uid: [time_ms for _, _, time_ms in self.engine.met[uid]] for uid in observed if uid in self.engine.met}
        ends = {uid: (min(found, default=None), max(found, default=None)) for uid, found in times.items()}
        return {
            uid: EventTimeStats(len(times[uid]), *(None if end is None else 1_000 * end for end in ends[uid]))
            for uid in times
        }

    def _refuse_late_rows(self, _: Any, __: Any, inputs: Sequence[Any], *___: Any) -> None:
        if any(item.bounded for item in inputs) or all(item.finite for item in inputs):
            assert not self.engine.late, f"dropped as late: {self.engine.late}"

    # -- what came of it ----------------------------------------------------------------------------------------------

    def expected(self) -> dict[str, Counter[Row]]:
        """Sink → the rows that it must show, by what each task has read of its sources."""
        behind: dict[str, Counter[Row]] = {}
        for task in self.plan.graph.tasks:
            rows: Counter[Row] = Counter()
            for uid in task.inputs:
                rows += behind[uid] if uid in behind else Counter(self._read_of(task, uid))
            behind[task.uid] = rows
        return {f"{uid}_out": rows for uid, rows in behind.items()}

    def _read_of(self, task: Task, source: str) -> Iterator[Row]:
        """The rows that the subtasks of a task have read of a source, by their last records and by what the lineage
        that these are of began with.
        """
        if source in self.plan.custom:
            yield from self._read_of_splits(task, source)
            return
        files = [FrozenFile(path=f"{number}", size=1) for number in range(len(self.plan.files.get(source, ())))]
        opened = self.storage.lineage()
        lineage = opened.lineage if opened else 1
        folder = read_layout.splits(self.storage.job, task.uid, lineage, source)
        unread = opened.unread.get(task.uid, {}).get(source) if opened else None
        for number in range(len(files)):
            if unread is not None and not any(start <= number < stop for start, stop in unread):
                yield from self.plan.files[source][number]
        splits = Splits(self.storage, folder, 0, files, task.parallelism, unread)
        for index in range(task.parallelism):
            record = self.storage.last_record(layout.subtask(self.storage.job, task.uid, index, lineage))
            position = record.inputs[source] if record else InputPosition()
            for file in splits.given_to(index)[: position.files]:
                yield from self.plan.files[source][int(file.path)]
            if source in self.plan.live and position.offset:
                yield from (live_row(source, number) for number in range(position.offset["logOffset"] + 1))

    def _read_of_splits(self, task: Task, source: str) -> Iterator[Row]:
        """The rows of the splits up to where the last checkpoint of all, which is of the end, says they were read."""
        manifest, splits = self.storage.newest_manifest(), self.plan.custom[source].splits
        assert manifest is not None
        state = OperatorState.from_json(manifest.operator_state[task.uid][source])
        if state.fully_finished:
            yield from (row for rows in splits.values() for row in rows)
            return
        ended = [json.loads(key) for key in state.coordinator["ended"]]
        entries = [entry for one in state.subtasks.values() for entry in (one["splits"].entries if one else ())]
        upto = {entry["id"]: entry["position"] or 0 for entry in (*entries, *state.coordinator["waiting"])}
        assert len(upto) == len(entries) + len(state.coordinator["waiting"]), "a split is kept once"
        assert not upto.keys() & set(ended)
        for split, rows in splits.items():
            yield from rows if split in ended else rows[: upto.get(split, 0)]

    def shown(self) -> dict[str, Counter[Row]]:
        """Sink → what it shows."""
        return {uid: Counter(map(tuple, sink.rows)) for uid, sink in self.sinks.items()}

    def all_read(self) -> bool:
        """Whether every row of every bounded source is in `expected`."""
        expected = self.expected()
        every = {uid: Counter(row for file in files for row in file) for uid, files in self.plan.files.items()}
        every |= {
            uid: Counter(row for rows in one.splits.values() for row in rows) for uid, one in self.plan.custom.items()
        }
        roots = [(task, uid) for task in self.plan.graph.tasks for uid in task.inputs if uid in every]
        return all(every[uid] <= expected[f"{task.uid}_out"] for task, uid in roots)

    def set_clock(self, chance: random.Random) -> None:
        """Now and then, set the machine's clock, wrongly or right."""
        if chance.random() < 0.2:
            self.clock_is_ahead_s = chance.choice((-86_400, -60, 0, 60, 86_400))

    def ask(self, wanted: ControlRequest) -> None:
        """Ask the job for something, as the command line does."""
        with contextlib.suppress(RekindleError):
            send(self.storage, wanted)


class SimulatedSource(SplitSource):
    """A custom source that gives a row or a few at a time, or none, and fails now and then.

    It cannot be read twice: in one lineage it is asked again for what it gave only while that is not written down.
    """

    schema = ""
    poll_every = "2 seconds"

    def __init__(self, world: World, uid: str) -> None:
        self._world, self._uid, self._plan = world, uid, world.plan.custom[uid]
        self.bounded = self._plan.bounded
        self._found = self._plan.at_first
        self.state = {"kept": self._plan.kind} if self._plan.kind else {}
        self._kept: list[Any] = []

    def snapshot_state(self) -> Mapping[str, list[Any]]:
        """See `SplitSource`."""
        self._kept = [*self._kept, len(self._kept)]
        return {"kept": self._kept}

    def initialize_state(self, state: Mapping[str, list[Any]]) -> None:
        """See `SplitSource`."""
        assert state.keys() == {"kept"}
        self._kept = state["kept"]

    def splits(self) -> list[str]:
        """See `SplitSource`."""
        self._world.scheduler.pause(self._world.scheduler.chance.choice((0, 0.1, 1)))
        found, self._found = self._found, self._found + 1
        return list(self._plan.splits)[:found]

    def read(self, _: Any, split: str, position: Any) -> tuple[Any, Any, bool]:
        """See `SplitSource`."""
        scheduler, at = self._world.scheduler, position or 0
        self._check_not_written(split, at)
        self._check_follows()
        scheduler.pause(scheduler.chance.choice((0, 0.1, 1)))
        rows = self._plan.splits[split][at : at + scheduler.chance.randint(0, 4)]
        upto = at + len(rows)
        ended = self.bounded and upto == len(self._plan.splits[split])
        return (rows if rows or self._plan.empty_frames else None), upto, ended

    def has_caught_up(self, split: str, position: Any) -> bool:
        """See `SplitSource`: a read has no rows now and then, though there are some."""
        return bool(position == len(self._plan.splits[split]))

    def _check_follows(self) -> None:
        """What it follows is in batch records to its end, by the one subtask that reads both."""
        storage, lineage = self._world.storage, self._world.storage.lineage()
        graph = self._world.plan.graph
        first = next(source.follows for source in graph.sources if source.uid == self._uid)
        if (
            first is None
            or lineage is None
            or self._world.scheduler.process.was_frozen
            or self._world.scheduler.sleepers
        ):
            return
        for task in (one for one in graph.tasks if self._uid in one.inputs):
            record = storage.last_record(layout.subtask(storage.job, task.uid, 0, lineage.lineage))
            unread = lineage.unread.get(task.uid, {}).get(first, ((0, len(self._world.plan.files[first])),))
            if sum(until - start for start, until in unread) > (record.inputs[first].files if record else 0):
                self._world.read_again.append(f"{self._uid} is read before {first} has ended")

    def _check_not_written(self, split: str, at: int) -> None:
        """What a driver that was taken for dead reads meanwhile no one can prevent."""
        storage, lineage = self._world.storage, self._world.storage.lineage()
        if lineage is None or self._world.scheduler.process.was_frozen or self._world.scheduler.sleepers:
            return
        for task in self._world.plan.graph.tasks:
            for index in range(task.parallelism):
                folder = read_layout.reads(layout.subtask(storage.job, task.uid, index, lineage.lineage), self._uid)
                for number in storage.numbers(folder):
                    read = storage.read(read_layout.split_read(folder, number), SplitRead)
                    if read is not None and read.split == Split(id=split, position=at or None):
                        self._world.read_again.append(f"{split} is read again from {at}")


class SimulatedEngine:
    """The product's own subtasks, on a session that is not there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.lifeline = FakeLifeline()
        self.value_settings: Mapping[str, str] = {}

    def quiet(self) -> AbstractContextManager[None]:
        """See `Engine`."""
        return nullcontext()

    def stop(self) -> None:
        """See `Engine`."""

    def check_reaches(self, places: Iterable[str]) -> None:
        """See `Engine`."""

    def check_sees(self, place: str, path: str) -> None:
        """See `Engine`."""

    def freeze(self, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps) -> FrozenFiles | None:
        """See `Engine`."""
        uid = spec.source.uid
        if not spec.source.bounded or uid in self._world.plan.custom:
            return None
        files = tuple(
            FrozenFile(path=f"source://{uid}/{number}", size=self._world.plan.file_bytes + 10 * len(rows))
            for number, rows in enumerate(self._world.plan.files[uid])
        )
        return storage.adopt(
            layout.frozen_files(layout.source(storage.job, uid)),
            FrozenFiles(source=uid, files=files, schema={}, base=""),
        )

    def words_of(self, error: BaseException) -> str:
        """See `Engine`."""
        return one_line(error)

    def repartition(self, storage: JobStorage, folder: str, task: str, count: int) -> None:
        """See `Engine`."""

    def examine(self, of: Examination) -> Mapping[str, Examined]:
        """See `Engine`."""
        sources = {source.uid: source for source in of.graph.sources}
        found = {}
        for task in of.graph.tasks:
            numbers, inputs = itertools.count(), {}
            for uid in task.inputs:
                item = sources.get(uid) or of.graph.task(uid)
                own = (next(numbers),)
                inputs[uid] = own, (() if item.event_time is None else (next(numbers),))
            found[task.uid] = Examined(numbers=Numbers(count=next(numbers), inputs=inputs))
        return found

    def assemble(self, run: RunContext, lineage: Lineage) -> Subtasks:
        """See `Engine`."""
        return Assembly(run, self._world.spark, lineage)


def _watermarked(_: Any, data: Frame, *__: Any, delay: str, marks: str, **___: Any) -> Frame:
    return Frame((*data.leaves, Leaf(path_of(marks), is_marks=True)), (DELAY_MS[delay],))


def _leftovers_of(frame: Frame) -> Leftovers:
    return Leftovers.WINDOWS if frame.windowed else Leftovers.NONE


def _nothing(*_: Any) -> None:
    """Do nothing."""
