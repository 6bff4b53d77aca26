"""How tasks end and what their operators may be asked for: FLIP-147's tables, and that the protocol follows them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import pytest

from rekindle.errors import ProtocolError
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.life import ACTS, OPERATOR_CALLS, Act, Call, Ending, OperatorLife, OperatorStatus, TaskKind
from rekindle.protocol.states import TaskStatus
from rekindle.testing.simulated_facts import BatchCommitted
from rekindle.testing.simulated_world import World
from rekindle.testing.simulator import Simulation
from tests.protocol.kit import A, B, sources_ended, stop
from tests.protocol.obedient import Obedient, graph

HOW = {
    Ending.FINAL_CHECKPOINT: sources_ended(A),
    Ending.DRAIN: stop(drain=True),
    Ending.STOP: stop(),
}


def life(status: OperatorStatus = OperatorStatus.RUNNING, *inputs: str) -> OperatorLife:
    made = OperatorLife("b/0", inputs)
    made.status = status
    return made


def refuses(operator: OperatorLife, call: Call, input_uid: str = "") -> str:
    """Check that the call is illegal and changes nothing; returns the message."""
    before = operator.status, set(operator.open_inputs)
    ask = partial(operator.end_input, input_uid) if call is Call.END_INPUT else partial(operator.call, call)
    with pytest.raises(ProtocolError) as raised:
        ask()
    assert raised.value.code == "ILLEGAL_EVENT"
    assert (operator.status, operator.open_inputs) == before
    return raised.value.message


# -- the tables of the FLIP --------------------------------------------------------------------------------------------


def test_both_tables_have_every_kind_of_task_and_every_ending() -> None:
    assert set(ACTS) == set(TaskKind)
    assert all(set(endings) == set(Ending) for endings in ACTS.values())
    assert {act for endings in ACTS.values() for acts in endings.values() for act in acts} == set(Act)


@pytest.mark.parametrize("kind", TaskKind)
def test_a_final_checkpoint_and_a_drain_share_one_way_of_ending(kind: TaskKind) -> None:
    """FLIP-147, Final Checkpoint: "This is similar to the job terminated with stop-with-savepoint --drain, thus we
    would also like to unify the two processes"."""
    natural, drained = ACTS[kind][Ending.FINAL_CHECKPOINT], ACTS[kind][Ending.DRAIN]
    assert [act for act in drained if act is not Act.STOP_SOURCES] == [*natural]


@pytest.mark.parametrize("kind", TaskKind)
def test_a_stop_leaves_out_whatever_finishes_and_nothing_else(kind: TaskKind) -> None:
    """FLIP-147, the tables: neither MAX_WATERMARK nor endInput() and finish(), and EndOfData[finished = false]."""
    drained, stopped = ACTS[kind][Ending.DRAIN], ACTS[kind][Ending.STOP]
    left_out = {Act.FLUSH, Act.END_INPUTS, Act.FINISH, Act.SEND_END_OF_DATA_FINISHED}
    assert [act for act in drained if act not in left_out] == [
        act for act in stopped if act is not Act.SEND_END_OF_DATA_SUSPENDED
    ]
    assert not left_out & set(stopped)


def acts_of(world: Obedient, task: SubtaskId) -> tuple[Act, ...]:
    """What a task did on its way to its end, as the log tells it."""
    return tuple(act for thing in world.log for act in _acts(thing, task, world))


def _acts(thing: object, task: SubtaskId, world: Obedient) -> Iterator[Act]:
    states = world.job.tasks.states
    others = [other for other in states if other != task]
    own_sources = states[task].has_sources
    if isinstance(thing, c.FinishTask) and thing.task == task:
        if not own_sources:
            yield Act.ALIGN_ON_END_OF_DATA
        elif thing.drain:
            yield Act.STOP_SOURCES
        yield from (Act.FLUSH, Act.END_INPUTS, Act.FINISH)
    elif isinstance(thing, c.SuspendTask) and thing.task == task:
        yield Act.STOP_SOURCES if own_sources else Act.ALIGN_ON_END_OF_DATA
    elif isinstance(thing, e.TaskFinished) and thing.task == task:
        yield Act.SEND_END_OF_DATA_FINISHED
    elif isinstance(thing, e.TaskSuspended) and thing.task == task:
        yield Act.SEND_END_OF_DATA_SUSPENDED
    elif isinstance(thing, c.TakeSnapshot) and thing.task == task:
        yield Act.SEND_BARRIER
    elif isinstance(thing, e.TransactionsCommitted):
        yield Act.AWAIT_CHECKPOINT
        channels = [one for other in others for one in world.job.coordinator.snapshots.barriers.inputs(other)]
        assert all(one.is_read for one in channels if one.producer == task)
        yield Act.AWAIT_ACKNOWLEDGEMENT
    elif isinstance(thing, c.CloseTask) and thing.task == task:
        yield Act.CLOSE
    elif isinstance(thing, e.TaskClosed) and thing.task == task:
        yield Act.SEND_END_OF_PARTITION


