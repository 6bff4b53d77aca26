"""The parts of a job, and the steps that a handler of an event or a rule may take: to another state, to the end.

This module decides nothing: what an event changes is in `handlers`, what follows from the state in `rules`.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.protocol import commands as c
from rekindle.protocol.answers import Answers
from rekindle.protocol.coordinator import Coordinator
from rekindle.protocol.ending import Error, Stop
from rekindle.protocol.engine import LostEngine
from rekindle.protocol.reasons import Reason
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import JOB_STEPS, JobState
from rekindle.protocol.stopping import Stopping
from rekindle.protocol.story import Story
from rekindle.protocol.tasks import Tasks

_Commands = tuple[c.Command, ...]


class JobParts:
    """What the state of a job consists of."""

    def __init__(self, graph: JobGraph, config: Config, *, batch: bool = False) -> None:
        self.name = graph.name
        self.config = config
        #: its tasks have one batch each, and one checkpoint commits them
        self.batch = batch
        self.state = JobState.CREATED
        self.now_ms = 0
        self.coordinator = Coordinator(config, graph.topology)
        self.tasks = Tasks(graph, self.coordinator.barriers, config)
        self.stopping = Stopping(graph.name)
        self.answers = Answers(graph.name, self.stopping)
        #: set once the engine is gone, which never comes back in this run
        self.lost: LostEngine | None = None
        #: engines that have died in a row
        self.engines = Restarts(config)
        #: nothing more is heard or said
        self.exited = False
        self.story = Story()

    @property
    def stop(self) -> Stop | None:
        """The stop or drain in force."""
        return self.stopping.stop

    def become(self, state: JobState) -> None:
        """Move to another state; AssertionError for a step that the table has not."""
        assert (self.state, state) in JOB_STEPS, f"a job goes from {self.state.value} to {state.value} by no step"
        self.state = state

    def fail(self, code: str, **parameters: object) -> _Commands:
        """End as failed, with this error."""
        return self.end(JobState.FAILED, error=(code, parameters))

    def end(self, state: JobState, *, error: Error | None = None, waiting: Error | None = None) -> _Commands:
        """Decide the result. `waiting`: the answer to requests that it overtakes."""
        aborted = self.coordinator.give_up(self.now_ms, Reason.JOB_ENDED)
        told = waiting or error
        self.answers.overtaken(
            told,
            under_way=[
                *(one.checkpoint for one in self.coordinator.take_settled()),
                *self.coordinator.pending.values(),
            ],
            queue=self.coordinator.schedule.queue,
            sealing=self.coordinator.sealing.values(),
        )
        self.become(state)
        savepoint = self.answers.end(told, self.coordinator.latest)
        result = c.RecordResult(
            state=state.value,
            checkpoint=self.coordinator.latest,
            savepoint=savepoint,
            notes=tuple(self.answers.notes),
            error=error,
        )
        return (*aborted, result)
