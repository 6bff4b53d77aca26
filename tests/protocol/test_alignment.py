"""One subtask's barriers: the sentences of FLIP-76 and FLIP-147 about them, going over from aligned to unaligned, and
what holds for any script.

The alternation tests follow Flink's ``AlternatingCheckpointsTest`` where it is about the protocol. Not taken over, with
the reason:

- the timers themselves (active or passive check, timer after the last barrier, after a cancellation, after `close()`):
  the clock belongs to the coordinator, which says `timed_out` or delivers the barrier as an unaligned one; here it is
  tested that `timed_out` is harmless when it comes too late, too early or twice;
- announcements that travel ahead of their barriers, local and remote channels (StartViaAnnouncement,
  ActiveTimeoutOnAnnouncement, LocalBarrierFirst): a barrier is a place that the coordinator knows, so nothing needs to
  be announced; what remains of them is a barrier that is seen before the data in front of it is read;
- alignment durations, bytes processed, buffers polled after their barrier: there are no network buffers.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import ProtocolError
from rekindle.protocol.alignment import Alignment
from rekindle.protocol.alignment_outcomes import Aborted, Aligned, AlignedSnapshot, Outcome
from rekindle.protocol.channel_state import ChannelState
from rekindle.protocol.reasons import Reason

SUBSUMED = Reason.CHECKPOINT_DECLINED_SUBSUMED
CANCELLED = Reason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
INPUT_ENDED = Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM


def aligned(checkpoint: int) -> tuple[Outcome, ...]:
    """What follows the last barrier of an aligned checkpoint."""
    return (AlignedSnapshot(checkpoint, unaligned=False), Aligned(checkpoint, {}))


def overtaking(checkpoint: int) -> AlignedSnapshot:
    return AlignedSnapshot(checkpoint, unaligned=True)


# -- aligned ----------------------------------------------------------------------------------------------------------


def test_a_channel_that_has_delivered_its_barrier_is_held_back_until_the_others_have() -> None:
    """FLIP-76, thread: with aligned checkpoints "the other channels and their upstream operators are effectively
    blocked during checkpointing"."""
    task = Alignment(ChannelState("abc"))
    assert task.barrier("b", 1) == ()
    assert task.barrier("a", 1) == ()
    assert task.channels.blocked == {"a", "b"}
    assert task.pending
    assert task.barrier("c", 1) == aligned(1)
    assert task.channels.blocked == set()
    assert not task.pending
    assert task.latest == 1


def test_channels_are_shown_in_order() -> None:
    task = Alignment(ChannelState(["b", "a", "c"]))
    assert [*task.channels.open] == ["b", "a", "c"]
    task.barrier("c", 1)
    task.barrier("b", 1)
    assert [*task.channels.blocked] == ["c", "b"]


def test_the_same_barrier_twice_counts_once() -> None:
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    assert task.barrier("a", 1) == ()
    assert task.pending
    assert task.barrier("b", 1) == aligned(1)
    assert task.barrier("b", 1) == ()
    assert task.channels.blocked == set()


def test_a_newer_barrier_subsumes_the_pending_checkpoint() -> None:
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 3)
    task.barrier("b", 3)
    assert task.barrier("c", 5) == (Aborted(3, SUBSUMED),)
    assert task.channels.blocked == {"c"}
    assert task.cancelled("a", 3) == ()
    task.barrier("a", 5)
    assert task.barrier("b", 5) == aligned(5)


