"""Carry out the orders of a simulated driver to its tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_files import SimulatedEnd
from rekindle.testing.simulated_run import Steps
from rekindle.testing.simulated_subtask import SimulatedQuery, SimulatedSubtask

if TYPE_CHECKING:
    from rekindle.testing.simulated_driver import SimulatedDriver


Work = Callable[["SimulatedDriver", SimulatedSubtask, Any], Steps]


def order(driver: SimulatedDriver, command: c.TaskCommand, work: Work) -> None:
    driver.lanes.put(command.task, answered(driver, command, work))


def answered(driver: SimulatedDriver, command: c.TaskCommand, work: Work) -> Steps:
    yield
    task = driver.tasks[command.task]
    if driver.run.faults.strike(0.03):
        fails(task, "the order failed")
        return
    yield from work(driver, task, command)


def fails(task: SimulatedSubtask, reason: str) -> None:
    task.run.post(task.id, e.TaskFailed(task=task.id, reason=reason))


def finished(task: SimulatedSubtask, end: SimulatedEnd) -> None:
    task.run.post(task.id, e.TaskFinished(task=task.id, batch=end.batch, drained=end.drained))


def start(driver: SimulatedDriver, task: SimulatedSubtask, command: c.StartTask) -> Steps:
    if (end := task.files.end) is not None:
        finished(task, end)
        return
    if driver.engine.lost:
        fails_without_engine(task)
        return
    task.query = SimulatedQuery(live=True)
    yield
    task.run.post(task.id, e.TaskStarted(task=task.id))


def hold(task: SimulatedSubtask) -> Steps:
    query = task.query
    while query.batch is not None:
        if next(query.batch, task) is task:
            query.batch = None
        yield
    task.query = SimulatedQuery()


def suspend(driver: SimulatedDriver, task: SimulatedSubtask, command: c.SuspendTask) -> Steps:
    yield from hold(task)
    if (yield from replay(driver, task)):
        task.run.post(task.id, e.TaskSuspended(task=task.id, batch=task.last))


def fails_without_engine(task: SimulatedSubtask) -> None:
    task.run.post(task.id, e.TaskFailed(task=task.id, reason="there is no engine", permanent=False))


def finish(driver: SimulatedDriver, task: SimulatedSubtask, command: c.FinishTask) -> Steps:
    run, files = task.run, task.files
    if files.end is None:
        if command.drain:
            if run.is_fenced():
                return
            files.drain_begun = True
            yield
        yield from hold(task)
        if not (yield from replay(driver, task)):
            return
        before = files.at(task.last)
        if before.held:
            if driver.engine.lost:
                fails_without_engine(task)
                return
            if not task.record(before.flushed()):
                return
            yield
            if not (yield from replay(driver, task)):
                return
        if run.faults.strike(0.05):
            fails(task, "finish() raised")
            return
        if run.is_fenced():
            return
        files.end = SimulatedEnd(task.last, command.drain)
        yield
    finished(task, files.end)


def replay(driver: SimulatedDriver, task: SimulatedSubtask) -> Generator[None, None, bool]:
    """Let Spark commit what is recorded; False where it would have to and is gone."""
    if task.last >= 0:
        task.tell()
    yield
    if driver.engine.lost and task.files.committed < task.last:
        fails_without_engine(task)
        return False
    task.spark_commits()
    yield
    return True


def close(driver: SimulatedDriver, task: SimulatedSubtask, command: c.CloseTask) -> Steps:
    yield
    task.query = SimulatedQuery()
    task.run.post(task.id, e.TaskClosed(task=task.id))


def allow(driver: SimulatedDriver, command: c.AllowReading) -> None:
    driver.tasks[command.task].allowed[command.producer] = command.upto


def stop_sources(driver: SimulatedDriver, command: c.StopSources) -> None:
    driver.tasks[command.task].stopped = True


def kill(driver: SimulatedDriver, command: c.KillTask) -> None:
    driver.tasks[command.task].query = SimulatedQuery()
