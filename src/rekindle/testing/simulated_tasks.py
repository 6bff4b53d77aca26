"""How a simulated driver carries out its orders to tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_files import SimulatedEnd
from rekindle.testing.simulated_parts import SimulatedParts, SimulatedQuery, Steps


def order(driver: SimulatedParts, command: c.TaskCommand, work: Callable[[SimulatedParts, Any], Steps]) -> None:
    driver.on(command.task, answered(driver, command.task, work(driver, command)))


def answered(driver: SimulatedParts, task: SubtaskId, work: Steps) -> Steps:
    yield
    if driver.faults.strike(0.03):
        driver.post(task, e.TaskFailed(task=task, reason="the order failed"))
        return
    yield from work


def start(driver: SimulatedParts, command: c.StartTask) -> Steps:
    task = command.task
    if (end := driver.world.tasks[task].end) is not None:
        driver.post(task, e.TaskFinished(task=task, batch=end.batch, drained=end.drained))
        return
    if driver.lost:
        fails_without_engine(driver, task)
        return
    driver.queries[task] = SimulatedQuery(live=True)
    yield
    driver.post(task, e.TaskStarted(task=task))


def hold(driver: SimulatedParts, task: SubtaskId) -> Steps:
    query = driver.queries[task]
    while query.batch is not None:
        if next(query.batch, driver) is driver:
            query.batch = None
        yield
    driver.queries[task] = SimulatedQuery()


def suspend(driver: SimulatedParts, command: c.SuspendTask) -> Steps:
    yield from hold(driver, command.task)
    if (yield from replay(driver, command.task)):
        driver.post(command.task, e.TaskSuspended(task=command.task, batch=driver.last[command.task]))


def fails_without_engine(driver: SimulatedParts, task: SubtaskId) -> None:
    driver.post(task, e.TaskFailed(task=task, reason="there is no engine", permanent=False))


def finish(driver: SimulatedParts, command: c.FinishTask) -> Steps:
    task, files = command.task, driver.world.tasks[command.task]
    if files.end is None:
        if command.drain:
            if driver.is_fenced():
                return
            files.drain_begun = True
            yield
        yield from hold(driver, task)
        if not (yield from replay(driver, task)):
            return
        if files.at(driver.last[task]).held:
            if driver.lost:
                fails_without_engine(driver, task)
                return
            if not driver.record(task, files.flushed(driver.last[task])):
                return
            yield
            if not (yield from replay(driver, task)):
                return
        if driver.faults.strike(0.05):
            driver.post(task, e.TaskFailed(task=task, reason="finish() raised"))
            return
        if driver.is_fenced():
            return
        files.end = SimulatedEnd(driver.last[task], command.drain)
        yield
    driver.post(task, e.TaskFinished(task=task, batch=files.end.batch, drained=files.end.drained))


def replay(driver: SimulatedParts, task: SubtaskId) -> Generator[None, None, bool]:
    """Let Spark commit what is recorded; False where it would have to and is gone."""
    if driver.last[task] >= 0:
        driver.tell(task)
    yield
    if driver.lost and driver.world.tasks[task].committed < driver.last[task]:
        fails_without_engine(driver, task)
        return False
    driver.spark_commits(task)
    yield
    return True


def close(driver: SimulatedParts, command: c.CloseTask) -> Steps:
    yield
    driver.queries[command.task] = SimulatedQuery()
    driver.post(command.task, e.TaskClosed(task=command.task))


def allow(driver: SimulatedParts, command: c.AllowReading) -> None:
    driver.allowed[command.task][command.producer] = command.upto


def kill(driver: SimulatedParts, command: c.KillTask) -> None:
    driver.queries[command.task] = SimulatedQuery()
