"""The diagrams in docs/protocol.md show what the protocol does: every step that it takes is drawn, and no other.

Its steps are those of the scenario scripts, and of random walks through a small job. Where a step is drawn that no
script takes, a story is missing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.pending_checkpoint import PHASE_STEPS, Phase
from rekindle.protocol.states import JOB_STEPS, ORDER_STEPS, TASK_STEPS, JobState, TaskStatus
from rekindle.testing.scenario import record
from tools import make_docs, protocol_docs

SCRIPTS = sorted((make_docs.ROOT / "tests" / "scenarios").glob("*.txt"))
WALKS = 300
WALK_LENGTH = 150

_HANDLE = JobMachine.handle

_ORDERED = {
    c.StartTask: TaskStatus.STARTING,
    c.SuspendTask: TaskStatus.SUSPENDING,
    c.FinishTask: TaskStatus.FINISHING,
    c.CloseTask: TaskStatus.CLOSING,
}
"""Order → where a task stands that was given it."""


class Steps:
    """The steps that were seen."""

    def __init__(self) -> None:
        self.jobs: set[tuple[JobState, JobState]] = set()
        self.orders: set[tuple[TaskStatus, type[c.Command], TaskStatus]] = set()
        self.phases: set[tuple[Phase, Phase]] = set()

    def handle(self, job: JobMachine, event: e.Event) -> tuple[c.Command, ...]:
        """Let the job hear the event, and look what it does."""
        state, statuses = job.state, job.tasks.states.statuses()
        phases = _phases(job)
        commands = _HANDLE(job, event)
        if isinstance(event, e.DriverFenced):
            return commands
        if state is not job.state:
            self.jobs.add((state, job.state))
        if isinstance(event, e.JobStarted):
            statuses = dict.fromkeys(statuses, TaskStatus.STARTING)
        elif isinstance(event, e.TaskEvent) and type(event) in TASK_STEPS:
            statuses[event.task] = TASK_STEPS[type(event)].get(statuses[event.task], statuses[event.task])
        for command in commands:
            if type(command) in _ORDERED:
                assert isinstance(command, c.TaskCommand)
                self.orders.add((statuses[command.task], type(command), _ORDERED[type(command)]))
                statuses[command.task] = _ORDERED[type(command)]
        self._see_phases(phases, job, commands)
        return commands

    def _see_phases(self, before: dict[int, Phase], job: JobMachine, commands: tuple[c.Command, ...]) -> None:
        after = _phases(job)
        aborted = {one.checkpoint for one in commands if isinstance(one, c.AbortCheckpoint)}
        for number in {*before, *after, *aborted}:
            place = before.get(number, Phase.ACKNOWLEDGING)
            new = after.get(number, Phase.FAILED if number in aborted else Phase.COMPLETE)
            way = [place, new]
            if place is Phase.ACKNOWLEDGING and new is Phase.WRITING:
                way[1:1] = [Phase.READY]  # it does not stay there
            self.phases |= {(a, b) for a, b in pairwise(way) if a is not b}


def _phases(job: JobMachine) -> dict[int, Phase]:
    under_way = {**job.coordinator.settlement.completed.sealing, **job.coordinator.pending}
    return {number: one.phase for number, one in under_way.items()}


DRAWN_ORDERS = {(before, kind, after) for kind, moves in ORDER_STEPS.items() for before, after in moves.items()}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps of every job that is played in this test."""
    seen = Steps()

    def handle(job: JobMachine, event: e.Event) -> tuple[c.Command, ...]:
        return seen.handle(job, event)

    monkeypatch.setattr(JobMachine, "handle", handle)
    return seen


# --- what is drawn is what is done ------------------------------------------------------------------------------------


def test_what_the_scenarios_do_is_drawn_and_what_is_drawn_they_do(steps: Steps) -> None:
    for script in SCRIPTS:
        record(script.read_text(encoding="utf-8"))
    assert steps.jobs == JOB_STEPS.keys()
    assert steps.phases == PHASE_STEPS.keys()
    assert steps.orders == DRAWN_ORDERS


def test_what_a_job_does_that_hears_anything_is_drawn(steps: Steps) -> None:
    for seed in range(WALKS):
        wander(random.Random(seed))
    assert steps.jobs <= JOB_STEPS.keys()
    assert steps.phases <= PHASE_STEPS.keys()
    assert steps.orders <= DRAWN_ORDERS


def test_every_status_phase_and_state_is_drawn() -> None:
    for name, kind in {"task": TaskStatus, "checkpoint": Phase, "job": JobState}.items():
        drawn = {state for before, after, _ in protocol_docs.arrows(name) for state in (before, after)}
        assert {one.value for one in kind} <= drawn


@pytest.mark.parametrize("name", ["task", "checkpoint", "job", "operator"])
def test_the_diagrams_of_a_machine_have_each_of_its_steps_once(name: str) -> None:
    drawn = re.findall(r"^    (\S+) --> (\S+): (.+)$", protocol_docs.machine(name), re.MULTILINE)
    assert sorted(drawn) == sorted(protocol_docs.arrows(name))


READ, COUNT = SubtaskId("read", 0), SubtaskId("count", 0)
GRAPH = JobGraph(
    name="bids",
    sources=(Source(uid="bids", bounded=True),),
    tasks=(Task(uid="read", inputs=("bids",)), Task(uid="count", inputs=("read",))),
    sinks=(Sink(uid="table", task="count"),),
)


