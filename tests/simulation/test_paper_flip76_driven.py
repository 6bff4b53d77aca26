"""FLIP-76 on the real driver and the real channels: jobs that are killed all the time, and checkpoints that wait."""

from __future__ import annotations

import pytest

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId
from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from tests.simulation.world import Plan, World

ROWS = 400
LIVES_S = 15
"""How long a driver lives: longer than the batches that it sizes, and far shorter than the job."""

SETTINGS = {
    "checkpoint.retained": 2,
    "checkpoint.tolerable_failures": 99,
    "channel.max_in_flight_bytes": 10**9,
    "input.target_batch_duration": "2 s",
}


def plan(**settings: object) -> Plan:
    """A quick task reads a history of one row a file; a slow one reads that."""
    return Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="history", bounded=True, event_time="ts"),),
            tasks=(
                Task(uid="quick", inputs=("history",), event_time="ts", parallelism=2),
                Task(uid="slow", inputs=("quick",)),
            ),
            sinks=(Sink(uid="quick_out", task="quick", kind="Fake"), Sink(uid="slow_out", task="slow", kind="Fake")),
        ),
        files={"history": [[("history", number, 10_000_000 + number)] for number in range(ROWS)]},
        speed={"quick": 1000.0, "slow": 4.0},
        windowed=frozenset(),
        live={},
        settings={**SETTINGS, **settings},
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_a_job_that_is_killed_every_few_seconds_still_gets_on(mode: str, seed: int) -> None:
    """Thread: "late checkpoints, crash, recovery to a rather outdated checkpoint […] result in little to no progress";
    "End-users will see more progress even in unstable environments"."""
    world = World(
        plan(**{"checkpoint.mode": mode, "checkpoint.interval": "3 s", "channel.max_in_flight_bytes": 300}), seed
    )

    def dies_soon() -> None:
        world.scheduler.pause(LIVES_S)
        world.scheduler.kill()

    runs = 0
    while (result := world.run(world.plan.settings, dies_soon)) is None:
        runs += 1
        assert runs < 100, "it does not get on"

    assert result.state == "FINISHED"
    assert runs >= 5, "it has to be killed often for this to say anything"
    assert world.shown() == world.expected()
    assert world.all_read()


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_producers_write_records_while_a_checkpoint_waits_for_consumers(mode: str) -> None:
    """ "Upstream processes can continue to produce data, even if some operator still waits on a checkpoint barrier"."""
    # So small batches that the producers have far to go when the barrier is put down, and the reader has not begun.
    settings = {"checkpoint.mode": mode, "checkpoint.interval": "0", "input.target_batch_duration": "1 ms"}
    world = World(plan(**settings), 1)
    recorded: list[int] = []

    def records() -> int:
        folders = [layout.subtask("simulated", *SubtaskId("quick", index), 1) for index in (0, 1)]
        return sum(len(world.storage.records(folder)) for folder in folders)

    def asks() -> None:
        world.scheduler.pause(2, lambda: records() >= 6)
        world.ask(ControlRequest(verb="checkpoint"))
        recorded.append(records())
        world.scheduler.pause(10_000, lambda: bool(world.storage.checkpoints()))
        recorded.append(records())

    result = world.run(world.plan.settings, asks)

    assert result is not None and result.state == "FINISHED"
    asked, complete = recorded
    assert complete > asked, "they waited for the barrier to pass"
    assert world.shown() == world.expected()
