"""A query that is stopped between two batches and started again, so that Spark keeps more batches of it."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.storage import layout
from tests.simulation.cooperative import Process, Strand
from tests.simulation.world import Plan, World


def one_task(files: int) -> Plan:
    """A history of so many files, of which each is a batch."""
    return Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="source", bounded=True, event_time="ts"),),
            tasks=(Task(uid="task", inputs=("source",), event_time="ts"),),
            sinks=(Sink(uid="task_out", task="task", kind="Fake"),),
        ),
        files={"source": [[("source", number, 10_000_000 + number)] for number in range(files)]},
        speed={"task": 10},
        windowed=frozenset(),
        live={},
        settings={"checkpoint.interval": "3 s", "input.target_batch_duration": "1 ms"},
        file_bytes=10**9,
    )


def ends_with_its_query(files: int) -> bool:
    """Live such a job; return whether its last batch was the last before its query was to be started again."""
    world = World(one_task(files), seed=1, calm=True)
    world.scheduler.starts_at_once = True
    folder = layout.subtask("simulated", "task", 0, 1)
    spawn, recorded = world.scheduler.spawn, list[int]()

    def noted(act: Callable[[], None], name: str, process: Process | None = None) -> Strand:
        if name.startswith("again-"):
            recorded.append(len(world.storage.records(folder)))
        return spawn(act, name, process)

    world.scheduler.spawn = noted  # type: ignore[method-assign]
    result = world.run(world.plan.settings)

    assert result is not None and result.state == "FINISHED"
    assert world.shown() == world.expected() and world.all_read()
    return recorded[-1:] == [len(world.storage.records(folder))]


def test_a_job_whose_last_batch_is_the_last_of_a_query_ends() -> None:
    """Which batch that is depends on the checkpoints; among ten jobs of other lengths there is one."""
    ends = [ends_with_its_query(files) for files in range(22, 32)]
    assert any(ends)
