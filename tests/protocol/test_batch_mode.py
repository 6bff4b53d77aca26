"""A batch run: every task has one batch, one checkpoint commits everything, and it cannot be stopped on the way."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.config import Config
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.reasons import CheckpointKind
from rekindle.protocol.states import JobState
from tests.protocol.kit import (
    A,
    B,
    cancel,
    checkpoint,
    commit,
    finished,
    graph_of,
    recorded,
    snapshot,
    sources_ended,
    started,
    stop,
    taken,
    tell,
    tick,
    written,
)  # fmt: skip


def batch_job(*tasks: SubtaskId, **config: Any) -> JobMachine:
    """A batch run whose tasks have begun; B, where it is there, reads A."""
    job = JobMachine(graph_of(*tasks, reads={"b": "a"}), Config(**config), batch=True)
    tell(job, e.JobStarted(now_ms=0), *(started(task) for task in tasks))
    return job


def refused(request: str, verb: str) -> tuple[c.Command, ...]:
    return (c.AnswerRequest(request=request, error=("BATCH_VERB_REFUSED", {"job": "bids", "verb": verb})),)


def test_it_takes_one_checkpoint_when_every_task_has_ended_whatever_the_interval() -> None:
    job = batch_job(A, B, checkpoint_interval_ms=10)
    assert tick(job, 1_000) == ()
    assert tell(job, recorded(0, A)) == (c.AllowReading(task=B, producer=A, upto=1),)
    assert tell(job, sources_ended(A)) == (c.FinishTask(task=A, drain=False),)
    assert tick(job, 1_000) == ()
    assert tell(job, e.TaskFinished(task=A, batch=0, drained=False)) == ()
    assert tick(job, 1_000) == ()
    assert tell(job, recorded(0, B, a=1)) == (c.FinishTask(task=B, drain=False),)
    said = tell(job, e.TaskFinished(task=B, batch=0, drained=False))
    assert said == snapshot(1, A, B, batch=0)
    manifest = tell(job, taken(1, A), taken(1, B))
    assert [(one.kind, set(one.transactions)) for one in manifest if isinstance(one, c.WriteManifest)] == [
        (CheckpointKind.FINAL, {A, B})
    ]
    assert tell(job, written(1)) == (commit(1),)


@pytest.mark.parametrize(
    ("request_", "verb"),
    [
        (checkpoint("r"), "checkpoint"),
        (checkpoint("r", "/save"), "savepoint"),
        (stop("r"), "stop"),
        (stop("r", directory="/save"), "stop"),
        (stop("r", drain=True), "drain"),
    ],
)
def test_what_needs_a_place_to_stop_at_is_refused_and_the_run_goes_on(request_: e.Event, verb: str) -> None:
    """FLIP-45: a stop takes a checkpoint, which commits; a batch run commits once, at its end."""
    job = batch_job(A)
    assert job.handle(request_) == refused("r", verb)
    assert job.state is JobState.RUNNING
    assert tell(job, recorded(0), sources_ended()) == (c.FinishTask(task=A, drain=False),)


def test_it_can_be_cancelled() -> None:
    job = batch_job(A)
    assert job.handle(cancel()) == (c.RecordResult(state="CANCELED"),)


def test_a_stop_that_comes_when_it_has_ended_is_answered_with_that() -> None:
    job = batch_job(A)
    job.handle(cancel())
    job.handle(stop("late"))
    assert [one.request for one in job.answers.take()] == ["c1", "late"]


def test_a_streaming_run_is_asked_the_same_and_does_it() -> None:
    job = JobMachine(graph_of(A), Config())
    tell(job, e.JobStarted(now_ms=0), started())
    assert job.handle(stop("r")) == (c.SuspendTask(task=A),)
    assert tell(job, finished()) != ()
