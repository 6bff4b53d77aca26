"""Channels and the barriers in them: what may be read, when a snapshot is due, what is in flight."""

from __future__ import annotations

from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.states import TaskStatus
from tests.protocol.kit import A, B, checkpoint, sources_ended
from tests.protocol.obedient import Obedient, graph

C, D = SubtaskId("c", 0), SubtaskId("d", 0)
JOIN = graph(a="s", b="t", c="a b")
CHAIN = graph(a="s", b="a", c="b")


def barriers(of: JobGraph = JOIN) -> Barriers:
    return Barriers(of.topology)


def may(task: SubtaskId, producer: SubtaskId, upto: int) -> c.Command:
    return c.AllowReading(task=task, producer=producer, upto=upto)


def cut(task: SubtaskId, checkpoint: int, batch: int = -1, **in_flight: tuple[int, int]) -> c.Command:
    flying = {SubtaskId(uid, 0): places for uid, places in in_flight.items()}
    return c.TakeSnapshot(task=task, checkpoint=checkpoint, batch=batch, in_flight=flying)


def has_read(channels: Barriers, consumer: SubtaskId, producer: SubtaskId) -> bool:
    return next(one for one in channels.inputs(consumer) if one.producer == producer).is_read


def producers(channels: Barriers, consumer: SubtaskId) -> list[SubtaskId]:
    return [one.producer for one in channels.inputs(consumer)]


def consumers(channels: Barriers, producer: SubtaskId) -> list[SubtaskId]:
    return [one.consumer for one in channels.outputs(producer)]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_batch_may_be_read_once_it_is_recorded() -> None:
    channels = barriers()
    assert channels.recorded(A, 0, {}) == (may(C, A, 1),)
    assert channels.recorded(A, 1, {}) == (may(C, A, 2),)


def test_a_batch_that_is_known_already_changes_nothing() -> None:
    channels = barriers()
    channels.recorded(A, 3, {})
    assert channels.recorded(A, 3, {}) == channels.recorded(A, 2, {}) == ()
    assert channels.trigger(1, [A], unaligned=False)[0] == cut(A, 1, 3)


def test_a_channel_may_be_read_on_without_another_batch_where_nothing_is_in_it() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.recorded(C, 0, {A: 1})
    channels.recorded(A, 1, {})
    channels.recorded(C, 0, {A: 2})
    assert has_read(channels, C, A)
    channels.recorded(C, 0, {A: 1})
    assert has_read(channels, C, A), "what comes late takes nothing back"


def test_batches_that_were_recorded_without_a_word_come_with_the_next() -> None:
    assert barriers().recorded(A, 4, {}) == (may(C, A, 5),)


def test_channels_that_a_batch_has_not_read_may_be_left_out() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.recorded(C, 0, {A: 1})
    assert has_read(channels, C, A)
    assert not has_read(channels, C, B)


def test_a_channel_in_which_nothing_is_was_read() -> None:
    assert has_read(barriers(), C, A)


def test_who_is_joined_to_whom() -> None:
    channels = barriers()
    assert producers(channels, C) == [A, B]
    assert consumers(channels, A) == [C]
    assert producers(channels, A) == []


def test_a_task_that_reads_another_twice_has_one_channel_from_it() -> None:
    channels = barriers(graph(a="s", b="a a"))
    assert (producers(channels, B), consumers(channels, A)) == ([A], [B])
    assert channels.recorded(A, 0, {}) == (may(B, A, 1),)


def test_what_was_written_before_a_restart_may_be_read_from_where_it_was_read_to() -> None:
    channels = barriers()
    channels.restore(A, 4, {})
    channels.restore(B, -1, {})
    channels.restore(C, 2, {A: 3, B: 0})
    assert channels.begin() == (may(C, A, 5),)
    channels.recorded(C, 3, {A: 5})
    assert has_read(channels, C, A)


# -- plans of an earlier driver ----------------------------------------------------------------------------------------


def test_a_record_that_reads_more_than_is_known_waits_for_its_producers() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {A: 1})
    assert channels.recorded(B, 1, {A: 3}) == ()
    assert channels.batches[B] == 0
    assert channels.trigger(1, [A], unaligned=False) == (cut(A, 1, 0), cut(B, 1, 0))
    assert channels.recorded(A, 1, {}) == (may(B, A, 2),)
    assert channels.recorded(A, 2, {}) == (may(B, A, 3),)
    assert channels.batches[B] == 1


def test_what_follows_such_a_record_waits_too() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.recorded(B, 1, {A: 2})
    assert channels.recorded(B, 2, {}) == channels.recorded(B, 2, {A: 1}) == ()
    assert channels.recorded(A, 1, {}) == (may(B, A, 2), may(C, B, 3))
    assert has_read(channels, B, A)


