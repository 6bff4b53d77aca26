"""After a recovery a checkpoint covers the first rows for a sink at once: readers have waited since the crash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import Sink
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from tests.protocol.kit import A, B, done, graph_of, recorded, tell, tick

EVERY_MS = 30_000


def with_sink(**config: Any) -> JobMachine:
    """A job in which B, which has a sink, reads A."""
    graph = replace(graph_of(A, B, reads={"b": "a"}), sinks=(Sink(uid="out", task="b"),))
    return JobMachine(graph, Config(**{"checkpoint_interval_ms": EVERY_MS, **config}))


def recovered(*, committed: bool = True, **config: Any) -> JobMachine:
    """That job, which runs again after batch 4 of both tasks; checkpoint 7 covers them."""
    job, facts = with_sink(**config), {A: e.RestoredTask(batch=4, committed=4)}
    facts[B] = replace(facts[A], read={A: 5})
    tell(job, e.JobStarted(now_ms=0, next_checkpoint=8, latest_checkpoint=7, committed=committed, tasks=facts))
    tell(job, e.TaskStarted(task=A), e.TaskStarted(task=B))
    return job


def rows(batch: int, rows_out: int | None = 1) -> e.Event:
    """A batch of B, which has read all of A."""
    return e.BatchRecorded(task=B, batch=batch, read={A: batch + 1}, rows_out=rows_out)


def covered(said: tuple[c.Command, ...]) -> dict[int, dict[str, int]]:
    """Return checkpoint → task → batch, of the snapshots that are ordered."""
    found: dict[int, dict[str, int]] = {}
    for one in said:
        if isinstance(one, c.TakeSnapshot):
            found.setdefault(one.checkpoint, {})[one.task.task] = one.batch
    return found


def test_the_first_rows_are_covered_at_once_and_the_next_ones_by_the_interval() -> None:
    job = recovered()
    assert covered(tick(job, 500)) == {}
    assert covered(job.handle(recorded(5))) == {}  # no sink shows the rows of A
    assert covered(job.handle(rows(5))) == {8: {"a": 5, "b": 5}}
    tell(job, *done(8, A, B), recorded(6))
    assert covered(job.handle(rows(6))) == {}
    assert covered(tick(job, EVERY_MS - 1)) == {}
    assert covered(tick(job, 1)) == {9: {"a": 6, "b": 6}}


def test_a_batch_without_rows_is_waited_out_and_one_whose_rows_are_not_counted_is_not() -> None:
    for rows_out in (1, None):
        job = recovered()
        tell(job, recorded(5))
        assert covered(job.handle(rows(5, 0))) == {}
        tell(job, recorded(6))
        assert covered(job.handle(rows(6, rows_out))) == {8: {"a": 6, "b": 6}}


def test_first_rows_that_come_late_do_not_wait_for_the_interval_either() -> None:
    job = recovered()
    assert covered(tick(job, EVERY_MS)) == {8: {"a": 4, "b": 4}}
    tell(job, *done(8, A, B), recorded(5))
    assert covered(tick(job, 1_000)) == {}
    assert covered(job.handle(rows(5))) == {9: {"a": 5, "b": 5}}


def test_the_minimum_pause_after_another_checkpoint_is_kept() -> None:
    job = recovered(checkpoint_min_pause_ms=2_000)
    tick(job, EVERY_MS)
    tell(job, *done(8, A, B), recorded(5))
    tick(job, 1_500)
    assert covered(job.handle(rows(5))) == {}
    assert covered(tick(job, 499)) == {}
    assert covered(tick(job, 1)) == {9: {"a": 5, "b": 5}}


def test_what_the_crash_left_to_commit_is_committed_first() -> None:
    job = recovered(committed=False)
    tell(job, recorded(5))
    assert covered(job.handle(rows(5))) == {}
    assert covered(job.handle(e.TransactionsCommitted(checkpoint=7))) == {8: {"a": 5, "b": 5}}


def test_a_first_start_waits_for_its_interval() -> None:
    job = with_sink()
    tell(job, e.JobStarted(now_ms=0, tasks=dict.fromkeys((A, B), e.RestoredTask())))
    tell(job, e.TaskStarted(task=A), e.TaskStarted(task=B), recorded(0))
    assert covered(job.handle(rows(0))) == {}
    assert covered(tick(job, EVERY_MS)) == {1: {"a": 0, "b": 0}}


def test_where_periodic_checkpoints_are_off_none_is_taken() -> None:
    job = recovered(checkpoint_interval_ms=0)
    tell(job, recorded(5))
    assert covered(job.handle(rows(5))) == {}