def test_a_stale_barrier_does_not_hold_its_channel_back() -> None:
    """Flink's ``AlignedCheckpointsTest.testAbortOnCanceledBarriers`` and ``testOutOfOrderBarrier``."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 10)
    assert task.barrier("b", 5) == ()
    assert task.latest == 10
    assert task.channels.blocked == {"a"}


def test_a_cancellation_aborts_the_pending_checkpoint_and_those_barriers_that_still_come() -> None:
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 2)
    assert task.cancelled("b", 2) == (Aborted(2, CANCELLED),)
    assert task.channels.blocked == set()
    assert task.cancelled("c", 2) == ()
    assert task.barrier("c", 2) == ()
    assert task.channels.blocked == set()


def test_a_cancellation_that_comes_before_any_barrier_aborts_its_checkpoint() -> None:
    task = Alignment(ChannelState("ab"))
    assert task.cancelled("a", 4) == (Aborted(4, CANCELLED),)
    assert task.latest == 4
    assert task.barrier("b", 4) == ()
    assert not task.pending


def test_the_cancellation_of_a_later_checkpoint_leaves_no_older_one_behind() -> None:
    """Flink says nothing of the older one, and its coordinator waits for the time-out; here none is forgotten."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    assert task.cancelled("b", 3) == (Aborted(1, SUBSUMED), Aborted(3, CANCELLED))
    assert task.cancelled("a", 2) == ()
    assert task.channels.blocked == set()


def test_a_whole_checkpoint_cannot_be_cancelled() -> None:
    task = Alignment(ChannelState("a"))
    assert task.barrier("a", 1) == aligned(1)
    assert task.cancelled("a", 1) == ()


# -- ended channels ---------------------------------------------------------------------------------------------------


def test_the_end_of_a_channel_counts_as_its_barrier_for_the_pending_checkpoint() -> None:
    """FLIP-147, Some of the Precedent Tasks are Finished: "EndOfPartition from one input channel would mark this
    channel as aligned for all the pending and following checkpoints"; here a pending one."""
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 1)
    task.barrier("b", 1)
    assert task.ended("c") == aligned(1)
    assert [*task.channels.open] == ["a", "b"]


def test_the_end_of_a_channel_counts_as_its_barrier_for_all_checkpoints_that_follow() -> None:
    """FLIP-147, Some of the Precedent Tasks are Finished: "exclude the channel from the following checkpoints"."""
    task = Alignment(ChannelState("abc"))
    assert task.ended("c") == ()
    task.barrier("a", 6)
    assert task.barrier("b", 6) == aligned(6)
    task.ended("b")
    assert task.barrier("a", 7) == aligned(7)


def test_barrier_and_end_of_one_channel_count_once() -> None:
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 2)
    task.barrier("b", 2)
    assert task.ended("b") == ()
    assert task.ended("b") == ()
    assert task.channels.blocked == {"a"}
    assert task.barrier("c", 2) == aligned(2)


def test_the_channels_to_wait_for_are_those_open_when_the_checkpoint_began() -> None:
    task = Alignment(ChannelState("abc"))
    task.ended("a")
    task.barrier("b", 1)
    assert task.pending
    assert task.ended("c") == aligned(1)


def test_a_barrier_that_is_seen_after_the_end_of_its_channel_only_begins_the_checkpoint() -> None:
    task = Alignment(ChannelState("ab"))
    task.ended("a")
    assert task.barrier("a", 1) == ()
    assert task.pending
    assert task.channels.blocked == set()
    assert task.barrier("b", 1) == aligned(1)
    task.ended("b")
    assert task.barrier("b", 2) == aligned(2)


def test_with_checkpoints_after_tasks_finish_off_the_end_of_a_channel_aborts_the_pending_one() -> None:
    """FLIP-147, Feature flag; the old behaviour is Flink's ``testEndOfStreamWithPendingCheckpoint``."""
    task = Alignment(ChannelState("ab"), after_tasks_finish=False)
    task.barrier("a", 1)
    assert task.ended("a") == (Aborted(1, INPUT_ENDED),)
    assert task.channels.blocked == set()
    assert task.latest == 1
    assert task.barrier("b", 1) == ()
    assert task.barrier("b", 2) == aligned(2)
    assert task.ended("b") == ()


@pytest.mark.parametrize("reason", [SUBSUMED, CANCELLED, INPUT_ENDED])
def test_what_a_subtask_aborts_is_not_counted_as_a_failure(reason: Reason) -> None:
    """Flink's ``CheckpointFailureManager`` ignores every CHECKPOINT_DECLINED_*."""
    assert not reason.counts


