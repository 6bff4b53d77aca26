"""The parts of a job.

This module decides nothing: `handlers` change the parts for each event, `rules` follow from their state, and `results`
end the job.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.protocol import commands as c
from rekindle.protocol.answers import Answers
from rekindle.protocol.coordinator import Coordinator
from rekindle.protocol.engine import EngineFailures
from rekindle.protocol.scheduler import Scheduler
from rekindle.protocol.states import JOB_STEPS, JobState
from rekindle.protocol.stopping import Stopping
from rekindle.protocol.tasks import Tasks

_Commands = tuple[c.Command, ...]


class JobParts:
    """The state of a job, as its parts."""

    def __init__(self, graph: JobGraph, config: Config, *, batch: bool = False) -> None:
        self.name = graph.name
        #: True if its tasks have one batch each, and one checkpoint commits them
        self.batch = batch
        self.state = JobState.CREATED
        self.now_ms = 0
        self.coordinator = Coordinator(config, graph.topology)
        self.tasks = Tasks(graph, self.coordinator.snapshots.barriers, config)
        self.scheduler = Scheduler(self.tasks, self.coordinator.snapshots.barriers)
        self.stopping = Stopping(graph.name, config)
        self.answers = Answers(graph.name, self.stopping)
        self.engines = EngineFailures(config)
        #: True once the run is over: events are ignored, and no command follows
        self.exited = False

    def become(self, state: JobState) -> None:
        """Move to another state; AssertionError for a step that is not in the table."""
        assert (self.state, state) in JOB_STEPS, f"a job goes from {self.state.value} to {state.value} by no step"
        self.state = state
