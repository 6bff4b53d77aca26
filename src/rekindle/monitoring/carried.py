"""The heartbeat of a run as the next one shows it until it has one of its own."""

from __future__ import annotations

from dataclasses import replace

from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import InputStatus, Status, TaskStatusDocument


def carried_over(status: Status, run: Run) -> Status:
    """Return of a heartbeat what is true in `run` too: all of it where it is the run's own, else what outlives a run.

    That is: checkpoints, rows, and how far each input was read. A run of the same process shows its failures and
    restarts too, as its own heartbeat will.
    """
    if status.run == run.run:
        return status
    tasks = tuple(map(_carried, status.tasks))
    if (status.host, status.pid, status.process_started) == (run.host, run.pid, run.process_started):
        return replace(status, tasks=tasks)
    return replace(status, tasks=tasks, failure=None, restarts=0, next_attempt_ms=None, error=None)


def _carried(task: TaskStatusDocument) -> TaskStatusDocument:
    return replace(
        task,
        status=task.status if task.status == "closed" else "starting",
        inputs={uid: _read_so_far(item) for uid, item in task.inputs.items()},
        rows_per_second=None,
        busy_ms=0,
        held_ms=0,
        batch_so_far_ms=None,
        look_so_far_ms=None,
        lag_ms=None,
        busy=None,
        back_pressured=None,
        idle=None,
        failure=None,
        restarts=0,
        next_attempt_ms=None,
    )


def _read_so_far(item: InputStatus) -> InputStatus:
    return replace(item, idle=False, rows_per_second=None)