# -- unaligned --------------------------------------------------------------------------------------------------------


def test_an_unaligned_checkpoint_takes_its_snapshot_at_the_first_barrier_and_holds_nothing_back() -> None:
    """FLIP-76, thread: "Upstream processes can continue to produce data, even if some operator still waits on a
    checkpoint barrier on a specific input channel"."""
    task = Alignment(ChannelState("ab"))
    assert task.barrier("a", 1, unaligned=True) == (overtaking(1),)
    assert task.channels.blocked == set()
    task.channels.received("a")
    assert task.pending


def test_what_came_before_its_barrier_and_was_not_in_the_snapshot_is_in_flight() -> None:
    """FLIP-76, thread: "we need to store in-flight data as part of the checkpoint"."""
    task = Alignment(ChannelState("abc"))
    task.channels.received("a", 2)
    task.channels.received("b", 5)
    task.barrier("b", 1, unaligned=True)
    task.channels.received("a", 3)
    task.channels.received("b", 1)
    assert task.in_flight == {"a": (2, 5)}
    assert task.barrier("a", 1, unaligned=True) == ()
    task.channels.received("a")
    assert task.ended("c") == (Aligned(1, {"a": (2, 5)}),)
    assert task.in_flight == {}


def test_a_barrier_may_be_seen_before_the_data_in_front_of_it_is_read() -> None:
    task = Alignment(ChannelState("ab"))
    task.channels.received("a", 3)
    assert task.barrier("a", 1, unaligned=True, position=10) == (overtaking(1),)
    assert task.in_flight == {"a": (3, 10)}
    task.channels.received("a", 4)
    task.channels.received("b", 2)
    assert task.barrier("b", 1, unaligned=True, position=6) == (Aligned(1, {"a": (3, 10), "b": (0, 6)}),)
    assert task.barrier("b", 2, unaligned=True, position=6) == (overtaking(2),)
    assert task.barrier("a", 2, unaligned=True, position=11) == (Aligned(2, {"a": (7, 11), "b": (2, 6)}),)


def test_a_single_channel_is_whole_at_once() -> None:
    task = Alignment(ChannelState("a"))
    assert task.barrier("a", 1, unaligned=True, position=2) == (overtaking(1), Aligned(1, {"a": (0, 2)}))


def test_a_snapshot_that_was_taken_can_still_be_subsumed_or_cancelled() -> None:
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1, unaligned=True)
    assert task.barrier("a", 2, unaligned=True) == (Aborted(1, SUBSUMED), overtaking(2))
    assert task.cancelled("b", 2) == (Aborted(2, CANCELLED),)
    assert task.in_flight == {}


# -- triggered directly -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_root_is_whole_at_once(unaligned: bool) -> None:
    """FLIP-147, Triggering Checkpoints After Tasks Finished: "the tasks who are still running but have no running
    precedent tasks"."""
    assert Alignment(ChannelState(())).triggered(1, unaligned=unaligned) == (
        AlignedSnapshot(1, unaligned),
        Aligned(1, {}),
    )


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_task_whose_producers_have_finished_is_triggered_as_if_barriers_had_come(unaligned: bool) -> None:
    """FLIP-147, All the Precedent Tasks are Finished: "it would notify the CheckpointBarrierHandler instead of directly
    performing the snapshot"; Flink injects the barrier into every unfinished channel and holds none back."""
    task = Alignment(ChannelState("ab"))
    task.channels.received("a", 3)
    assert task.triggered(1, unaligned=unaligned) == (AlignedSnapshot(1, unaligned), Aligned(1, {}))
    assert task.channels.blocked == set()
    assert task.barrier("a", 1) == ()
    assert task.triggered(1) == ()


