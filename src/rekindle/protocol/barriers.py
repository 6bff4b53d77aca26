"""The channels between subtasks, and the barriers in them.

Theory of operation
-------------------

A *channel* leads from a producer subtask to a consumer subtask. What is in it follows from the producer's batch
records, so a place in it is a number of batches: a channel that was `read` up to 3 gave its consumer the producer's
batches 0, 1 and 2. A consumer reads no further than it was *allowed* to (`AllowReading`), and is allowed only what the
protocol has heard of. So a barrier, which is put after the producer's last known batch, comes after everything that
any consumer has read: snapshot and barrier are one step (docs/architecture.md#a-checkpoint).

A barrier never travels; it is a place kept here.

- *Aligned*: the consumer is allowed to read up to the barrier and not beyond. Once it has reached the barriers of all
  its channels that are open, it takes its snapshot at that batch, its own barriers are put after it, and it may
  continue.
- *Unaligned* (FLIP-76): a barrier is seen the moment it is put down. The snapshot is taken at the last batch, and what
  lies between the place that was read and the barrier is in flight; it is durable already and only named. So the whole
  graph takes its snapshots in one step, whatever lies in the channels.
- An aligned one that takes too long is *overtaken*: its barriers are seen where they lie.

Which barrier completes what, `alignment` knows, one object for each subtask. A task that has ended its data and waits
takes part like any other, from the place where it stopped; only when its checkpoint is complete and its consumers have
read all of it is it closed (FLIP-147: EndOfData is acknowledged), and its channels count as aligned from then on.

A driver that only seemed dead may have planned a batch that reads further than this one allows; its successor has to
run that batch as it was planned. What its record says is held back until the subtask may have read so far: until then
the subtask is where it was, at the batch before. A barrier that such a batch has passed is never reached, so its
checkpoint cannot be completed (`passed`).

This module does not know why or when a checkpoint is taken, or who acknowledges it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.alignment import Alignment
from rekindle.protocol.alignment_outcomes import Aligned, AlignedSnapshot, Outcome
from rekindle.protocol.channel_state import ChannelState


@dataclass(slots=True, kw_only=True)
class Channel:
    """The state of one channel. A place in it is a number of batches of the producer."""

    producer: SubtaskId
    consumer: SubtaskId
    #: number of batches in it
    written: int = 0
    #: number of them that the consumer has recorded
    read: int = 0
    #: number of them that the consumer may read
    allowed: int = 0
    #: barriers that the consumer has not reached: checkpoint → place, in order
    barriers: dict[int, int] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Return whether the consumer has read all that is in the channel."""
        return self.read >= self.written


class _Place(NamedTuple):
    """A place in the work of a subtask: where a snapshot is taken, or a record that is held back."""

    #: last batch of the subtask
    batch: int
    #: producer → number of its batches that need not be read any more
    read: Mapping[SubtaskId, int]


