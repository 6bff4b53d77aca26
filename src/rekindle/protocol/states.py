"""The states of a job and of its tasks, and every legal step between them, as tables.

Theory of operation
-------------------

Two machines, coupled. A *task* goes (FLIP-147, "Final Checkpoint and Stopping Job With Savepoint")::

                     ┌────────────────────────────────────────────┐
                     ▼                                            │ due
    STARTING ──► RUNNING ──► FINISHING ──► WAITING ──► CLOSING ──► CLOSED
       │            │           │ ▲           ▲
       │            ├──► SUSPENDING ──────────┘
       └────────────┴───────────┴──► RESTARTING

WAITING is Flink's WAITING_FOR_FINAL_CP: the task has ended its data, by finishing its operator logic (FINISHING: flush,
``finish()``, EndOfData[finished=true]) or by being held at a batch boundary (SUSPENDING: EndOfData[finished=false]),
and waits for a completed checkpoint that started afterwards. All tasks wait at the same time.

Orders to one task are carried out one after the other, but the death of a query is noticed independently of them, late
or twice. So the outcome of an earlier order may still be reported for a task that is RESTARTING. If the order ended the
task, it need not be restarted. If it started the task, the restart is still due: the death may have come after it.

The *job* ends when all its tasks are CLOSED. The name of its result depends on what ended it: its inputs (FINISHED), a
stop (STOPPED), a drain (DRAINED). CANCELED and FAILED can come at any time and wait for no task.

The tables know only names. `job` and `coordinator` say why a step is taken.
"""

from __future__ import annotations

from enum import Enum

from rekindle.protocol import commands as c
from rekindle.protocol import events as e


class JobState(Enum):
    """The state of a job, as ``rekindle status`` names it."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    #: a stop or drain is under way
    STOPPING = "STOPPING"
    #: all inputs have ended and everything is committed
    FINISHED = "FINISHED"
    #: stopped by the user; a later start resumes from here
    STOPPED = "STOPPED"
    #: ended by the user, everything flushed
    DRAINED = "DRAINED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        """Return whether the run is over."""
        return self not in (JobState.CREATED, JobState.RUNNING, JobState.STOPPING)


class TaskStatus(Enum):
    """The status of a subtask, as ``rekindle status`` names it."""

    STARTING = "starting"
    RUNNING = "running"
    SUSPENDING = "suspending"
    FINISHING = "finishing"
    WAITING = "waiting_for_final_checkpoint"
    CLOSING = "closing"
    CLOSED = "closed"
    RESTARTING = "restarting"


_S = TaskStatus

TASK_STEPS: dict[type[e.Event], dict[TaskStatus, TaskStatus]] = {
    # A query that comes up after its task was ordered to end changes nothing: that order is already on its way. It
    # comes up twice where its death was noticed twice.
    e.TaskStarted: {
        _S.STARTING: _S.RUNNING,
        _S.RUNNING: _S.RUNNING,
        _S.SUSPENDING: _S.SUSPENDING,
        _S.FINISHING: _S.FINISHING,
        _S.WAITING: _S.WAITING,
        _S.CLOSING: _S.CLOSING,
        _S.RESTARTING: _S.RESTARTING,
    },
    # The order may have been given twice (a death was noticed in between), or its stop given up meanwhile.
    e.TaskSuspended: {
        _S.SUSPENDING: _S.WAITING,
        _S.RESTARTING: _S.WAITING,
        _S.WAITING: _S.WAITING,
        _S.CLOSING: _S.CLOSING,
        _S.STARTING: _S.STARTING,
        _S.RUNNING: _S.RUNNING,
        _S.FINISHING: _S.FINISHING,
    },
    # Its end is durable, whatever it was ordered afterwards.
    e.TaskFinished: {
        _S.FINISHING: _S.WAITING,
        _S.RESTARTING: _S.WAITING,
        _S.STARTING: _S.WAITING,
        _S.RUNNING: _S.WAITING,
        _S.SUSPENDING: _S.WAITING,
        _S.WAITING: _S.WAITING,
        _S.CLOSING: _S.CLOSING,
    },
    e.TaskClosed: {_S.CLOSING: _S.CLOSED},
    # One death of a query may be noticed twice. A task that waits or is closed has no query left to lose.
    e.TaskFailed: {
        _S.STARTING: _S.RESTARTING,
        _S.RUNNING: _S.RESTARTING,
        _S.SUSPENDING: _S.RESTARTING,
        _S.FINISHING: _S.RESTARTING,
        _S.RESTARTING: _S.RESTARTING,
        _S.CLOSING: _S.CLOSING,
        _S.WAITING: _S.WAITING,
        _S.CLOSED: _S.CLOSED,
    },
}
"""Event about a task → status before → status after. Other statuses before are illegal."""

ORDER_STEPS: dict[type[c.TaskCommand], dict[TaskStatus, TaskStatus]] = {
    c.StartTask: {_S.STARTING: _S.STARTING, _S.RESTARTING: _S.STARTING, _S.WAITING: _S.STARTING},
    c.SuspendTask: {_S.STARTING: _S.SUSPENDING, _S.RUNNING: _S.SUSPENDING, _S.RESTARTING: _S.SUSPENDING},
    # A task held for a stop that was given up may have read its inputs to their end meanwhile.
    c.FinishTask: {
        _S.STARTING: _S.FINISHING,
        _S.RUNNING: _S.FINISHING,
        _S.RESTARTING: _S.FINISHING,
        _S.WAITING: _S.FINISHING,
    },
    c.CloseTask: {_S.WAITING: _S.CLOSING},
}
"""Order to a task → status before → status after. Other orders do not change the status."""

JOB_STEPS: dict[tuple[JobState, JobState], str] = {
    (JobState.CREATED, JobState.RUNNING): "JobStarted",
    (JobState.CREATED, JobState.STOPPING): "JobStarted in a drain",
    (JobState.RUNNING, JobState.STOPPING): "StopRequested, or its sources have caught up",
    (JobState.STOPPING, JobState.RUNNING): "a plain stop is given up",
    (JobState.RUNNING, JobState.FINISHED): "all closed",
    (JobState.STOPPING, JobState.FINISHED): "all closed, none by the stop",
    (JobState.STOPPING, JobState.STOPPED): "all closed, some were held",
    (JobState.STOPPING, JobState.DRAINED): "all closed, some were drained",
    (JobState.RUNNING, JobState.CANCELED): "CancelRequested",
    (JobState.STOPPING, JobState.CANCELED): "CancelRequested",
    (JobState.RUNNING, JobState.FAILED): "a failure too many",
    (JobState.STOPPING, JobState.FAILED): "a failure too many",
}
"""Every step of a job → its cause in words. A driver that is fenced leaves any state, without a result."""

_WHILE_OPEN = tuple(kind for kind in e.ALL if kind not in (e.JobStarted, e.ResultRecorded))

JOB_EVENTS: dict[JobState, tuple[type[e.Event], ...]] = {
    JobState.CREATED: (e.JobStarted, e.Ticked, e.DriverFenced),
    JobState.RUNNING: _WHILE_OPEN,
    JobState.STOPPING: _WHILE_OPEN,
}
"""Job state → events that it accepts. Terminal states accept all; events that come too late change nothing."""
