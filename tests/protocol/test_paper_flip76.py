"""FLIP-76, "Unaligned checkpoints": one test for each key point of its proposal, on graphs of several tasks.

The points are quoted in the docstrings. The handling of single barriers is in `test_alignment`. Not applicable: the
writing of channel state (ours is durable as segments, and only named), and "faster rescaling".
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from tests.protocol.kit import A, B, checkpoint, sources_ended, stop
from tests.protocol.obedient import Obedient, graph

C, D = SubtaskId("c", 0), SubtaskId("d", 0)
JOIN = graph(a="s", b="t", c="a b")
UNALIGNED: dict[str, Any] = {"checkpoint_mode": "unaligned"}


def snapshots(world: Obedient, number: int = 1) -> dict[SubtaskId, dict[SubtaskId, tuple[int, int]]]:
    """Who was told to take its snapshot for a checkpoint, and what was in flight to it."""
    return {one.task: dict(one.in_flight) for one in world.said(c.TakeSnapshot) if one.checkpoint == number}


def allowed(world: Obedient, task: SubtaskId) -> dict[SubtaskId, int]:
    return world.allowed.get(task, {})


def test_an_aligned_barrier_behind_a_backlog_holds_up_the_other_channels() -> None:
    """What it is against: "the other channels and their upstream operators are effectively blocked during
    checkpointing"."""
    world = Obedient(JOIN, slow=[C])
    world.write(A, A)
    world.hear(checkpoint())
    world.write(B)
    assert allowed(world, C) == {A: 2}  # B's barrier is there already, and nothing behind it may be read
    world.read(C)
    assert allowed(world, C) == {A: 2, B: 1}


def test_an_unaligned_barrier_holds_up_nothing() -> None:
    """Key point: "Upstream processes can continue to produce data, even if some operator still waits on a checkpoint
    barrier on a specific input channel"."""
    world = Obedient(JOIN, slow=[C], keep=[c.TakeSnapshot], **UNALIGNED)
    world.write(A, A)
    world.hear(checkpoint())
    world.write(B, A)
    assert allowed(world, C) == {A: 3, B: 1}


def test_producers_go_on_under_an_aligned_checkpoint_too_since_their_channels_are_durable() -> None:
    """As above: what is blocked is the reading of a channel, never the writing."""
    world = Obedient(JOIN, slow=[C])
    world.hear(checkpoint("r0"))
    world.write(A)
    world.hear(checkpoint("r1"))
    world.write(A, B)
    assert world.batches == {A: 1, B: 0}


def test_the_whole_graph_takes_its_snapshots_in_one_step_whatever_lies_in_the_channels() -> None:
    """Key point: "Checkpointing times are heavily reduced across the execution graph, even for operators with a single
    input channel"."""
    world = Obedient(graph(a="s", b="a", c="b", d="c"), slow=[B, C, D], **UNALIGNED)
    for _ in range(100):
        world.write(A)
    world.read(B)
    for _ in range(50):
        world.write(A)
    world.hear(checkpoint())
    steps = {one.cause for one in world.said(c.TakeSnapshot)}
    assert len(steps) == 1
    assert snapshots(world) == {A: {}, B: {A: (100, 150)}, C: {B: (0, 1)}, D: {}}


def test_an_aligned_checkpoint_is_only_as_fast_as_the_slowest_channel() -> None:
    """What it is against: "The checkpoint barrier takes a long time to reach the sinks"."""
    world = Obedient(graph(a="s", b="a", c="b"), slow=[B, C])
    world.write(A)
    world.hear(checkpoint())
    for task, known in ((B, {A, B}), (C, {A, B, C})):
        assert task not in snapshots(world)
        world.read(task)
        assert snapshots(world).keys() == known


def test_barriers_go_on_before_anybody_has_taken_a_snapshot() -> None:
    """Key idea: "allow checkpoint barriers to be forwarded to downstream tasks before the synchronous part of the
    checkpointing has been conducted"."""
    world = Obedient(graph(a="s", b="a", c="b"), slow=[B], keep=[c.TakeSnapshot], **UNALIGNED)
    world.write(A)
    world.hear(checkpoint())
    assert snapshots(world).keys() == {A, B, C}