class Barriers:
    """Every channel of a job, and the barriers of all pending checkpoints."""

    def __init__(self, topology: Topology) -> None:
        subtasks = [SubtaskId(v.uid, index) for v in topology.vertices for index in range(v.parallelism)]
        #: last recorded batch of each subtask, -1 for none
        self.batches = dict.fromkeys(subtasks, -1)
        #: number of changes: a batch recorded, a channel read further, or a task closed
        self.changes = 0
        self._inputs: dict[SubtaskId, dict[SubtaskId, Channel]] = {task: {} for task in subtasks}
        self._outputs: dict[SubtaskId, dict[SubtaskId, Channel]] = {task: {} for task in subtasks}
        for edge in topology.edges:
            for consumer in (task for task in subtasks if task.task == edge.target):
                for index in topology.producers(edge, consumer.subtask):
                    self._connect(SubtaskId(edge.source, index), consumer)
        self._alignments = {task: Alignment(ChannelState(inputs)) for task, inputs in self._inputs.items()}
        #: subtasks that are not closed
        self._open = set(subtasks)
        #: subtask and checkpoint → its cut, kept until all its barriers are there
        self._cuts: dict[tuple[SubtaskId, int], _Place] = {}
        #: subtask → its record that is held back
        self._ahead: dict[SubtaskId, _Place] = {}

    def _connect(self, producer: SubtaskId, consumer: SubtaskId) -> None:
        if producer not in self._inputs[consumer]:
            channel = Channel(producer=producer, consumer=consumer)
            self._inputs[consumer][producer] = channel
            self._outputs[producer][consumer] = channel

    # -- what has happened --------------------------------------------------------------------------------------------

    def restore(self, task: SubtaskId, batch: int, read: Mapping[SubtaskId, int]) -> None:
        """Take in the last batch of a subtask, and how far it had read each channel, when the driver starts."""
        self.batches[task] = batch
        for channel in self._outputs[task].values():
            channel.written = batch + 1
        for producer, place in read.items():
            self._inputs[task][producer].read = self._inputs[task][producer].allowed = place
            self._alignments[task].channels.received(producer, place)

    def begin(self) -> tuple[c.Command, ...]:
        """Return the orders for what may be read, once all subtasks are restored."""
        return tuple(self._allow(self._inputs))

    def recorded(self, task: SubtaskId, batch: int, read: Mapping[SubtaskId, int]) -> tuple[c.Command, ...]:
        """Note that a batch is durable, and how far each channel is `read` by now. Known facts change nothing.

        More may be read without another batch: a producer's batches that put nothing into the channel are skipped.
        """
        if batch < self.batches[task]:
            return ()
        before = self._ahead.get(task, _Place(batch, {}))
        read = {**before.read, **{one: max(place, before.read.get(one, 0)) for one, place in read.items()}}
        self._ahead[task] = _Place(max(batch, before.batch), read)
        return self._follow((), {task})

    def _take_in(self, task: SubtaskId) -> list[tuple[SubtaskId, Outcome]]:
        batch, read = self._ahead.pop(task)
        self.changes += batch > self.batches[task]
        self.batches[task] = batch
        for channel in self._outputs[task].values():
            channel.written = batch + 1
        outcomes: list[tuple[SubtaskId, Outcome]] = []
        for producer, place in read.items():
            channel = self._inputs[task][producer]
            if place <= channel.read:
                continue
            self._alignments[task].channels.received(producer, place - channel.read)
            self.changes += 1
            channel.read = place
            outcomes += self._reached(channel)
        return outcomes

    def closed(self, task: SubtaskId) -> tuple[c.Command, ...]:
        """Note that a task is closed: its output channels have ended (EndOfPartition), and it gets no more barriers."""
        self.changes += 1
        self._open.remove(task)
        for channel in self._inputs[task].values():
            del self._outputs[channel.producer][task]
        outcomes: list[tuple[SubtaskId, Outcome]] = []
        for channel in self._outputs[task].values():
            channel.barriers.clear()  # its end counts for all of them
            outcomes += [(channel.consumer, one) for one in self._alignments[channel.consumer].ended(task)]
        return self._follow(outcomes, set())

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def trigger(self, checkpoint: int, roots: Iterable[SubtaskId], unaligned: bool) -> tuple[c.Command, ...]:
        """Begin a checkpoint at the roots, and pass its barriers on as far as consumers have read."""
        begun = ((root, self._alignments[root].triggered(checkpoint, unaligned=unaligned)) for root in roots)
        return self._follow([(root, one) for root, outcomes in begun for one in outcomes], set())

    def overtake(self, checkpoint: int) -> tuple[c.Command, ...]:
        """Let an aligned checkpoint, the oldest one pending, continue unaligned."""
        outcomes: list[tuple[SubtaskId, Outcome]] = []
        touched: set[SubtaskId] = set()
        for task, alignment in self._alignments.items():
            outcomes += [(task, one) for one in alignment.timed_out(checkpoint)]
        for channel in self._channels():
            if checkpoint in channel.barriers:
                place = channel.barriers.pop(checkpoint)
                touched.add(channel.consumer)
                outcomes += self._seen(channel, checkpoint, place, unaligned=True)
        return self._follow(outcomes, touched)

    def abort(self, checkpoint: int) -> tuple[c.Command, ...]:
        """Take the barriers of a checkpoint away; consumers that they held back continue."""
        for channel in self._channels():
            channel.barriers.pop(checkpoint, None)
        for task in self._open:
            self._alignments[task].aborted(checkpoint)
        self._cuts = {key: cut for key, cut in self._cuts.items() if key[1] != checkpoint}
        outcomes = [one for channel in self._channels() for one in self._reached(channel)]
        return self._follow(outcomes, set(self._inputs))

    # -- what others ask ----------------------------------------------------------------------------------------------

    def inputs(self, task: SubtaskId) -> Collection[Channel]:
        """Return the channels that a subtask reads."""
        return self._inputs[task].values()

    def outputs(self, task: SubtaskId) -> Collection[Channel]:
        """Return the channels that a subtask writes."""
        return self._outputs[task].values()

    def passed(self) -> int | None:
        """Return a checkpoint whose barrier was passed by a batch that reads too far; None: there is none."""
        for task in self._ahead:
            for channel in self._too_far(task):
                if channel.producer in self._alignments[task].channels.blocked:
                    return self._alignments[task].latest
                if channel.barriers:
                    return next(iter(channel.barriers))
        return None

    # -- how a checkpoint continues -----------------------------------------------------------------------------------

    def _follow(self, outcomes: Iterable[tuple[SubtaskId, Outcome]], touched: set[SubtaskId]) -> tuple[c.Command, ...]:
        """Pass barriers on until nothing more follows. Return the snapshots to take, then what may be read."""
        todo = deque(outcomes)
        snapshots: list[c.Command] = []
        while todo or (ready := [task for task in self._ahead if not self._too_far(task)]):
            if not todo:
                todo.extend(self._take_in(ready[0]))
                touched.add(ready[0])
                continue
            task, outcome = todo.popleft()
            touched.add(task)
            if isinstance(outcome, AlignedSnapshot):
                read = {producer: channel.read for producer, channel in self._inputs[task].items()}
                self._cuts[task, outcome.checkpoint] = _Place(self.batches[task], read)
                for channel in self._outputs[task].values():
                    todo.extend(self._put_down(channel, outcome))
            else:
                # None is aborted here: an aligned barrier passes no other, and an unaligned one goes alone.
                assert isinstance(outcome, Aligned)
                cut = self._cuts.pop((task, outcome.checkpoint))
                snapshots.append(
                    c.TakeSnapshot(
                        task=task,
                        checkpoint=outcome.checkpoint,
                        batch=cut.batch,
                        in_flight=dict(outcome.in_flight),
                        read=cut.read,
                    )
                )
                for channel in self._inputs[task].values():
                    todo.extend(self._reached(channel))
        return (*snapshots, *self._allow(touched))

    def _too_far(self, task: SubtaskId) -> list[Channel]:
        """Return the channels of which a record that is held back has read more than its subtask may."""
        channels = ((self._inputs[task][producer], place) for producer, place in self._ahead[task].read.items())
        return [channel for channel, place in channels if place > max(channel.read, self._limit(channel))]

    def _put_down(self, channel: Channel, snapshot: AlignedSnapshot) -> Iterator[tuple[SubtaskId, Outcome]]:
        place = channel.written
        if snapshot.unaligned:
            return self._seen(channel, snapshot.checkpoint, place, unaligned=True)
        channel.barriers[snapshot.checkpoint] = place
        return self._reached(channel)

    def _reached(self, channel: Channel) -> Iterator[tuple[SubtaskId, Outcome]]:
        """Deliver the barriers that the consumer has reached; while a channel is held back, its next one waits."""
        alignment = self._alignments[channel.consumer]
        while channel.barriers and channel.producer not in alignment.channels.blocked:
            checkpoint, place = next(iter(channel.barriers.items()))
            if place > channel.read:
                return
            del channel.barriers[checkpoint]
            yield from self._seen(channel, checkpoint, place, unaligned=False)

    def _seen(
        self, channel: Channel, checkpoint: int, place: int, *, unaligned: bool
    ) -> Iterator[tuple[SubtaskId, Outcome]]:
        alignment = self._alignments[channel.consumer]
        for outcome in alignment.barrier(channel.producer, checkpoint, unaligned=unaligned, position=place):
            yield channel.consumer, outcome

    # -- who may read what --------------------------------------------------------------------------------------------

    def _allow(self, tasks: Iterable[SubtaskId]) -> Iterator[c.Command]:
        channels = {
            (channel.producer, channel.consumer): channel
            for task in sorted(tasks)
            for channel in (*self._inputs[task].values(), *self._outputs[task].values())
        }
        for channel in channels.values():
            limit = self._limit(channel)
            if limit > channel.allowed:
                channel.allowed = limit
                yield c.AllowReading(task=channel.consumer, producer=channel.producer, upto=limit)

    def _limit(self, channel: Channel) -> int:
        if channel.producer in self._alignments[channel.consumer].channels.blocked:
            return channel.read
        return min(channel.barriers.values(), default=channel.written)

    def _channels(self) -> Iterator[Channel]:
        for outputs in self._outputs.values():
            yield from outputs.values()
