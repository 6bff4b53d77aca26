"""The admissions and watermark rows that a query is given to read, and how far it has read them.

Nothing is admitted before the admission in front of it is in a batch record. So the query's own thread continues here,
at the end of each batch; the driver's comes in with what a channel may be read up to. A lock keeps them apart.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.feed import Feed, FileFeed
from rekindle.channels.split_feed import SplitFeed
from rekindle.ids import SubtaskId
from rekindle.protocol.clock import ChannelInput, IdleTimer, ProducerClock, SourceInput, watermarks
from rekindle.spark.inputs.event_times import EventTimeStats
from rekindle.spark.inputs.input import Input, in_backlog, only_inboxes
from rekindle.spark.inputs.progress import Progress
from rekindle.spark.inputs.split_reading import SplitReading
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.sources import SplitRead

STOP_WAITS_S = 30.0
"""The longest time that a stop waits for a read of a custom source: a read may wait for a lock, or a dead server."""


class Intake:
    """The inputs of one subtask.

    Args:
        last: the batch whose record their positions are of, -1 for none.
    """

    def __init__(self, inputs: Sequence[Input], last: int) -> None:
        self._inputs = inputs
        self._last = last
        self._lock = threading.Lock()
        #: True while more is admitted
        self._open = False
        #: nothing more is read; what was read of custom sources is let through
        self._closing = False
        #: its sources end where they stand; its channels are read on
        self._sources_stopped = False
        #: the first batch is to have nothing of bounded sources
        self._holding = False
        #: custom sources that are being read
        self._reading: set[str] = set()
        #: watermark that each input was given since the query was started, ms
        self._in_force: dict[str, int] = {}
        #: watermark that Spark keeps of an input's rows, as they have shown since the query was started, ms
        self._own_ms: dict[str, int] = {}
        #: mark of an input that was admitted while its silence was due: the batch that reads it is the proof
        self._probes: dict[str, int] = {}

    def open(self, *, holding: bool = False) -> bool:
        """Admit for a query that is about to start, and set every watermark again, since Spark has forgotten them.

        Args:
            holding: its first batch is to have nothing of bounded sources except a watermark row, so that it exists.

        Return whether its sources have ended: other subtasks may have been given what was left of them.
        """
        with self._lock:
            self._open, self._closing, self._holding = True, False, holding
            self._in_force.clear()
            self._own_ms.clear()
            self._probes.clear()
            for _, timer in self._timers:
                timer.broken()
            self._reading.clear()
            self._admit()
            self._begin_to_read()
            return self.sources_ended

    def pause(self) -> None:
        """Admit nothing more until it is opened again, which the query's next start does at once."""
        self._open = False
        for reading in self._readings:
            reading.close(abandon=False)

    def close(self, *, wait: bool = True, at_most_s: float | None = None) -> None:
        """Admit nothing more, and read no source, until it is opened again; let through what was read of custom ones.

        Args:
            wait: let the reads that are under way end; else what they give is not used.
            at_most_s: wait no longer than that for each.
        """
        self._open = self._sources_stopped = self._closing = False
        for reading in self._readings:
            reading.close(abandon=not wait)
        if wait:
            for reading in self._readings:
                reading.wait(at_most_s)
            with self._lock:
                self._closing = True
                self._admit_read()

    def stop_sources(self) -> None:
        """Admit nothing more of the sources."""
        self._sources_stopped = True
        for reading in self._readings:
            reading.close(abandon=False)

    def staged(self, feed: SplitFeed, number: int, document: SplitRead) -> bool:
        """Take in a read of a custom source, and its number; return whether the sources have ended."""
        with self._lock:
            feed.stage(number, document)
            if self._open:
                self._admit()
            elif self._closing:
                self._admit_read()
            return self._open and self.sources_ended

    @property
    def _readings(self) -> Sequence[SplitReading]:
        return [item.reading for item in self._inputs if item.reading is not None]

    def _begin_to_read(self) -> None:
        """Let custom sources be read, each once the history that it follows is in batch records to its end."""
        ended = {item.uid for item in self._inputs if item.ended}
        for item in self._inputs if not self._sources_stopped else ():
            waits = item.follows is not None and item.follows not in ended
            if item.reading is not None and item.uid not in self._reading and not waits:
                self._reading.add(item.uid)
                item.reading.open()

    def _admit_read(self) -> None:
        for item in self._inputs:
            if isinstance(item.feed, SplitFeed):
                item.feed.admit()

    def allow(self, producer: SubtaskId, upto: int) -> Progress | None:
        """Let a channel be read up to `upto` batches; return how far all is read, if that alone has moved it."""
        with self._lock:
            feed = self._channels()[producer.task]
            moved = feed.allow(producer.subtask, upto)
            if self._open:
                self._admit()
            return self._progress() if moved else None

    def ticked(self, now_ms: int, resting: bool) -> bool:
        """Advance the idle timers. Return True if the query has to look: something was admitted.

        Args:
            now_ms: the time, by a clock that runs only while the driver does.
            resting: no batch is running. While one is, what it has read comes first.
        """
        if not self._timers or not self._open:
            return False
        with self._lock:
            for _, timer in self._timers:
                timer.ticked(now_ms)
            before = dict(self._probes)
            if resting and any(map(self._unproven, self._inputs)):
                self._admit()
            return before != self._probes

    def recorded(
        self, record: BatchRecord, duration_ms: int, met: Mapping[str, EventTimeStats]
    ) -> tuple[Progress, bool]:
        """Let the inputs continue after a batch record; return how far all is read, and if the sources have ended."""
        with self._lock:
            self._last, self._holding = record.batch, False
            self._note(record, met)
            for item in self._inputs:
                item.position = record.inputs[item.uid]
                if item.feed is not None:
                    item.feed.recorded(item.position, duration_ms)
            if self._open:
                self._admit()
                self._begin_to_read()
            elif self._closing:
                self._admit_read()
            for reading in self._readings:
                reading.consumed()
            return self._progress(), self._open and self.sources_ended

    def _note(self, record: BatchRecord, met: Mapping[str, EventTimeStats]) -> None:
        """Take in what a batch had of the inputs whose watermark Spark keeps."""
        for item, timer in self._timers:
            one, position = met.get(item.uid), record.inputs[item.uid]
            if position.offset != item.position.offset if one is None else one.rows:
                timer.broken()
                self._probes.pop(item.uid, None)
            elif position.mark >= self._probes.get(item.uid, position.mark + 1):
                timer.proven()
        for item in self._inputs:
            one = met.get(item.uid)
            if one is not None and one.last_us is not None and item.delay_ms is not None:
                watermark_ms = one.last_us // 1000 - item.delay_ms
                self._own_ms[item.uid] = max(watermark_ms, self._own_ms.get(item.uid, watermark_ms))

    def _unproven(self, item: Input) -> bool:
        """Return True if an input has been silent for long enough and no mark is on its way to prove it idle."""
        return item.idle_timer is not None and item.idle_timer.due and item.uid not in self._probes

    @property
    def _timers(self) -> Sequence[tuple[Input, IdleTimer]]:
        return [(item, item.idle_timer) for item in self._inputs if item.idle_timer is not None]

    @property
    def _sources(self) -> Sequence[Input]:
        return [item for item in self._inputs if not item.is_channel]

    @property
    def sources_ended(self) -> bool:
        """True if there are sources, and all of them were read to their end."""
        return bool(self._sources) and all(item.ended for item in self._sources)

    def reached(self) -> tuple[Progress, bool] | None:
        """Return how far all is read, and whether nothing that was admitted is still to be read; None: it is closed."""
        with self._lock:
            return (self._progress(), not any(map(_is_on_its_way, self._inputs))) if self._open else None

    def nudge(self) -> None:
        """Admit a watermark row that says nothing new, where an input has any: a batch has to read it."""
        with self._lock:
            item = next((item for item in self._inputs if item.marks is not None), None)
            if self._open and item is not None and item.marks is not None and not _is_on_its_way(item):
                item.marks.admit(item.position.mark + 1, item.mark_us(self._in_force.get(item.uid, 0)))

    @property
    def outstanding(self) -> bool:
        """True if something is on its way that no record covers yet and an end waits for: of custom sources where Spark
        reads a source itself, which brings more with each batch.
        """
        wanted = Feed if only_inboxes(self._inputs) else SplitFeed
        with self._lock:  # a record may be followed by an admission
            return any(isinstance(item.feed, wanted) and item.feed.waiting for item in self._inputs)

    def _progress(self) -> Progress:
        read = {
            SubtaskId(item.uid, index): feed.read(index)
            for item in self._inputs
            if isinstance(feed := item.feed, ChannelFeed)
            for index in item.producers
        }
        return Progress(self._last, read, in_backlog(self._inputs))

    def _channels(self) -> Mapping[str, ChannelFeed]:
        return {item.uid: item.feed for item in self._inputs if isinstance(item.feed, ChannelFeed)}

    def _admit(self) -> None:
        for item in self._inputs:
            held = self._sources_stopped or (self._holding and item.bounded)
            if item.feed is not None and (item.is_channel or not held):
                item.feed.admit()
        wanted = watermarks({item.uid: self._as_the_clock_sees(item) for item in self._inputs}, in_force=self._in_force)
        if self._holding:
            wanted |= {item.uid: 0 for item in self._inputs if item.bounded and item.uid not in wanted}
        for item in self._inputs:
            at_ms, in_force_ms = wanted.get(item.uid), self._in_force.get(item.uid)
            probing = self._unproven(item)
            if item.marks is None or (at_ms in (None, in_force_ms) and not probing):
                continue
            mark = item.position.mark + 1
            if item.marks.inbox.last_admitted() < mark:
                # A probe says nothing new: it is there to be read.
                item.marks.admit(mark, item.mark_us(at_ms or 0))
                if at_ms is not None:
                    self._in_force[item.uid] = at_ms
                if probing:
                    self._probes[item.uid] = mark

    def _as_the_clock_sees(self, item: Input) -> SourceInput | ChannelInput:
        feed = item.feed
        if not isinstance(feed, ChannelFeed):
            idle = item.idle_timer is not None and item.idle_timer.idle
            unread_from_ms = feed.unread_from_ms if isinstance(feed, FileFeed) else None
            own_ms = self._own_ms.get(item.uid)
            return SourceInput(ended=item.ended, unread_from_ms=unread_from_ms, own_ms=own_ms, idle=idle)
        read = {index: feed.read(index) for index in item.producers}
        return ChannelInput(
            producers=tuple(
                ProducerClock(watermark_ms=one.watermark_ms(read[index] - 1), ended=one.ended_by(read[index]))
                for index, one in item.producers.items()
            )
        )


def _is_on_its_way(item: Input) -> bool:
    """Return True if something that was admitted is not in a batch record yet: files, or a watermark row."""
    has_mark = item.marks is not None and item.marks.inbox.last_admitted() > item.position.mark
    return has_mark or (item.feed is not None and item.feed.waiting)