@pytest.mark.parametrize("ending", Ending)
def test_the_protocol_leads_each_kind_of_task_through_the_acts_of_its_table(ending: Ending) -> None:
    """FLIP-147, Final Checkpoint and Stopping Job With Savepoint: the life cycles of source and non-source tasks."""
    world = Obedient(graph(a="s", b="a"))
    world.write(A, A)
    world.hear(HOW[ending])
    assert acts_of(world, A) == ACTS[TaskKind.SOURCE][ending]
    assert acts_of(world, B) == ACTS[TaskKind.NON_SOURCE][ending]
    assert world.job.exited


def test_all_tasks_that_may_be_closed_are_closed_at_the_same_time() -> None:
    """Where we differ from the table on purpose: nobody waits for EndOfPartition, so a chain is closed in one step."""
    world = Obedient(graph(a="s", b="a"), keep=[c.CloseTask])
    world.write(A)
    world.hear(sources_ended(A))
    assert [command.task for command in world.said(c.CloseTask)] == [A, B]
    assert not any(isinstance(thing, e.TaskClosed) for thing in world.log)


def test_an_unaligned_stop_ends_every_task_where_it_stands() -> None:
    """Where we differ from the table on purpose: what lies in the channels is named, nobody aligns on EndOfData."""
    world = Obedient(graph(a="s", b="a"), slow=[B], checkpoint_mode="unaligned")
    world.write(A, A)
    world.hear(stop())
    (_, cut) = world.said(c.TakeSnapshot)
    assert (cut.task, cut.in_flight) == (B, {A: (0, 2)})
    assert world.job.exited


@pytest.mark.parametrize("ending", Ending)
def test_a_task_with_sources_and_channels_does_the_first_acts_of_both_kinds(ending: Ending) -> None:
    world = Obedient(graph(a="s", b="a t"), slow=[B])
    world.write(A, B)
    world.hear(HOW[ending])
    assert world.status(B) is TaskStatus.RUNNING
    assert world.said(c.StopSources) == ([] if ending is Ending.FINAL_CHECKPOINT else [c.StopSources(task=B)])
    world.hear(sources_ended(B))
    assert world.status(B) is TaskStatus.RUNNING
    world.read(B)
    assert world.job.exited


# -- the operator's own machine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "status"), [*itertools.product(Call, OperatorStatus)])
def test_every_call_is_a_step_of_the_table_or_illegal(call: Call, status: OperatorStatus) -> None:
    operator = life(status)
    steps = OPERATOR_CALLS[call]
    if status not in steps:
        message = refuses(operator, call, "a")
        assert f"{call.value}" in message and f"is illegal while b/0 is {status.value}; legal: " in message
        for legal in (other for other in Call if status in OPERATOR_CALLS[other]):
            assert legal.value in message
    elif call is not Call.END_INPUT:
        operator.call(call)
        assert operator.status is steps[status]


def test_an_operator_lives_as_the_flip_says() -> None:
    """FLIP-147, termination phase: endOfInput(1) … endOfInput(n), finish, snapshotState, notifyCheckpointComplete,
    close."""
    operator = OperatorLife("b/0", ["a", "t"])
    operator.call(Call.PREPARE)
    operator.end_input("t")
    operator.end_input("a")
    for call in (Call.PREPARE, Call.FINISH, Call.SNAPSHOT, Call.COMMIT, Call.CLOSE):
        operator.call(call)
    assert operator.status is OperatorStatus.CLOSED