def test_an_unaligned_snapshot_is_taken_where_the_task_is_known_to_be() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {A: 2})
    (first, second, *_) = channels.trigger(1, [A], unaligned=True)
    assert (first, second) == (cut(A, 1, 0), cut(B, 1, -1, a=(0, 1)))


def test_a_checkpoint_whose_barrier_was_passed_is_found() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.trigger(1, [A], unaligned=False)
    assert channels.recorded(A, 1, {}) == ()
    assert channels.passed() is None
    assert channels.recorded(B, 0, {A: 2}) == ()
    assert channels.passed() == 1
    assert channels.abort(1) == (may(B, A, 2), may(C, B, 1))
    assert channels.passed() is None


def test_so_is_one_whose_barrier_holds_the_channel_back() -> None:
    channels = barriers()
    for producer in (A, B):
        channels.recorded(producer, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.recorded(A, 1, {})
    channels.recorded(C, 0, {A: 1})
    assert channels.recorded(C, 1, {A: 2}) == ()
    assert channels.passed() == 1
    channels.abort(1)
    assert (channels.passed(), channels.batches[C]) == (None, 1)


# -- aligned -----------------------------------------------------------------------------------------------------------


def test_a_consumer_reads_up_to_a_barrier_and_not_beyond() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    assert channels.trigger(1, [A], unaligned=False) == (cut(A, 1, 0),)
    assert channels.recorded(A, 1, {}) == ()
    assert channels.recorded(C, 0, {A: 1}) == ()


def test_a_consumer_takes_its_snapshot_at_the_last_barrier_and_may_read_on() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.recorded(A, 1, {})
    assert channels.recorded(C, 0, {A: 1}) == ()
    assert channels.recorded(C, 1, {B: 1}) == (cut(C, 1, 1), may(C, A, 2))


def test_barriers_in_empty_channels_are_reached_at_once() -> None:
    assert barriers(CHAIN).trigger(1, [A], unaligned=False) == (cut(A, 1), cut(B, 1), cut(C, 1))


def test_a_barrier_is_put_behind_the_snapshots_batch_and_passed_on_from_task_to_task() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.recorded(C, 0, {B: 1})
    channels.trigger(1, [A], unaligned=False)
    assert channels.recorded(B, 1, {A: 1}) == (cut(B, 1, 1), may(C, B, 2))
    assert channels.recorded(B, 2, {}) == ()
    assert channels.recorded(C, 1, {B: 2}) == (cut(C, 1, 1), may(C, B, 3))


def test_a_snapshot_says_how_far_empty_batches_were_passed_since_its_last_batch() -> None:
    channels = barriers()
    for batch in range(3):
        channels.recorded(A, batch, {})
    channels.recorded(C, 0, {A: 1})
    channels.recorded(C, 0, {A: 2})
    assert channels.trigger(1, [A, B], unaligned=True)[-1] == cut(C, 1, 0, a=(2, 3))
    channels.recorded(C, 0, {A: 3})
    (*_, snapshot) = channels.trigger(2, [A, B], unaligned=False)
    assert isinstance(snapshot, c.TakeSnapshot)
    assert (snapshot.batch, snapshot.read) == (0, {A: 3, B: 0})


def test_the_barriers_of_the_next_checkpoint_stand_behind_those_of_this_one() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.recorded(A, 1, {})
    channels.trigger(2, [A, B], unaligned=False)
    assert channels.recorded(C, 0, {A: 1}) == ()
    # B's barriers of both stand at the same place; A's second one stands one batch behind the first.
    assert channels.recorded(C, 1, {B: 1}) == (cut(C, 1, 1), may(C, A, 2))
    assert channels.recorded(C, 2, {A: 2}) == (cut(C, 2, 2),)


def test_a_channel_that_is_held_back_is_not_read_beyond_a_barrier_although_more_comes() -> None:
    channels = barriers()
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    assert channels.recorded(A, 0, {}) == ()
    assert channels.recorded(C, 0, {B: 1}) == (cut(C, 1, 0), may(C, A, 1))


# -- unaligned ---------------------------------------------------------------------------------------------------------


def test_an_unaligned_barrier_is_seen_where_it_is_put_down() -> None:
    channels = barriers()
    channels.recorded(A, 1, {})
    channels.recorded(C, 0, {A: 1})
    said = channels.trigger(1, [A, B], unaligned=True)
    assert said == (cut(A, 1, 1), cut(B, 1), cut(C, 1, 0, a=(1, 2)))
    assert channels.recorded(A, 2, {}) == (may(C, A, 3),)


def test_an_aligned_checkpoint_that_is_overtaken_takes_its_snapshots_where_its_barriers_lie() -> None:
    channels = barriers()
    channels.recorded(A, 1, {})
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.recorded(A, 2, {})
    channels.recorded(C, 0, {B: 1})
    assert channels.overtake(1) == (cut(C, 1, 0, a=(0, 2)), may(C, A, 3))


def test_overtaking_goes_on_down_the_graph() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.trigger(1, [A], unaligned=False)
    assert channels.overtake(1) == (cut(B, 1, 0, a=(0, 1)), cut(C, 1, -1, b=(0, 1)))


def test_overtaking_leaves_the_barriers_of_later_checkpoints_where_they_are() -> None:
    channels = barriers(CHAIN)
    channels.recorded(A, 0, {})
    channels.trigger(1, [A], unaligned=False)
    channels.recorded(A, 1, {})
    channels.trigger(2, [A], unaligned=False)
    channels.recorded(A, 2, {})
    assert channels.overtake(1) == (cut(B, 1, -1, a=(0, 1)), cut(C, 1), may(B, A, 2))
    assert channels.recorded(B, 0, {A: 2}) == (cut(B, 2, 0), may(B, A, 3), may(C, B, 1))


def test_a_checkpoint_whose_barriers_have_all_been_reached_is_not_overtaken() -> None:
    channels = barriers()
    channels.trigger(1, [A, B], unaligned=False)
    assert channels.overtake(1) == ()


# -- giving up, and ends -----------------------------------------------------------------------------------------------


def test_who_was_held_back_by_a_checkpoint_that_is_given_up_goes_on() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.recorded(A, 1, {})
    channels.recorded(C, 0, {A: 1})
    assert channels.abort(1) == (may(C, A, 2),)
    assert channels.recorded(C, 1, {B: 1}) == ()
    channels.trigger(2, [A, B], unaligned=False)
    assert channels.recorded(C, 2, {A: 2}) == (cut(C, 2, 2),)


def test_a_barrier_behind_one_that_is_given_up_is_reached_by_that() -> None:
    channels = barriers()
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.trigger(2, [A, B], unaligned=False)
    channels.abort(1)
    assert channels.recorded(C, 0, {B: 1}) == (cut(C, 2, 0),)


def test_a_later_checkpoint_that_is_given_up_leaves_an_earlier_one_alone() -> None:
    channels = barriers()
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.trigger(2, [A, B], unaligned=False)
    assert channels.abort(2) == ()
    assert channels.recorded(C, 0, {B: 1}) == (cut(C, 1, 0),)


def test_a_snapshot_that_is_not_whole_is_forgotten_with_its_checkpoint() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.trigger(1, [A], unaligned=True)
    assert set(channels._cuts) == {(C, 1)}
    channels.abort(1)
    assert channels._cuts == {}
    assert channels.trigger(2, [A, B], unaligned=True)[-1] == cut(C, 2, -1, a=(0, 1))


def test_a_channel_that_has_ended_has_no_barriers_left_and_awaits_none() -> None:
    channels = barriers()
    channels.recorded(B, 0, {})
    channels.trigger(1, [A, B], unaligned=False)
    channels.trigger(2, [A, B], unaligned=False)
    assert channels.closed(A) == ()
    assert channels.recorded(C, 0, {B: 1}) == (cut(C, 1, 0), cut(C, 2, 0))
    assert channels.trigger(3, [B], unaligned=False) == (cut(B, 3, 0), cut(C, 3, 0))


def test_the_end_of_the_last_channel_completes_the_alignment_of_the_others() -> None:
    channels = barriers()
    channels.recorded(A, 0, {})
    channels.trigger(1, [A], unaligned=False)
    channels.recorded(A, 1, {})
    assert channels.recorded(C, 0, {A: 1}) == ()
    assert channels.closed(B) == (cut(C, 1, 0), may(C, A, 2))


def test_a_task_all_of_whose_producers_have_ended_is_triggered_like_a_source() -> None:
    channels = barriers()
    channels.closed(A)
    channels.closed(B)
    channels.recorded(C, 0, {})
    assert channels.trigger(1, [C], unaligned=False) == (cut(C, 1, 0),)


def test_a_task_that_is_closed_before_its_producer_hears_of_no_checkpoint_any_more() -> None:
    world = Obedient(graph(a="s", b="a", c="a"), slow=[C], checkpoint_mode="unaligned")
    world.write(A)
    world.hear(sources_ended(A), checkpoint("r1"))
    assert (world.status(A), world.status(B)) == (TaskStatus.WAITING, TaskStatus.CLOSED)
    world.hear(checkpoint("r2"))
    assert [one.task for one in world.said(c.TakeSnapshot) if one.checkpoint == 2] == [A, C]
