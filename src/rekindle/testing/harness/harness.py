"""`JobHarness`: a whole job in a test, with its rows, its time, its stops and its crashes in the test's hand."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession

from rekindle.config import Config
from rekindle.handle import JobHandle
from rekindle.job import Job
from rekindle.results import Checkpoint, JobResult, JobStatus, Savepoint
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.start.running import Running
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.testing.harness.ends import Ends, is_passed_on
from rekindle.testing.harness.engine import DriverLife, TestedEngines, no_successor
from rekindle.testing.harness.inputs import Schema
from rekindle.testing.harness.outputs import Row, ordered
from rekindle.testing.harness.points import CrashedError, ManualTime, Points, checked

if TYPE_CHECKING:
    from typing_extensions import Self

_DEFAULTS: Mapping[str, Any] = {"restart.attempts": "1", "restart.delay": "0 seconds"}
"""Settings for a test: what fails is tried again at once, and once."""


class JobHarness:
    """A job under test. Use it as a context manager, or as the fixture ``job_harness`` makes it.

    Args:
        job: stays as it is.
        spark: a session for all tests; it is given the settings that the queries of jobs need, and is not stopped.
        folder: a new one of the test's own; None: a temporary one, which is deleted.
        schemas: source uid → its columns, as a DDL string or a StructType; see docs/harness.md#rows-in.
        config: settings, as `Job.start` takes them; ``restart.attempts`` is 1 and ``restart.delay`` 0 unless they say
            otherwise.
        keep: uids of sources and sinks that stay as the job has them.
        timeout_s: how long the job may take to come to rest.
    """

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        *,
        folder: Path | str | None = None,
        schemas: Mapping[str, Schema] | None = None,
        config: Mapping[str, Any] | None = None,
        keep: Collection[str] = (),
        timeout_s: float = 300,
    ) -> None:
        self._spark = spark
        self._temporary = tempfile.TemporaryDirectory(prefix="rekindle-test-") if folder is None else None
        self._folder = Path(self._temporary.name if self._temporary is not None else folder or ".")
        self._config = Config.of({**_DEFAULTS, **(config or {})})
        self._timeout_s = timeout_s
        self._ends = Ends(spark, self._folder / "sources", schemas or {}, keep)
        self._passed_ms = 0
        self._life: DriverLife | None = None
        self._result: JobResult | None = None
        self._job = job
        self._store = LocalStore(str(self._folder / "storage"))
        self._storage = JobStorage(self._store, job.name)
        self._ends.prepare(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End whatever runs, as a crash would, and delete the temporary folder."""
        if self._life is not None:
            self._life.bury()
        if self._temporary is not None:
            self._temporary.cleanup()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def add(self, uid: str, rows: Sequence[Any] | DataFrame) -> None:
        """Give rows to a source: a batch of an unbounded one, a file of a bounded one, which has none after the start.

        Args:
            rows: dicts, Rows, or a batch DataFrame.
        """
        given = self._ends.source(uid)
        if given.bounded and self._life is not None:
            raise ValueError(f"source {uid!r} is bounded: its rows are added before the start")
        given.add(rows)

    def rows(self, uid: str, *, order_by: Sequence[str] = ()) -> list[Row]:
        """Return what is committed to a sink: all of it, since the test began."""
        return ordered(self._ends.sink(uid).rows(), order_by)

    def new_rows(self, uid: str, *, order_by: Sequence[str] = ()) -> list[Row]:
        """Return what was committed to a sink since this was last called."""
        return ordered(self._ends.sink(uid).new_rows(), order_by)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(
        self,
        job: Job | None = None,
        *,
        restore: Checkpoint | Savepoint | str | int | None = None,
        mode: Literal["streaming", "batch"] = "streaming",
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
    ) -> None:
        """Start the job, or start it again. The other arguments are those of `Job.start`.

        Args:
            job: another version of it, of the same name, which takes over; None: the one it was.
        """
        if self._life is not None and not self._life.is_over():
            raise RuntimeError("the job runs already: stop() or crash() it first")
        if job is not None and job.name != self._storage.job:
            raise ValueError(f"{job.name!r} is another job, and no other version of {self._storage.job!r}")
        self._job = job or self._job
        self._ends.prepare(self._job)
        self._result = None
        points = Points()
        elapsed = ManualTime(points, self._passed_ms)
        launch = Launch(
            self._ends.definition(self._job),
            self._store,
            self._config,
            Permissions(
                non_restored_state=allow_non_restored_state, drained=allow_drained, sink_ahead=allow_sink_ahead
            ),
            steps=points,
            mode=mode,
            elapsed=elapsed,
        )
        ended = launch.prepare(None if restore is None else str(restore))
        if ended is not None:
            self._result = JobResult.of(self._job.name, ended, already_ended=True)
            return
        engines = TestedEngines(self._spark)
        running = Running(launch, engines, no_successor, self._config)
        handle = JobHandle(launch.storage, mode=mode, driver=running, run=running.run)
        self._life = DriverLife(handle=handle, engine=engines.engine, points=points, time=elapsed)

    def settle(self) -> None:
        """Wait until all that was added is processed, or the job is over.

        Raises:
            RekindleError: why the job has failed.
            TimeoutError: it does not come to rest.
        """
        life = self._running()
        if life is not None:
            life.settle(time.monotonic() + self._timeout_s)
            life.raise_what_ended_it()

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let processing time pass, for the driver, and wait until what was due has been done."""
        self.settle()
        passed = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        passed_ms = round(passed.total_seconds() * 1000)
        self._passed_ms += passed_ms
        if self._life is not None:
            self._life.time.pass_ms(passed_ms)
        self.settle()

    def advance_event_time(self, uid: str, to: datetime | str) -> None:
        """Move the event time of an unbounded source, as a row of that time would which is then dropped."""
        given = self._ends.source(uid)
        given.add_time(to)
        if is_passed_on(self._job.graph(), uid):
            given.add_time(to)  # who reads a task without state hears of its time one batch later

    def checkpoint(self) -> Checkpoint:
        """Settle, and take a checkpoint; return it once it is committed."""
        with self._asking() as life:
            return life.handle.checkpoint()

    def savepoint(self) -> Savepoint:
        """Settle, and make a savepoint; return it."""
        with self._asking() as life:
            return life.handle.savepoint(str(self._folder / "savepoints"))

    def stop(self) -> JobResult:
        """Settle, and stop with a last checkpoint; `start` resumes there."""
        with self._asking() as life:
            life.handle.stop()
        return life.ended()

    def drain(self) -> JobResult:
        """Settle, flush everything and end for good."""
        with self._asking() as life:
            life.handle.stop(drain=True)
        return life.ended()

    def crash(self) -> None:
        """Let the driver die, wherever it is."""
        if self._life is not None:
            self._life.bury()

    @contextmanager
    def crash_at(self, step: str) -> Iterator[None]:
        """Let the driver die when it reaches a durable step inside, such as ``"sink.commit/before"``.

        Raises:
            ValueError: there is no such step.
            AssertionError: it was never reached.
        """
        life = self._running()
        if life is None:
            raise RuntimeError("no driver runs that could die")
        life.points.crash_at(checked(step))
        try:
            yield
            self.settle()
        except CrashedError:
            pass
        finally:
            life.points.crash_nowhere()
        if not life.points.dead:
            reached = ", ".join(dict.fromkeys(life.points.reached)) or "none"
            raise AssertionError(f"the driver never reached {step}, but: {reached}")

    def fail_at(self, step: str) -> None:
        """Let what reaches a durable step next fail there, once; the job tries it again.

        Raises:
            ValueError: there is no such step.
        """
        life = self._running()
        if life is None:
            raise RuntimeError("no driver runs that could fail")
        life.points.fail_at(checked(step))

    # -- what there is to see -----------------------------------------------------------------------------------------

    @property
    def result(self) -> JobResult | None:
        """The result of a job that has ended; None while it runs, and after a crash."""
        life = self._life
        if self._result is None and life is not None and not life.points.dead and not life.handle.is_running():
            self._result = life.handle.wait()
        return self._result

    def status(self) -> JobStatus:
        """Return the status of the job that runs, or ran last."""
        if self._life is None:
            raise RuntimeError("the job was not started")
        return self._life.handle.status()

    def checkpoints(self) -> list[Checkpoint]:
        """Return the completed checkpoints, newest first."""
        job, root = self._storage.job, self._store.location
        return [Checkpoint(one, f"{root}/{layout.checkpoint(job, one)}") for one in self._storage.checkpoints()]

    # -- how it is done -----------------------------------------------------------------------------------------------

    def _running(self) -> DriverLife | None:
        life = self._life
        if life is not None and life.points.dead:
            return None
        return life

    @contextmanager
    def _asking(self) -> Iterator[DriverLife]:
        """Settle, let the job be asked, and see what has become of it."""
        self.settle()
        life = self._running()
        if life is None:
            raise RuntimeError("the job does not run: start() it")
        try:
            yield life
        except Exception:
            life.raise_what_ended_it()
            raise
        life.raise_what_ended_it()
