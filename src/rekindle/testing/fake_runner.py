"""A `StreamRunner` without Spark: the driver's other half in tests that need no Java.

Its query reads numbers, 0, 1, 2…, holds the last few back in its state as an open window does, and hands the others on.
What it makes durable is what a real one makes durable, in the same order: a batch is planned, its outputs
are prepared, its record is created, and then it is committed; so a crash may fall between any two, and the next runner
on the same storage finds what a real one would find. A batch that was planned is planned no second time; one with a
record is replayed and writes nothing.

It does what `before` says before each order: fail, or hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rekindle.errors import RekindleError
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.closing import close_sinks
from rekindle.runtime.definition import RunContext
from rekindle.runtime.steps import step
from rekindle.storage import layout
from rekindle.storage.documents.batch import Drain, End
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.status import InputStatus, TaskStatusDocument
from rekindle.storage.port import Store
from rekindle.testing.fake_batches import FakeBatches, Plan

HELD = 2
"""Rows that the state holds back until newer ones, or a flush, push them out."""

_PAUSE_S = 0.002


@dataclass(slots=True)
class FakeInput:
    """The one source of a fake task, which outlives its runners."""

    #: rows there are by now: the numbers below this one
    available: int = 0
    #: True if no more will come
    ended: bool = True
    #: rows a batch reads at most
    batch_rows: int = 3


@dataclass(slots=True)
class _Query:
    held: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    #: interrupted: it writes nothing more
    killed: bool = False


class _KilledError(Exception):
    """Raised in a query that was interrupted."""


class FakeRunner:
    """One subtask of one run.

    Args:
        source: uid of the input, as positions and the status name it.
        before: what is called before an order (``start``, ``suspend``, ``finish``, ``close``, ``snapshot``, ``copy``,
            ``purge``) or a ``batch``; may raise, or hang. Looked up each time, so it may change meanwhile.
    """

    def __init__(
        self,
        run: RunContext,
        task: SubtaskId,
        source: str,
        rows: FakeInput,
        before: Mapping[str, Callable[[], None]],
    ) -> None:
        self._storage = run.storage
        self._run = run.run
        self._task = task
        self._source = source
        self._rows = rows
        self._sinks = run.definition.sinks
        self._close_s = run.pauses.close_s
        self._post = run.post
        self._before = before
        self._steps = run.steps
        self._folder = run.folder(task)
        self._progress_dir = layout.spark_progress_dir(self._folder)
        self._query: _Query | None = None
        self._batches = FakeBatches(run, task, source, before=lambda: self._obey("batch"), store=self._alive)
        #: its last batch has failed
        self._failed = False
        #: its sinks are not closed
        self._open = True
        #: rows that earlier runs have read
        self._read_before, _ = self._batches.position()

    # -- orders -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `TaskRunner`."""
        self._open = True
        self._obey("start")
        self._hold()
        query = _Query()
        query.thread = threading.Thread(target=self._work, args=(query,), daemon=True)
        self._query = query
        self._post(e.TaskStarted(task=self._task))
        query.thread.start()

    def suspend(self) -> int:
        """See `TaskRunner`."""
        self._open = True
        self._obey("suspend")
        self._hold()
        self._batches.settle()
        return self._batches.committed()

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """See `TaskRunner`."""
        self._open = True
        self._obey("finish")
        end = self._storage.end(self._folder)
        if end is not None:
            return end.batch, end.notes
        self._hold()
        if drain:
            self._try_again()
            self._storage.create(layout.drain(self._folder), Drain(run=self._run.run, begun_ms=0))
        self._batches.settle()
        read, emitted = self._batches.position()
        if emitted < read:
            self._batches.run(self._batches.committed() + 1, Plan(emitted, read, read, flush=True))
        for sink in self._sinks.values():
            with step(self._steps, "sink.finish"):
                sink.finish()
        notes = () if self._all_read() else (f"{self._source}: some was not read",)
        made = End(batch=self._batches.committed(), run=self._run.run, drained=drain, notes=notes)
        self._storage.create(layout.end(self._folder), made)
        return made.batch, made.notes

    def close(self) -> None:
        """See `TaskRunner`."""
        self._obey("close")
        was_open, self._open = self._open, False
        if was_open:
            close_sinks(self._sinks, self._close_s)

    def abandon(self) -> None:
        """See `TaskRunner`."""
        self._hold()

    def kill(self) -> None:
        """See `TaskRunner`."""
        query = self._query
        if query is not None:
            query.killed = True
            query.held.set()

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """See `TaskRunner`."""
        self._obey("snapshot")
        if batch > self._batches.committed():
            return None
        record = self._storage.record(self._folder, batch) if batch >= 0 else None
        end = self._storage.end(self._folder)
        if end is not None and end.batch != batch:
            end = None
        return SubtaskSnapshot(batch=batch, inputs=record.inputs if record else {}, end=end)

    def copy(self, snapshot: SubtaskSnapshot, store: Store, folder: str) -> int:
        """See `TaskRunner`."""
        self._obey("copy")
        name = f"commits/{snapshot.batch}"
        data = self._storage.store.read(f"{self._progress_dir}/{name}")
        store.replace(f"{layout.spark_progress_dir(folder)}/{name}", data)
        return len(data)

    def tick(self, now_ms: int) -> None:
        """Do nothing: no input of it is ever idle."""

    def stop_sources(self) -> None:
        """See `TaskRunner`. It reads no channel, so there is nothing to continue with: `suspend` follows."""

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """See `TaskRunner`. It reads no channel."""

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """See `TaskRunner`."""
        self._obey("purge")
        for batch in self._storage.records(self._folder):
            if batch < oldest_batch:
                self._storage.store.delete(layout.batch(self._folder, batch))

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        read, _ = self._batches.position()
        return TaskStatusDocument(
            uid=self._task.task,
            subtask=self._task.subtask,
            status="",
            batch=max(self._storage.records(self._folder), default=-1),
            inputs={self._source: InputStatus(ended=self._all_read(), position={"read": read})},
            rows_in=read - self._read_before,
            rows_of_sources=read - self._read_before,
        )

    # -- the query ----------------------------------------------------------------------------------------------------

    def _work(self, query: _Query) -> None:
        reported = False
        try:
            self._batches.replay()
            while not query.held.is_set():
                if self._run_next():
                    self._failed = False
                elif self._rows.ended and not reported:
                    reported = True
                    self._post(e.SourcesEnded(task=self._task))
                time.sleep(_PAUSE_S)
        except _KilledError:
            return
        except BaseException as error:
            self._failed = True
            known = (error.code, error.parameters) if isinstance(error, RekindleError) else None
            self._post(e.TaskFailed(task=self._task, reason=str(error) or type(error).__name__, error=known))

    def _run_next(self) -> bool:
        """Run the next batch; return False if there is nothing to read."""
        read, emitted = self._batches.position()
        if read >= self._rows.available:
            return False
        until = min(read + self._rows.batch_rows, self._rows.available)
        plan = Plan(emitted, max(emitted, until - HELD), until, flush=False)
        self._batches.run(self._batches.committed() + 1, plan)
        return True

    def _try_again(self) -> None:
        """Run a batch that has failed once more."""
        self._batches.replay()
        if self._failed:
            self._run_next()
            self._failed = False

    def _hold(self) -> None:
        """Let the running batch end, and no other begin."""
        query, self._query = self._query, None
        if query is not None and query.thread is not None:
            query.held.set()
            query.thread.join()

    # -- where it stands ----------------------------------------------------------------------------------------------

    def _obey(self, order: str) -> None:
        self._before.get(order, _nothing)()

    def _alive(self) -> Store:
        """Return the store; raise if the query was interrupted meanwhile."""
        query = self._query
        if query is not None and query.killed:
            raise _KilledError
        return self._storage.store

    def _all_read(self) -> bool:
        return self._rows.ended and self._batches.position()[0] >= self._rows.available


def _nothing() -> None:
    """Do nothing: neither fail nor hang."""
