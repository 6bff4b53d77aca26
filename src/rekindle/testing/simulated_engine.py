"""The engine of a simulated run: when it dies, all queries die with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_run import SimulatedRun
from rekindle.testing.simulated_subtask import SimulatedSubtask


@dataclass(slots=True)
class SimulatedEngine:
    """The engine that a run has; the next run may get another."""

    #: engines that have died in a row before this run
    failures: int = 0
    #: it is gone
    lost: bool = False
    #: the command that left its run to the next, where there was one
    failed_over: c.FailOver | None = None

    def kill(self, run: SimulatedRun, tasks: Iterable[SimulatedSubtask], *, replaceable: bool) -> None:
        """Let the engine die, and all queries with it; some of that is noticed before the engine's own death."""
        self.lost = True
        for task in tasks:
            if task.query.live and run.faults.chance.random() < 0.5:
                run.post("watch", e.TaskFailed(task=task.id, reason="the query died"))
            task.query.live, task.query.batch = False, None
        run.post("engine", e.EngineDied(reason="killed", replaceable=replaceable))