UNLUCKY = (e.CancelRequested, e.TaskFailed, e.SnapshotDeclined, e.ManifestFailed, e.CommitFailed, e.Ticked)
"""What would end most lives early."""


def wander(chance: random.Random) -> None:
    """A life of a job in which anything may happen next."""
    concurrent, mode = chance.choice([(1, "unaligned"), (2, "aligned")])
    config = Config(
        checkpoint_interval_ms=0,
        checkpoint_mode=mode,
        checkpoint_max_concurrent=concurrent,
        checkpoint_tolerable_failures=chance.choice([0, 9]),
        restart_attempts=chance.choice([1, 9]),
    )
    job, allowed, luck = JobMachine(GRAPH, config), 0, chance.choice([0.0, 0.9])
    for step in range(WALK_LENGTH):
        event = chance.choice([*could_happen(job, config, allowed, f"r{step}")])
        if isinstance(event, UNLUCKY) and chance.random() < luck:
            continue
        try:
            commands = job.handle(event)
        except ProtocolError:
            continue
        allowed = max([allowed, *(one.upto for one in commands if isinstance(one, c.AllowReading))])


def could_happen(job: JobMachine, config: Config, allowed: int, request: str) -> Iterator[e.Event]:
    """What may be tried next; part of it is illegal."""
    if job.state is JobState.CREATED:
        for fact in ({}, {"ended": True}, {"closed": True}, {"ended": True, "drained": True}):
            yield e.JobStarted(now_ms=0, next_checkpoint=2, latest_checkpoint=1, tasks={READ: e.RestoredTask(**fact)})
        return
    batches = job.coordinator.snapshots.barriers.batches
    drained = job.stopping.stop is not None and job.stopping.stop.drain
    for task in (READ, COUNT):
        yield e.TaskStarted(task=task)
        yield e.TaskSuspended(task=task, batch=batches[task])
        yield e.TaskFinished(task=task, batch=batches[task], drained=drained)
        yield e.TaskClosed(task=task)
        yield e.TaskFailed(task=task, reason="")
    yield e.SourcesEnded(task=READ)
    yield e.BatchRecorded(task=COUNT, batch=batches[COUNT] + 1, read={READ: allowed})
    if job.tasks.states[READ].status is TaskStatus.RUNNING:
        yield e.BatchRecorded(task=READ, batch=batches[READ] + 1)
    for number in (1, *job.coordinator.pending):
        for task in (READ, COUNT):
            yield e.SnapshotTaken(task=task, checkpoint=number, batch=batches[task])
            yield e.SnapshotTaken(task=task, checkpoint=number, batch=batches[task])
        yield e.ManifestWritten(checkpoint=number)
        yield e.TransactionsCommitted(checkpoint=number)
        yield e.SavepointSealed(checkpoint=number, path="/save")
        yield e.SavepointFailed(checkpoint=number, detail="")
    failing = max(job.coordinator.pending, default=1)
    yield e.SnapshotDeclined(task=READ, checkpoint=failing, detail="")
    yield e.ManifestFailed(checkpoint=failing, detail="")
    yield e.CommitFailed(checkpoint=failing, detail="")
    for after_ms in (1, config.restart_delay_max_ms, config.checkpoint_timeout_ms):
        yield e.Ticked(now_ms=job.now_ms + after_ms)
    yield e.CheckpointRequested(request=request)
    yield e.CheckpointRequested(request=request, directory="/save")
    yield e.StopRequested(request=request)
    yield e.StopRequested(request=request, directory="/save")
    yield e.StopRequested(request=request, drain=True)
    yield e.CancelRequested(request=request)


# --- citations --------------------------------------------------------------------------------------------------------


def test_a_citation_is_listed_under_its_section() -> None:
    named = {
        "FLIP-147, Triggering, twice: x": "FLIP-147, Triggering Checkpoints After Tasks Finished",
        'FLIP-147: "The finish() method"': "FLIP-147, Changes the Operator APIs Related to Finish",
        "FLIP-147, appendix 1, observation 1: ALL_TO_ALL": "FLIP-147, Appendix 1",
        'FLIP-45, Conclusion: "always"': "FLIP-45, Conclusion",
        'FLIP-45, Foreword: "hello"': "FLIP-45, Foreword",
    }
    assert {citation: protocol_docs.section_of(citation) for citation in named} == named


def test_tests_that_cite_are_found_with_the_name_of_the_paper_from_their_module(tmp_path: Path) -> None:
    for folder in ("graph", "protocol", "testing"):
        (tmp_path / folder).mkdir()
    (tmp_path / "protocol" / "test_paper.py").write_text(
        '"""FLIP-45, stopping."""\n'
        'def test_a():\n    """Conclusion: "x"."""\n'
        'def test_b():\n    """Architecture: y."""\n'
        'def test_c():\n    """FLIP-76, thread: z."""\n'
        "def test_d():\n    pass\n"
        'def helper():\n    """Conclusion: "x"."""\n'
    )
    (tmp_path / "graph" / "test_other.py").write_text('def test_e():\n    """Conclusion: of nothing."""\n')
    assert [*protocol_docs.citations(tmp_path)] == [
        ("protocol/test_paper.py", "test_a", 'FLIP-45, Conclusion: "x".'),
        ("protocol/test_paper.py", "test_c", "FLIP-76, thread: z."),
    ]