def test_triggering_subsumes_what_is_pending() -> None:
    """FLIP-147, All the Precedent Tasks are Finished: "so that the CheckpointBarrierHandler could deal with checkpoint
    subsuming correctly"."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    assert task.triggered(2) == (Aborted(1, SUBSUMED), *aligned(2))


def test_triggering_what_is_pending_completes_it() -> None:
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1, unaligned=True)
    task.channels.received("b", 2)
    assert task.triggered(1, unaligned=True) == (Aligned(1, {"b": (0, 2)}),)


def completed(task: Alignment, *, latest: int) -> Alignment:
    """One that has nothing else behind it than a checkpoint."""
    task.triggered(latest)
    return task


# -- given up by the coordinator --------------------------------------------------------------------------------------


def test_giving_up_the_pending_checkpoint_lets_its_channels_go_on() -> None:
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    task.aborted(1)
    assert not task.pending
    assert task.channels.blocked == set()
    assert task.barrier("b", 1) == ()
    assert task.channels.blocked == set()


def test_giving_up_a_later_checkpoint_leaves_the_pending_one_alone() -> None:
    """Several concurrent checkpoints: unlike a cancellation in a channel, this one says nothing about what is older."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    task.aborted(2)
    task.aborted(4)
    assert task.barrier("b", 1) == aligned(1)
    assert task.barrier("a", 2) == ()
    assert task.triggered(2) == ()
    assert task.channels.blocked == set()
    task.barrier("a", 3)
    assert task.barrier("b", 3) == aligned(3)
    assert task.triggered(4) == ()
    assert task.triggered(5) == aligned(5)
    assert task == completed(Alignment(ChannelState("ab")), latest=5)


def test_giving_up_what_is_over_changes_nothing() -> None:
    task = Alignment(ChannelState("ab"))
    task.triggered(1)
    task.barrier("a", 2)
    before = deepcopy(task)
    task.aborted(1)
    assert task == before


# -- aligned with a time-out that turns unaligned ----------------------------------------------------------------------


def test_when_the_time_is_up_the_pending_checkpoint_goes_on_unaligned() -> None:
    """Flink's TimeoutAlignment, ActiveTimeoutOnFirstBarrier, AllChannelsUnblockedAfterTimeout."""
    task = Alignment(ChannelState("ab"))
    task.channels.received("b", 4)
    task.barrier("a", 1)
    assert task.timed_out(1) == (overtaking(1),)
    assert task.channels.blocked == set()
    task.channels.received("a")
    assert task.barrier("b", 1, unaligned=True, position=7) == (Aligned(1, {"b": (4, 7)}),)
    assert task.channels.blocked == set()


def test_an_aligned_barrier_that_comes_after_the_time_is_up_counts_and_holds_nothing_back() -> None:
    """Flink's PassiveTimeoutOnAnnouncement and AllChannelsUnblockedAfterTimeout."""
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 1)
    task.timed_out(1)
    task.channels.received("b", 2)
    assert task.barrier("b", 1) == ()
    assert task.channels.blocked == set()
    assert task.barrier("c", 1, position=3) == (Aligned(1, {"b": (0, 2), "c": (0, 3)}),)


def test_a_barrier_delivered_as_unaligned_makes_an_aligned_checkpoint_so() -> None:
    """Flink's SwitchToUnalignedByUpstream and TimeoutOnUnalignedBarrier: two things in channel b are persisted."""
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 1)
    assert task.barrier("b", 1, unaligned=True, position=2) == (overtaking(1),)
    assert task.channels.blocked == set()
    assert task.in_flight == {"b": (0, 2)}
    assert task.ended("c") == (Aligned(1, {"b": (0, 2)}),)


def test_a_barrier_seen_twice_first_aligned_and_then_unaligned_makes_it_unaligned_too() -> None:
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    assert task.barrier("a", 1, unaligned=True) == (overtaking(1),)
    assert task.barrier("a", 1) == ()
    assert task.channels.blocked == set()
    assert task.barrier("b", 1) == (Aligned(1, {}),)


def test_channels_that_end_after_the_time_is_up_complete_the_checkpoint() -> None:
    """Flink's TimeoutAfterEndOfPartition: what came before the end is in flight."""
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 1)
    task.timed_out(1)
    task.channels.received("b")
    assert task.ended("b") == ()
    task.channels.received("c")
    assert task.ended("c") == (Aligned(1, {"b": (0, 1), "c": (0, 1)}),)


