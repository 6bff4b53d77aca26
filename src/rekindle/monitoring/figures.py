"""Figures of subtasks, added up to those of a task or of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rekindle.monitoring.views import SubtaskView
from rekindle.storage.documents.history import TaskRates
from rekindle.storage.documents.status import TaskStatusDocument

Number = TypeVar("Number", int, float)


def total(values: Iterable[Number | None]) -> Number | None:
    """Add up the values that there are; None: there are none."""
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def least(values: Iterable[Number | None]) -> Number | None:
    """Return the least of the values that there are; None: there are none."""
    return min((value for value in values if value is not None), default=None)


def greatest(values: Iterable[Number | None]) -> Number | None:
    """Return the greatest of the values that there are; None: there are none."""
    return max((value for value in values if value is not None), default=None)


def of_sources(tasks: Sequence[TaskStatusDocument]) -> float | None:
    """Return the rows that tasks read of sources, a second; what they read of each other is not counted twice."""
    names = {task.uid for task in tasks}
    return total(item.rows_per_second for task in tasks for uid, item in task.inputs.items() if uid not in names)


def of_status(
    subtasks: Sequence[SubtaskView], figure: Callable[[TaskStatusDocument], Number | None]
) -> list[Number | None]:
    """Return a figure of each heartbeat."""
    return [figure(one.status) for one in subtasks]


def of_rates(subtasks: Sequence[SubtaskView], figure: Callable[[TaskRates], Number | None]) -> list[Number | None]:
    """Return a figure of each sample that there is."""
    return [figure(one.rates) for one in subtasks if one.rates is not None]