def test_an_unaligned_checkpoint_holds_the_newest_batch_of_every_task() -> None:
    """Key point: "more up-to-date checkpoints will avoid too many recomputations"."""
    world = Obedient(JOIN, slow=[C], **UNALIGNED)
    world.write(A, A, B, A)
    world.hear(checkpoint())
    assert {one.task: one.batch for one in world.said(c.TakeSnapshot)} == {A: 2, B: 0, C: -1}


def test_what_is_in_flight_is_named_by_the_checkpoint() -> None:
    """Key idea: "we need to store in-flight data as part of the checkpoint"."""
    world = Obedient(JOIN, slow=[C], **UNALIGNED)
    world.write(A, B)
    world.read(C)
    world.write(A, A)
    world.hear(checkpoint())
    assert snapshots(world)[C] == {A: (1, 3)}


def test_what_was_in_flight_is_read_after_a_restore() -> None:
    """Key idea, as above: in-flight data is not lost and comes before everything newer."""
    known = {
        A: e.RestoredTask(batch=2, committed=2),
        B: e.RestoredTask(batch=-1),
        C: e.RestoredTask(batch=0, committed=0, read={A: 1}),
    }
    world = Obedient(JOIN, slow=[C], facts={"latest_checkpoint": 1, "next_checkpoint": 2, "tasks": known})
    assert world.said(c.AllowReading) == [c.AllowReading(task=C, producer=A, upto=3)]


def test_a_plain_stop_of_an_unaligned_job_does_not_wait_for_what_is_in_flight() -> None:
    """Key point, with FLIP-45: a stop ends with one checkpoint, and an unaligned one is at once."""
    world = Obedient(JOIN, slow=[C], **UNALIGNED)
    world.write(A, B)
    world.hear(stop())
    assert snapshots(world)[C] == {A: (0, 1), B: (0, 1)}
    assert world.job.exited


def test_a_savepoint_is_aligned_unless_it_is_asked_to_be_unaligned() -> None:
    """Flink: savepoints are always aligned, without a time-out and without channel state; ours may be unaligned."""
    for unaligned in (False, True):
        world = Obedient(JOIN, slow=[C], **UNALIGNED)
        world.write(A)
        world.hear(e.CheckpointRequested(request="r1", directory="/save", unaligned=unaligned))
        assert (C in snapshots(world)) is unaligned
        world.read(C)
        assert snapshots(world)[C] == ({A: (0, 1)} if unaligned else {})


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_checkpoint_is_a_consistent_cut(data: st.DataObject) -> None:
    """All of it: what a producer had written is what its consumer had read, and what is in flight, and no more."""
    mode = data.draw(st.sampled_from(["aligned", "unaligned"]))
    of = graph({"a": 2, "c": 2}, a="s", b="a", c="a t", d="b c")
    tasks = of.subtasks()
    world = Obedient(
        of, slow=tasks, checkpoint_mode=mode, checkpoint_max_concurrent=1 if mode == "unaligned" else 3,
        checkpoint_aligned_timeout_ms=1_000,
    )  # fmt: skip
    sources = [task for task in tasks if task.task in "ac"]
    act = st.sampled_from(["write", "read", "read", "checkpoint", "tick", "end"])
    for step in range(data.draw(st.integers(5, 40))):
        did, task = data.draw(act), data.draw(st.sampled_from(tasks))
        if did == "write" and task in sources and not world.job.tasks.states[task].sources_ended:
            world.write(task)
        elif did == "read" and world.job.tasks.states[task].ended is None:
            world.read(task)
        elif did == "checkpoint":
            world.hear(checkpoint(f"r{step}"))
        elif did == "end" and task.task == "a" and not world.job.tasks.states[task].sources_ended:
            world.hear(sources_ended(task))
        elif did == "tick":
            world.tick(600)
    batches = {(one.checkpoint, one.task): one.batch for one in world.said(c.TakeSnapshot)}
    complete = {one.checkpoint for one in world.said(c.WriteManifest)}
    read_at = {task: [{}, *world.reads.get(task, [])] for task in tasks}
    for one in world.said(c.TakeSnapshot):
        if one.checkpoint not in complete:
            continue
        read = read_at[one.task][one.batch + 1]
        for producer in (channel.producer for channel in world.job.coordinator.snapshots.barriers.inputs(one.task)):
            written = batches.get((one.checkpoint, producer), world.batches.get(producer, -1)) + 1
            start, end = one.in_flight.get(producer, (read.get(producer, 0),) * 2)
            assert (start, end) == (read.get(producer, 0), written)
            assert mode == "unaligned" or world.job.now_ms or start == end