def test_a_channel_that_ended_before_the_time_was_up_has_nothing_in_flight() -> None:
    task = Alignment(ChannelState("abc"))
    task.barrier("a", 1)
    task.channels.received("b", 2)
    task.ended("b")
    assert task.timed_out(1) == (overtaking(1),)
    assert task.barrier("c", 1) == (Aligned(1, {}),)


def test_the_first_barrier_after_the_time_is_up_takes_the_snapshot() -> None:
    """Flink's TimeoutOnFirstBarrier and TimeoutBeforeFirstBarrier: what has not begun cannot go over, its owner
    delivers the barriers as unaligned ones."""
    task = Alignment(ChannelState("ab"))
    assert task.timed_out(1) == ()
    assert task.latest == -1
    assert task.barrier("a", 1, unaligned=True) == (overtaking(1),)


def test_the_next_checkpoint_starts_aligned_again() -> None:
    """Flink's AlignedAfterTimedOut."""
    task = Alignment(ChannelState("a"))
    assert task.barrier("a", 1, unaligned=True) == (overtaking(1), Aligned(1, {}))
    assert task.timed_out(1) == ()
    assert task.barrier("a", 2) == aligned(2)


def test_time_that_is_up_too_late_or_twice_changes_nothing() -> None:
    """Flink's NoTimeoutAfterLastBarrier, NoTimeoutAfterAbort, ActiveAfterPassive."""
    whole, over, twice = Alignment(ChannelState("ab")), Alignment(ChannelState("ab")), Alignment(ChannelState("ab"))
    whole.barrier("a", 1)
    whole.barrier("b", 1)
    over.barrier("a", 1)
    over.cancelled("b", 1)
    twice.barrier("a", 1)
    twice.timed_out(1)
    for task in (whole, over, twice):
        before = deepcopy(task)
        assert task.timed_out(1) == ()
        assert task == before


def test_a_checkpoint_whose_time_is_never_up_waits_for_all() -> None:
    """Flink's NeverTimeoutable."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    task.channels.received("b", 1000)
    assert task.pending
    assert task.barrier("b", 1) == aligned(1)


def test_an_unaligned_checkpoint_subsumes_an_aligned_savepoint_and_captures_what_was_held_back() -> None:
    """Flink's ChannelResetOnNewBarrier: what waits behind the savepoint's barrier is in flight for the checkpoint."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 0)
    assert task.barrier("b", 1, unaligned=True) == (Aborted(0, SUBSUMED), overtaking(1))
    task.channels.received("a")
    assert task.barrier("a", 1, unaligned=True) == (Aligned(1, {"a": (0, 1)}),)


def test_checkpoints_and_savepoints_may_alternate() -> None:
    """Flink's Alternation, 123 checkpoints through 123 channels, and Savepoint."""
    task = Alignment(ChannelState(range(123)))
    for checkpoint in range(123):
        outcomes = [one for c in range(123) for one in task.barrier(c, checkpoint, unaligned=checkpoint % 2 == 0)]
        assert outcomes == [AlignedSnapshot(checkpoint, checkpoint % 2 == 0), Aligned(checkpoint, {})]


def test_the_next_barrier_overtakes_a_cancellation() -> None:
    """Flink's NextBarrierOvertakesCancellation."""
    task = Alignment(ChannelState("ab"))
    task.barrier("a", 1)
    assert task.barrier("a", 2) == (Aborted(1, SUBSUMED),)
    assert task.cancelled("b", 1) == ()
    assert task.barrier("b", 2) == aligned(2)


# -- what cannot be ---------------------------------------------------------------------------------------------------


def ready() -> Alignment:
    """Channel a held back at 2, b open, c ended."""
    task = Alignment(ChannelState("abc"))
    task.channels.received("a", 2)
    task.channels.received("b", 2)
    task.ended("c")
    task.barrier("a", 1)
    return task


