"""Orders to the subtasks of a run: each has a thread of its own, on which its orders are carried out in their order.

An attempt that has failed is ended before the next order begins another: its query is stopped, and its sinks are closed
on the thread that commits.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rekindle.errors import RekindleError, one_line
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.runtime.definition import RunContext
from rekindle.runtime.ports import TaskRunner, streams_of
from rekindle.runtime.trying import tried
from rekindle.runtime.worker import Worker, join_all

_LOG = logging.getLogger(__name__)


class TaskOrders:
    """The orders of a driver to the subtasks of one run.

    Args:
        sinks: the thread on which transactions are committed.
        is_over: returns True once the run is over: later orders are not carried out.
    """

    def __init__(
        self,
        run: RunContext,
        runners: Mapping[SubtaskId, TaskRunner],
        sinks: Worker,
        is_over: Callable[[], bool],
    ) -> None:
        self._run = run
        self._runners = runners
        self._streams = streams_of(runners)
        self._sinks = sinks
        self._is_over = is_over
        self._workers = {task: Worker(f"task-{task}") for task in runners}
        #: subtasks of which an attempt was begun
        self._begun: set[SubtaskId] = set()
        #: subtasks whose attempt has failed: the next order begins another
        self._failed: set[SubtaskId] = set()

    # -- orders that may take long ------------------------------------------------------------------------------------

    def start(self, command: c.StartTask) -> None:
        """Begin an attempt of a task."""
        runner, task = self._runners[command.task], command.task
        again = task in self._begun
        self._begun.add(task)
        self._failed.discard(task)

        def start() -> None:
            # A newer run may have caused the failure, and this query would disturb that run's query.
            if self._run.storage.fence.newer_than(self._run.run.run) is None:
                runner.start()

        self._order(task, start, again=again)

    def suspend(self, command: c.SuspendTask) -> None:
        """Hold a task after its last batch record."""
        runner, task = self._streams[command.task], command.task
        again = self._has_failed(task)

        def suspend() -> e.Event:
            return e.TaskSuspended(task=task, batch=runner.suspend())

        self._order(task, suspend, again=again)

    def finish(self, command: c.FinishTask) -> None:
        """Let a task flush and finish."""
        runner, task = self._runners[command.task], command.task
        again = self._has_failed(task)

        def finish() -> e.Event:
            batch, notes = runner.finish(command.drain)
            return e.TaskFinished(task=task, batch=batch, drained=command.drain, notes=notes)

        self._order(task, finish, again=again)

    def close(self, command: c.CloseTask) -> None:
        """Release the query and the sinks of a task."""
        runner, task = self._runners[command.task], command.task

        def close() -> e.Event:
            runner.close()
            return e.TaskClosed(task=task)

        self._order(task, close)

    def _order(self, task: SubtaskId, act: Callable[[], e.Event | None], *, again: bool = False) -> None:
        """Carry out an order on the task's own thread; an exception becomes a `TaskFailed`.

        Args:
            again: the order begins another attempt, so the one before is ended first.
        """

        def carry_out() -> None:
            if self._is_over():
                return
            try:
                if again:
                    self._end_attempt(task)
                event = act()
            except BaseException as error:  # an order never ends silently
                event = e.TaskFailed(
                    task=task,
                    reason=one_line(error),
                    permanent=isinstance(error, RekindleError) and error.permanent,
                    error=known(error),
                    trace="".join(traceback.format_exception(error)),
                )
            if event is not None:
                self._run.post(event)

        self._workers[task].submit(carry_out)

    def _end_attempt(self, task: SubtaskId) -> None:
        """Close an attempt before the next one, after the commits that its sinks do now; on the task's own thread.

        If that takes too long, the next attempt begins with the sinks of this one.
        """
        runner = self._runners[task]
        runner.abandon()
        if not self._sinks.ask(partial(_close, runner), self._run.pauses.close_s):
            _LOG.warning("Task %s begins again before its sinks are closed: they still commit", task)

    def failed(self, task: SubtaskId) -> None:
        """Note that the attempt of a task has failed."""
        self._failed.add(task)

    def _has_failed(self, task: SubtaskId) -> bool:
        """Return True, once, if the attempt of a task has failed."""
        failed = task in self._failed
        self._failed.discard(task)
        return failed

    # -- what is done at once -----------------------------------------------------------------------------------------

    def stop_sources(self, command: c.StopSources) -> None:
        """Stop reading the sources of a task."""
        self._streams[command.task].stop_sources()

    def allow(self, command: c.AllowReading) -> None:
        """Let a task continue to read a channel."""
        self._runners[command.task].allow(command.producer, command.upto)

    def kill(self, command: c.KillTask) -> None:
        """Interrupt a task."""
        if command.task in self._runners:
            self._runners[command.task].kill()

    def kill_all(self) -> None:
        """Interrupt all tasks."""
        for runner in self._runners.values():
            runner.kill()

    def tick(self, now_ms: int) -> None:
        """Pass the time to the runners of streams."""
        for runner in self._streams.values():
            tried(partial(runner.tick, now_ms))

    # -- the end ------------------------------------------------------------------------------------------------------

    def close_all(self) -> None:
        """Close all runners, on the thread that commits: no sink is closed while it commits."""
        self._sinks.submit(partial(_close_all, list(self._runners.values())))

    def end(self, wait_s: float) -> None:
        """End the threads of the tasks; wait for all of them together at most `wait_s` seconds."""
        for worker in self._workers.values():
            worker.close()
        join_all(self._workers.values(), wait_s)


def known(error: BaseException) -> tuple[str, dict[str, object]] | None:
    """Return code and parameters of an error, for an event; None: it has no code."""
    return (error.code, error.parameters) if isinstance(error, RekindleError) else None


def _close(runner: TaskRunner) -> None:
    """Close an attempt, in whatever way it ended (FLIP-147: close() also on failure and cancel)."""
    try:
        runner.close()
    except (Exception, SystemExit) as error:
        _LOG.warning("A task could not be closed: %s", one_line(error))


def _close_all(runners: Sequence[TaskRunner]) -> None:
    """Close all runners side by side, so that one that hangs does not block the others."""
    threads = [threading.Thread(target=_close, args=(runner,), name="close", daemon=True) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
