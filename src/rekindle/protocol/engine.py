"""The death of the engine that runs the queries: the work that needs no engine, and the move to another one.

Everything that is recorded is durable, and commits need no engine. So a job of which only the last checkpoint or its
commits are missing ends as usual, and a plain stop holds each task after its last batch record. All other work needs a
query, and so another engine: if the process can make one, a new run of the job continues with it (`FailOver`), for as
long as the restart strategy allows; else the job has failed.

A signal that ends the engine often ends the job too, a moment later. So work that needs a query is not tried for
`GRACE_MS`: a stop may come.
"""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.config import Config
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import TaskStatus

GRACE_MS = 1_000

TRIES = 3
"""Failures per task that a plain stop without an engine accepts: the death of a query counts, sometimes twice."""

_S = TaskStatus

NEEDS_NO_ENGINE = frozenset({_S.WAITING, _S.CLOSING, _S.CLOSED})
"""Statuses of tasks whose remaining work is done on the storage and by the sinks."""

_MAY_BE_HELD = NEEDS_NO_ENGINE | {_S.SUSPENDING, _S.RESTARTING, _S.STARTING, _S.RUNNING}
"""Statuses of tasks that a plain stop can still hold after their last batch record."""


class EngineFailures:
    """The engine of a job that is gone, if it is, and the number of engines that have died in a row."""

    def __init__(self, config: Config) -> None:
        #: the engine that is gone, which never comes back in this run; None: it lives
        self.lost: LostEngine | None = None
        self.restarts = Restarts(config)

    def died(self, reason: str, replaceable: bool, now_ms: int) -> None:
        """Note that the engine is gone; a repetition changes nothing."""
        if self.lost is None:
            self.lost = LostEngine(reason, replaceable, now_ms)


@dataclass(slots=True)
class LostEngine:
    """An engine that is gone."""

    reason: str
    #: True if the process can make another
    replaceable: bool
    since_ms: int
    #: number of orders and commits that have failed since then
    failures: int = 0

    def task_failed(self, status: TaskStatus) -> None:
        """Note that the order to a task in this status has failed; a task that waits or is closed had no order."""
        self.failures += status not in NEEDS_NO_ENGINE or status is TaskStatus.CLOSING

    def commit_failed(self) -> None:
        """Note that a commit has failed."""
        self.failures += 1

    def may_go_on(self, statuses: set[TaskStatus], *, plain_stop: bool, tasks: int) -> bool:
        """Return True while the job can still end well without an engine."""
        if statuses <= NEEDS_NO_ENGINE:
            return self.failures == 0
        return plain_stop and statuses <= _MAY_BE_HELD and self.failures < TRIES * tasks