@pytest.mark.parametrize(
    "call",
    [
        lambda task: task.channels.received("a"),
        lambda task: task.channels.received("c"),
        lambda task: task.cancelled("c", 1),
        lambda task: task.barrier("b", 1, position=1),
        lambda task: task.barrier("b", 2, position=1, unaligned=True),
        lambda task: task.barrier("b", 1, position=3),
    ],
    ids=["data-held-back", "data-after-the-end", "cancellation-after-the-end", "read-beyond", "seen-late", "too-early"],
)
def test_what_cannot_be_is_refused_and_changes_nothing(call) -> None:
    task = ready()
    with pytest.raises(ProtocolError) as error:
        call(task)
    assert error.value.code == "ILLEGAL_EVENT"
    assert task == ready()


def test_reading_nothing_is_always_legal() -> None:
    task = ready()
    task.channels.received("a", 0)
    assert task == ready()


# -- whatever the script ----------------------------------------------------------------------------------------------

Step = tuple[str, int]
CHANNELS = 3


@dataclass
class Producer:
    """One channel: what is in it, and how far it was read. Barriers, cancellations and the end stand in order."""

    written: int = 0
    read: int = 0
    checkpoint: int = 0
    ended: bool = False
    #: ("barrier" | "cancellation" | "end", checkpoint, position)
    marks: deque[tuple[str, int, int]] = field(default_factory=deque)


class World:
    """A subtask and its producers; checks each outcome against what the producers have put into their channels."""

    def __init__(self, *, unaligned: bool) -> None:
        self.unaligned = unaligned
        self.task = Alignment(ChannelState(range(CHANNELS)))
        self.producers = [Producer() for _ in range(CHANNELS)]
        #: checkpoint → channel → where its barrier was put
        self.barriers: dict[int, dict[int, int]] = {}
        #: checkpoint → what had been read, and whether it was unaligned
        self.snapshots: dict[int, tuple[list[int], bool]] = {}
        self.begun: set[int] = set()
        self.whole: set[int] = set()
        self.aborted: set[int] = set()

    def step(self, what: str, channel: int) -> None:
        producer = self.producers[channel]
        if what == "time-out":
            self.overtake()
        elif what == "read" and producer.read < self.limit(channel):
            producer.read += 1
            self.task.channels.received(channel)
        elif not producer.ended and what != "read":
            self.put(what, channel)
        self.reach()

    def put(self, what: str, channel: int) -> None:
        producer = self.producers[channel]
        if what == "data":
            producer.written += 1
            return
        producer.ended = what == "end"
        producer.checkpoint += what != "end"
        if what == "barrier":
            self.barriers.setdefault(producer.checkpoint, {})[channel] = producer.written
        if what == "barrier" and self.unaligned:
            self.see(channel, producer.checkpoint, producer.written, unaligned=True)
        else:
            producer.marks.append((what, producer.checkpoint, producer.written))

    def limit(self, channel: int) -> int:
        producer = self.producers[channel]
        if channel in self.task.channels.blocked:
            return producer.read
        return min((position for _, _, position in producer.marks), default=producer.written)

    def reach(self) -> None:
        """Deliver what the subtask stands at, oldest first, from channels that are not held back."""
        going = True
        while going:
            going = False
            for channel, producer in enumerate(self.producers):
                if (
                    producer.marks
                    and channel not in self.task.channels.blocked
                    and producer.marks[0][2] == producer.read
                ):
                    what, checkpoint, position = producer.marks.popleft()
                    going = True
                    if what == "barrier":
                        self.see(channel, checkpoint, position, unaligned=False)
                    elif what == "cancellation":
                        self.call("cancelled", channel, checkpoint)
                    else:
                        self.call("ended", channel)

    def see(self, channel: int, checkpoint: int, position: int, *, unaligned: bool) -> None:
        self.call("barrier", channel, checkpoint, unaligned=unaligned, position=position)

    def overtake(self) -> None:
        """The time of the pending checkpoint is up: its barriers are seen where they lie."""
        checkpoint = self.task.latest
        pending = self.task.pending
        self.call("timed_out", checkpoint)
        for channel, producer in enumerate(self.producers):
            for mark in [one for one in producer.marks if pending and one[:2] == ("barrier", checkpoint)]:
                producer.marks.remove(mark)
                self.see(channel, checkpoint, mark[2], unaligned=True)

    def call(self, method: str, *args: object, **kwargs: object) -> None:
        twin, before = deepcopy(self.task), deepcopy(self.task)
        expected = getattr(twin, method)(*args, **kwargs)
        assert self.task == before
        outcomes = getattr(self.task, method)(*args, **kwargs)
        assert (outcomes, self.task) == (expected, twin)
        if self.task.pending:
            self.begun.add(self.task.latest)
        for outcome in outcomes:
            self.check(outcome)

    def check(self, outcome: Outcome) -> None:
        number = outcome.checkpoint
        assert number not in self.whole | self.aborted
        if isinstance(outcome, Aborted):
            self.aborted.add(number)
        elif isinstance(outcome, AlignedSnapshot):
            assert number > max(self.snapshots, default=0)
            self.snapshots[number] = ([one.read for one in self.producers], outcome.unaligned)
        else:
            self.whole.add(number)
            self.check_whole(outcome)

    def check_whole(self, outcome: Aligned) -> None:
        read, unaligned = self.snapshots[outcome.checkpoint]
        assert unaligned or not outcome.in_flight
        assert all(start < end for start, end in outcome.in_flight.values())
        for channel, producer in enumerate(self.producers):
            barrier = self.barriers[outcome.checkpoint].get(channel, producer.written)
            start, end = outcome.in_flight.get(channel, (read[channel], read[channel]))
            assert (start, end) == (read[channel], barrier)

    def finish(self) -> None:
        """Every channel ends, and is read to its end."""
        for channel in range(CHANNELS):
            self.step("end", channel)
        for _ in range(sum(one.written for one in self.producers)):
            for channel in range(CHANNELS):
                self.step("read", channel)
        assert all(one.read == one.written and not one.marks for one in self.producers)
        assert not self.task.channels.open
        assert not self.task.channels.blocked
        assert not self.task.pending
        assert self.begun <= self.whole | self.aborted
        assert set(self.snapshots) <= self.whole | self.aborted


