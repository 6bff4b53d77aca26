"""The tables of legal steps, checked whole: every status of a task against every fact about it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.states import JOB_EVENTS, TASK_STEPS, JobState, TaskStatus
from tests.protocol.kit import A, B, created, everything, refuses, running, stop, tell

FACTS: dict[type[e.Event], e.TaskEvent] = {
    e.TaskStarted: e.TaskStarted(task=A),
    e.TaskSuspended: e.TaskSuspended(task=A, batch=1),
    e.TaskFinished: e.TaskFinished(task=A, batch=1),
    e.TaskClosed: e.TaskClosed(task=A),
    e.TaskFailed: e.TaskFailed(task=A, reason="boom"),
}

EVENTS: dict[type[e.Event], e.Event] = {
    **FACTS,
    e.BatchRecorded: e.BatchRecorded(task=A, batch=1),
    e.SourcesEnded: e.SourcesEnded(task=A),
    e.CaughtUp: e.CaughtUp(task=A, batch=0),
    e.JobStarted: e.JobStarted(now_ms=0),
    e.Ticked: e.Ticked(now_ms=1),
    e.SnapshotTaken: e.SnapshotTaken(task=A, checkpoint=99),
    e.SnapshotDeclined: e.SnapshotDeclined(task=A, checkpoint=99, detail=""),
    e.ManifestWritten: e.ManifestWritten(checkpoint=99),
    e.ManifestFailed: e.ManifestFailed(checkpoint=99, detail=""),
    e.TransactionsCommitted: e.TransactionsCommitted(checkpoint=99),
    e.CommitFailed: e.CommitFailed(checkpoint=99, detail=""),
    e.SavepointSealed: e.SavepointSealed(checkpoint=99, path="/p"),
    e.SavepointFailed: e.SavepointFailed(checkpoint=99, detail=""),
    e.CheckpointRequested: e.CheckpointRequested(request="r"),
    e.StopRequested: e.StopRequested(request="s"),
    e.CancelRequested: e.CancelRequested(request="c"),
    e.ResultRecorded: e.ResultRecorded(),
    e.EngineDied: e.EngineDied(reason="killed"),
    e.DriverFenced: e.DriverFenced(newer_run=2),
}

CHECKPOINT_FACTS = (
    e.SnapshotTaken, e.SnapshotDeclined, e.ManifestWritten, e.ManifestFailed, e.TransactionsCommitted, e.CommitFailed,
    e.SavepointSealed, e.SavepointFailed,
)  # fmt: skip


def test_the_tables_know_every_event_there_is() -> None:
    assert set(EVENTS) == set(e.ALL)
    assert set(TASK_STEPS) == set(FACTS)


@pytest.mark.parametrize(("kind", "status"), [*itertools.product(FACTS, TaskStatus)])
def test_every_fact_about_a_task_is_a_step_of_the_table_or_illegal(kind: type[e.Event], status: TaskStatus) -> None:
    job = running(A, B)
    state = job.tasks.states[A]
    job.tasks.states.become(A, status)
    if status in TASK_STEPS[kind]:
        job.tasks.step(FACTS[kind])
        assert state.status is TASK_STEPS[kind][status]
    else:
        message = refuses(job, FACTS[kind])
        assert f"{kind.__name__} is illegal while a/0 is {status.value}" in message
        for legal in TASK_STEPS[kind]:
            assert legal.value in message


@pytest.mark.parametrize(("kind", "state"), [*itertools.product(EVENTS, JOB_EVENTS)])
def test_every_event_is_legal_in_a_state_of_the_job_or_changes_nothing(kind: type[e.Event], state: JobState) -> None:
    job = created() if state is JobState.CREATED else running()
    if state is JobState.STOPPING:
        tell(job, stop("first"))
    if kind not in JOB_EVENTS[state]:
        message = refuses(job, EVENTS[kind])
        assert f"{kind.__name__} is illegal while job bids is {state.value}" in message
        for legal in JOB_EVENTS[state]:
            assert legal.__name__ in message
    elif job.tasks.states[A].status in TASK_STEPS.get(kind, dict.fromkeys(TaskStatus)):
        job.handle(EVENTS[kind])
        assert f"{kind.__name__}(" in str(job.story)


@pytest.mark.parametrize("kind", EVENTS)
def test_nothing_is_illegal_and_nothing_changes_once_the_run_is_over(kind: type[e.Event]) -> None:
    job = running()
    tell(job, e.CancelRequested(request="x"), e.ResultRecorded())
    before = everything(job)
    assert job.handle(EVENTS[kind]) == ()
    assert everything(job) == before


@pytest.mark.parametrize("kind", CHECKPOINT_FACTS)
def test_facts_about_a_checkpoint_that_is_not_pending_change_nothing(kind: type[e.Event]) -> None:
    job = running()
    before = {**everything(job), "story": None}
    assert job.handle(EVENTS[kind]) == ()
    assert {**everything(job), "story": None} == before


@pytest.mark.parametrize("kind", [*FACTS, e.BatchRecorded, e.SourcesEnded, e.SnapshotTaken])
def test_a_fact_about_an_unknown_task_is_illegal_and_the_known_ones_are_listed(kind: type[e.Event]) -> None:
    message = refuses(running(), replace(EVENTS[kind], task=SubtaskId("x", 0)))  # type: ignore[call-arg]
    assert f"{kind.__name__} is illegal while x/0 is no task of this job; legal: a/0" in message


def test_a_start_that_names_an_unknown_task_is_illegal() -> None:
    facts = {SubtaskId("x", 0): e.RestoredTask(ended=True)}
    assert "x/0 is no task of this job" in refuses(created(), e.JobStarted(now_ms=0, tasks=facts))


def test_the_story_is_in_the_error_and_does_not_grow_afterwards() -> None:
    job = running()
    message = refuses(job, e.TaskClosed(task=A))
    assert "Story:" in message
    assert "1 JobStarted(now_ms=0" in message
    assert "StartTask(cause=1, task=SubtaskId(task='a', subtask=0))" in message
    assert "2 TaskStarted(task=SubtaskId(task='a', subtask=0), backlog=False) → -" in message
