"""A job that is started again and again, for years: what is remembered of its runs is bounded, and enough."""

from __future__ import annotations

from rekindle.runtime.retention import RUNS
from rekindle.storage import layout
from rekindle.storage.documents.runs import Result, Run
from tests.runtime.kit import JOB, NEVER, World, ended, until


def started_in_vain(world: World, first: int, last: int) -> None:
    """Runs of other processes: one of seven was killed, the others could not begin."""
    for number in range(first, last + 1):
        assert world.storage.fence.claim(Run(run=number, started_ms=0, lineage=1, host="elsewhere", pid=1))
        if number % 7 or number == last:
            world.storage.record_result(Result(run=number, state="FAILED", ended_ms=1, began=False))


def test_runs_are_forgotten_but_the_newest_and_those_that_are_named(world: World) -> None:
    settings = {**NEVER, "checkpoint.retained": "3"}
    world.rows.available, world.rows.ended = 10, False
    for _ in range(2):  # the first opens the lineage, and the second has a checkpoint that is kept
        handle = world.start(**settings)
        until(lambda: world.read() == 10)
        handle.stop()
        ended(handle)
    started_in_vain(world, 3, RUNS + 20)

    handle = world.start(**settings)
    assert len(world.storage.numbers(layout.runs(JOB))) == RUNS + 21, "until it has a checkpoint, all may still count"
    world.rows.available = 20
    until(lambda: world.read() == 20)
    handle.checkpoint()

    kept = {1, 2, 3, *range(22, RUNS + 22)}  # the third shows who knows the second that there are newer ones
    until(lambda: {*world.storage.numbers(layout.runs(JOB))} == kept)
    until(lambda: {int(name[:6]) for name in world.storage.store.names(layout.runs(JOB))} == kept)
    assert {manifest.run for manifest in world.manifests()} <= kept
    handle.stop()
    ended(handle)
    world.rows.available, world.rows.ended = 30, True
    assert world.run(**settings).state == "FINISHED"
    assert world.all_committed()