def scripts(*words: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(words), st.integers(0, CHANNELS - 1)), max_size=60)


@given(scripts("data", "read", "barrier", "end"))
def test_in_order_channels_align_every_checkpoint_and_lose_none(script: list[Step]) -> None:
    world = World(unaligned=False)
    for step in script:
        world.step(*step)
    world.finish()
    assert world.whole == set(world.barriers)
    assert not world.aborted


@given(scripts("data", "read", "barrier", "cancellation", "end"), st.booleans())
def test_every_checkpoint_ends_whole_or_aborted_and_its_snapshot_covers_all_before_the_barriers(
    script: list[Step], unaligned: bool
) -> None:
    world = World(unaligned=unaligned)
    for step in script:
        world.step(*step)
    world.finish()


@given(scripts("data", "data", "read", "barrier", "end", "time-out"))
def test_time_may_be_up_at_any_moment(script: list[Step]) -> None:
    world = World(unaligned=False)
    for step in script:
        world.step(*step)
    world.finish()
    assert all(number in world.whole for number in world.snapshots if number == max(world.barriers, default=0))


@given(st.data())
def test_a_checkpoint_that_is_alone_under_way_is_always_whole_when_its_barriers_have_come(data: st.DataObject) -> None:
    """Unaligned checkpoints come one at a time: each is whole, wherever its barriers lie and whatever was read."""
    world = World(unaligned=True)
    for checkpoint in range(1, 4):
        for step in data.draw(scripts("data", "data", "read")):
            world.step(*step)
        for channel in data.draw(st.permutations(range(CHANNELS))):
            world.step("barrier", channel)
            for step in data.draw(scripts("data", "read")):
                world.step(*step)
        assert world.whole == set(range(1, checkpoint + 1))
    world.finish()