def test_nothing_is_written_after_finish() -> None:
    """FLIP-147, finish(): "After this method is called, no more records can be produced for the downstream
    operators"."""
    operator = life()
    operator.call(Call.FINISH)
    assert "prepare is illegal while b/0 is finished" in refuses(operator, Call.PREPARE)


def test_nothing_is_written_by_close() -> None:
    """FLIP-147, close(): "It should not emit any records"."""
    operator = life()
    operator.call(Call.CLOSE)
    refuses(operator, Call.PREPARE)


def test_records_may_be_written_between_the_end_of_an_input_and_finish() -> None:
    """FLIP-147, finish(): "The method is expected to flush all remaining buffered data"."""
    operator = OperatorLife("b/0", ["a"])
    operator.end_input("a")
    operator.call(Call.PREPARE)


def test_finish_comes_after_the_end_of_every_input() -> None:
    operator = OperatorLife("b/0", ["a", "t"])
    operator.end_input("t")
    assert "finish is illegal while b/0 is running, with a open" in refuses(operator, Call.FINISH)
    operator.end_input("a")
    operator.call(Call.FINISH)


@pytest.mark.parametrize("uid", ["a", "x"], ids=["ended before", "none of its inputs"])
def test_an_input_ends_once(uid: str) -> None:
    operator = OperatorLife("b/0", ["a", "t"])
    operator.end_input("a")
    assert f"end_input({uid}) is illegal" in refuses(operator, Call.END_INPUT, uid)


def test_finish_comes_once_in_an_attempt_and_again_in_the_next() -> None:
    """FLIP-147, finish(): "An exception in this method causes the operator to fail"; the next attempt is a new one."""
    operator = life()
    operator.call(Call.FINISH)
    refuses(operator, Call.FINISH)
    life().call(Call.FINISH)


def test_a_restored_operator_is_running_and_may_meet_records_although_its_state_came_after_finish() -> None:
    """FLIP-147: "The finish() method is tied to the lifecycle of an Operator and it is NOT tied to the lifecycle of
    State"."""
    OperatorLife("b/0", ["a"]).call(Call.PREPARE)


@pytest.mark.parametrize("status", OperatorStatus)
def test_close_comes_from_everywhere(status: OperatorStatus) -> None:
    """FLIP-147, close(): "both in the case of a successful completion of the operation, and in the case of a failure
    and canceling"."""
    operator = life(status)
    operator.call(Call.CLOSE)
    assert operator.status is OperatorStatus.CLOSED


def test_an_operator_hears_of_checkpoints_before_finish_and_after_it() -> None:
    """FLIP-147, 42/43/44: after finish() it takes part in 42, 43 and 44, and is told of one of them."""
    operator = life()
    for call in (Call.SNAPSHOT, Call.COMMIT, Call.FINISH, Call.SNAPSHOT, Call.SNAPSHOT, Call.SNAPSHOT, Call.COMMIT):
        operator.call(call)
    assert operator.status is OperatorStatus.FINISHED


def live_by_the_table(world: World) -> int:
    """Replay what a job asked of its operators in all of its runs; how many calls that were. Raises what is illegal."""
    lives: dict[tuple[int, SubtaskId], OperatorLife] = {}
    calls = 0
    for run, thing in world.history:
        if isinstance(thing, e.JobStarted):
            lives |= {(run, task): OperatorLife(f"{task} in run {run}") for task in world.tasks}
        elif isinstance(thing, c.StartTask | c.FinishTask):
            lives[run, thing.task] = OperatorLife(f"{thing.task} in run {run}")  # a new attempt
        elif type(thing) in _CALLS:
            lives[run, thing.task].call(_CALLS[type(thing)])  # type: ignore[attr-defined]
            calls += 1
    return calls


_CALLS: dict[type, Call] = {
    BatchCommitted: Call.COMMIT,
    c.CloseTask: Call.CLOSE,
}


def test_whatever_goes_wrong_no_operator_is_asked_to_commit_after_it_is_closed() -> None:
    """A hundred simulated lives, with crashes, late and doubled messages, and commits that recovery repeats."""
    calls = 0
    for seed in range(100):
        simulation = Simulation(seed)
        simulation.live()
        calls += live_by_the_table(simulation.world)
    assert calls > 1_000
