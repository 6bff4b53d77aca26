"""A job whose driver is real and whose query and sinks are not: everything but Spark, on a real directory.

The start is `Launch`'s own, on the engine of the test kit. A `World` is what outlives drivers: the storage, the rows of
the source, the sinks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import rekindle as rk
from rekindle.config import Config
from rekindle.errors import StorageError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.validation import validated
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.checkpointing import Checkpointing
from rekindle.runtime.definition import Definition, RunContext
from rekindle.runtime.driver import Driver
from rekindle.runtime.orphans import Orphans
from rekindle.runtime.pauses import Pauses
from rekindle.runtime.retention import RUNS, Retention
from rekindle.runtime.steps import Steps, no_steps
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Result
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.testing.fake_engine import FakeEngine
from rekindle.testing.fake_runner import FakeInput, FakeRunner
from rekindle.testing.fake_sink import FakeSink
from tests import waiting
from tests.hanging import threads

until = partial(waiting.until, seconds=30, pause_s=0.002)

JOB, TASK, SOURCE = "job", "task", "numbers"

NEVER = {"checkpoint.interval": "0"}
OFTEN = {"checkpoint.interval": "10 ms", "checkpoint.retained": "1000"}
HURRY = Pauses(loop_s=0.002, control_s=0.005, heartbeat_s=0.01, answer_s=(0.002, 0.01), driver_s=0.02)
"""Looks at everything much more often than a real driver does."""
QUICK = {"restart.delay": "5 ms", "restart.delay_max": "10 ms", "restart.attempts": "5"}


class World:
    """What outlives the drivers of one test."""

    def __init__(self, root: Path, sinks: tuple[str, ...] = ("out", "second")) -> None:
        self.location = str(root / "storage")
        self.storage = JobStorage(LocalStore(self.location), JOB)
        #: what drivers write to
        self.store = LocalStore(self.location)
        #: those of the next driver
        self.pauses = HURRY
        self.rows = FakeInput()
        self.sinks = {uid: FakeSink() for uid in sinks}
        #: see `FakeRunner`
        self.before: dict[str, Callable[[], None]] = {}
        self.runner: FakeRunner | None = None
        #: what the newest run has been given
        self.context: RunContext | None = None
        self.engine = FakeEngine(self._runner)

    def definition(self) -> Definition:
        """The job, whose source ends where its rows have."""
        bounded = self.rows.ended
        graph = validated(
            JobGraph(
                name=JOB,
                sources=(Source(uid=SOURCE, bounded=bounded),),
                tasks=(Task(uid=TASK, inputs=(SOURCE,)),),
                sinks=tuple(Sink(uid=uid, task=TASK) for uid in self.sinks),
            )
        )
        return Definition(graph=graph, sources={}, functions={}, sinks=self.sinks)

    def launch(
        self, steps: Steps = no_steps, since: int | None = None, engine_failures: int = 0, **config: object
    ) -> Launch:
        """The start of the next run, not prepared yet."""
        settings = Config.of({**QUICK, **config})
        return Launch(
            self.definition(), self.store, settings, Permissions(), steps=steps,
            since=since, engine_failures=engine_failures, pauses=self.pauses,
        )  # fmt: skip

    def driver(self, steps: Steps = no_steps, **config: object) -> tuple[Driver, JobStorage]:
        """Begin the next run; the driver is ready to loop."""
        launch = self.launch(steps, **config)  # type: ignore[arg-type]
        ended = launch.prepare(None)
        assert ended is None, ended
        begun = launch.begin(self.engine)
        assert isinstance(begun, Driver), begun
        return begun, launch.storage

    def _runner(self, run: RunContext, task: SubtaskId) -> FakeRunner:
        self.context = run
        self.runner = FakeRunner(run, task, SOURCE, self.rows, self.before)
        return self.runner

    def checkpointing(self) -> Checkpointing:
        """Checkpoints as a driver of the newest run takes them."""
        context, runner = self.context, self.runner
        assert context is not None and runner is not None, "no run has begun"
        orphans = Orphans(context.storage, context.run, context.definition.sinks, no_steps)
        runners = {SubtaskId(TASK, 0): runner}
        return Checkpointing(context, runners, splits={}, custom={}, finished={}, orphans=orphans)

    def retention(self, runs: int = RUNS) -> Retention:
        """The deletions of the newest run."""
        context, runner = self.context, self.runner
        assert context is not None and runner is not None, "no run has begun"
        return Retention(context.storage, context.run, {SubtaskId(TASK, 0): runner}, runs)

    def post(self, event: e.Event) -> None:
        """Report an event to the driver of the newest run, as its tasks do."""
        assert self.context is not None, "no run has begun"
        self.context.post(event)

    def start(self, steps: Steps = no_steps, **config: object) -> rk.JobHandle:
        """Start the next run in a thread."""
        return self.loop(*self.driver(steps, **config))

    def loop(self, driver: Driver, storage: JobStorage) -> rk.JobHandle:
        """Let a driver loop in a thread."""
        run = cast("Callable[[], Result]", driver.run)
        return rk.JobHandle(storage, driver=driver, run=run, pauses=self.pauses)

    def run(self, steps: Steps = no_steps, **config: object) -> rk.JobResult:
        """Run it to its end."""
        return ended(self.start(steps, **config))

    def all_committed(self) -> bool:
        """Whether each sink shows every row exactly once."""
        return all(sorted(sink.rows) == list(range(self.rows.available)) for sink in self.sinks.values())

    @property
    def folder(self) -> str:
        """The task's folder in the lineage in force."""
        lineage = self.storage.lineage()
        return layout.subtask(JOB, TASK, 0, lineage.lineage if lineage else 1)

    def read(self) -> int:
        """Rows in batches that are committed: the driver was told of these, so the next checkpoint has them."""
        folder = self.folder
        committed = self.storage.store.names(f"{layout.spark_progress_dir(folder)}/commits")
        record = self.storage.record(folder, max(map(int, committed))) if committed else None
        return record.inputs[SOURCE].offset["read"] if record else 0

    def records(self) -> dict[int, BatchRecord]:
        """Every batch record."""
        folder = self.folder
        found = {batch: self.storage.record(folder, batch) for batch in self.storage.records(folder)}
        return {batch: record for batch, record in found.items() if record is not None}

    def manifests(self) -> list[Manifest]:
        """Every manifest, oldest first."""
        return self.storage.manifests()[::-1]

    def files(self) -> dict[str, bytes]:
        """All of the storage."""
        return {entry.path: self.storage.store.read(entry.path) for entry in self.storage.store.walk("")}


class Faulty:
    """A way to break what is called often: fails some times, with an error, and then no more."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left = times
        self.calls = 0
        self.error = error or RuntimeError("broken on order")

    def __call__(self, *_: object) -> None:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error


class Refusal:
    """A `Steps` callable: a storage that refuses writes while `error` is set."""

    def __init__(self) -> None:
        self.error: StorageError | None = None

    def __call__(self, name: str) -> None:
        if self.error is not None and name.endswith("/before") and name.partition("/")[0] in layout.STEPS:
            raise self.error


def ended(handle: rk.JobHandle, seconds: float = 30) -> rk.JobResult:
    """How it ended; a limit keeps a hanging test from hanging for ever."""
    result = handle.wait(seconds)
    assert result is not None, f"it did not end: {handle.status()}\n{threads()}"
    return result
