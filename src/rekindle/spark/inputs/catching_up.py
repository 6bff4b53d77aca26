"""The rest that one subtask has to do in a run that reads what is available now.

Of its sources, it reads what they had when its query was started. Of a bounded one that is all there is. A stream of
Spark's is bound at the first batch to what is there then (`spark.streaming.available_now`); all is read of it when a
look finds nothing in any stream, or when a later batch has nothing of it. Of one that cannot be bound all is read once
a batch after the first has read it; of a custom source, when none of its splits has anything.

When all is read, of its channels too, and in batch records, one more batch may follow from that: the watermark of the
last rows closes windows, in a batch without data. So a subtask has caught up once a look after that finds nothing, or
once that batch is recorded: with timers of processing time, or a stream that cannot be bound, batches never end. Where
there is nothing to close, Spark runs no such batch; but the tasks that read this one hear of its watermark by its batch
records, so it is nudged to run one.

A task may never come to the end of its channels: one that writes there may have batches without end, and be quicker. So
it has to read what its producers had written when they had caught up (`CaughtUpAt`), and run the batches that
follow from that (`_FOLLOWING`). What it says once it has is enough, however much it reads later.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.progress import Progress
from rekindle.storage.documents.batch import BatchRecord

Looks = Callable[[Callable[[int], None]], None]
"""Lets a query look; calls back once a look has found nothing, with the watermark of its next batch (ms).

On a thread of its own; never, if the query ends before.
"""

_FOLLOWING = 4
"""Batches that follow where the next one always has more: what is on its way, and one more read of a custom source,
take two, the watermark row that says how late that was is read by the third, and the fourth closes windows."""

_NONE = SubtaskId("", 0)


class CaughtUpAt:
    """The subtasks of a run that have caught up, each with the batch by which it had."""

    def __init__(self) -> None:
        self._batches: dict[SubtaskId, int] = {}

    def note(self, subtask: SubtaskId, batch: int | None) -> None:
        """Note the batch by which a subtask has caught up; None: it has to catch up again."""
        if batch is None:
            self._batches.pop(subtask, None)
        else:
            self._batches[subtask] = batch

    def is_read(self, inputs: Iterable[Input], read: Mapping[SubtaskId, int]) -> bool:
        """Return True if the producers of all channels have ended or caught up, and all is read that they had written.

        Args:
            read: producer → how many of its batches are read.
        """
        return all(
            producer.ended_by(read.get(subtask, 0)) or read.get(subtask, 0) > self._batches.get(subtask, math.inf)
            for item in inputs
            for index, producer in item.producers.items()
            for subtask in (SubtaskId(item.uid, index),)
        )


class CatchingUp:
    """The rest that one subtask has to do in a run of what is available now; in any other run, nothing.

    Args:
        is_wanted: whether the run is such a one.
        watermark_ms: watermark of the last batch record.
        bind: binds streams, by their numbers in Spark's order, to what is there; returns those that cannot be bound.
            Called on the thread of a batch.
        caught_up: called with how far all is read once nothing is left to do, from whichever thread has found that
            out; again when more was read of its channels since, until that is enough.
        subtask: this one.
        caught_up_at: the batches with which the subtasks of the run have caught up.
    """

    def __init__(
        self,
        inputs: Sequence[Input] = (),
        *,
        is_wanted: bool = False,
        watermark_ms: int | None = None,
        bind: Callable[[Collection[int]], Collection[int]] = lambda numbers: numbers,
        caught_up: Callable[[Progress], None] = lambda _: None,
        subtask: SubtaskId = _NONE,
        caught_up_at: CaughtUpAt | None = None,
    ) -> None:
        self._sources = [item for item in inputs if not item.is_channel]
        self._streams = [item for item in self._sources if item.feed is None]
        # Where nothing but bounded sources is read, it ends by itself.
        self._is_wanted = is_wanted and any(item.is_channel or not item.bounded for item in inputs)
        self._channels = [item for item in inputs if item.is_channel]
        self._bind, self._caught_up = bind, caught_up
        self._subtask, self._caught_up_at = subtask, caught_up_at or CaughtUpAt()
        #: tells how far all is read, and whether nothing is on its way to the query; None: it is given nothing
        self.reached: Callable[[], tuple[Progress, bool] | None] = lambda: None
        #: lets the query run a batch without data; nothing where no task reads this one
        self.nudge: Callable[[], None] = lambda: None
        self._watermark_ms = watermark_ms or 0
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Begin again with a query that is about to be started: it asks every stream once more."""
        with self._lock:
            self._caught_up_at.note(self._subtask, None)
            self._left = {item.uid for item in self._sources}
            self._is_bound = False
            self._unbound: Collection[int] = ()
            #: stream → where it stood after the last batch of this query
            self._stood: dict[str, Any] = {}
            #: the place to which all was read when nothing was found left to read; None: something is
            self._read: Progress | None = None
            self._has_reported = False
            #: the progress in its channels when it last reported
            self._reported: Mapping[SubtaskId, int] | None = None
            #: the batch with which enough was read, although more is on its way
            self._enough_at: int | None = None
            #: lets the query look; None: it does not run yet
            self._look: Looks | None = None
            self._is_looking = False

    def begun(self, look: Looks) -> None:
        """Take in that the query runs, and what lets it look."""
        if self._is_wanted:
            with self._lock:
                self._look, self._is_looking, since = look, True, self._read
            look(partial(self._found_nothing, look, since))

    def batch(self) -> None:
        """Bind the streams to what is there, in the first batch of a query."""
        if self._is_wanted and self._streams and not self._is_bound:
            self._unbound = self._bind([number for item in self._streams for number in item.spark_sources])
            self._is_bound = True

    def recorded(self, record: BatchRecord) -> None:
        """Take in a batch record, after the inputs have."""
        if not self._is_wanted:
            return
        with self._lock:
            self._watermark_ms = record.watermark_ms or 0
            for item in self._streams:
                offset = record.inputs[item.uid].offset
                is_later = item.uid in self._stood
                if is_later and (
                    self._stood[item.uid] == offset or not set(item.spark_sources).isdisjoint(self._unbound)
                ):
                    self._left.discard(item.uid)
                self._stood[item.uid] = offset
        self.moved()

    def rested(self, uid: str) -> None:
        """Take in that none of the splits of a custom source has anything."""
        with self._lock:
            self._left.discard(uid)
        self.moved()

    def moved(self) -> None:
        """Take in that more may have been read: a batch after all was read is the one that follows from that."""
        self._consider(lambda before, now: now.batch > before.batch)

    def _found_nothing(self, look: Looks, since: Progress | None, watermark_ms: int) -> None:
        with self._lock:
            if look is not self._look:
                return  # of a query that is over
            self._is_looking = False
            self._left -= {item.uid for item in self._streams}
            lags = watermark_ms > self._watermark_ms
        if lags:
            self.nudge()
        self._consider(lambda before, _: before is since)

    def _consider(self, is_over: Callable[[Progress, Progress], bool]) -> None:
        """Look whether all is read, and report it if what follows from that is done.

        Args:
            is_over: tells that, from how far all was read when that was found out, and now.
        """
        if not self._is_wanted:
            return
        with self._lock:
            self._left -= {item.uid for item in self._sources if item.ended}
            reached = None if self._left else self.reached()
            if reached is None or (self._reported is not None and self._is_enough(self._reported)):
                return
            now, rests = reached
            is_done = self._is_over(now, is_over) if rests else self._is_through(now)
            if is_done:
                self._has_reported, self._reported, self._enough_at = True, now.read, None
                self._caught_up_at.note(self._subtask, now.batch)
            look, since = None if self._is_looking or self._has_reported or not rests else self._look, self._read
            self._is_looking |= look is not None
        if is_done:
            self._caught_up(now)
        if look is not None:
            look(partial(self._found_nothing, look, since))

    def _is_over(self, now: Progress, is_over: Callable[[Progress, Progress], bool]) -> bool:
        before = self._read
        if before is None or now.read != before.read:
            self._read, self._has_reported = now, False
            return False
        return not self._has_reported and is_over(before, now)

    def _is_enough(self, read: Mapping[SubtaskId, int]) -> bool:
        return self._caught_up_at.is_read(self._channels, read)

    def _is_through(self, now: Progress) -> bool:
        """Return True if what follows is done from all that is to be read, though more is on its way."""
        if not self._is_enough(now.read):
            self._enough_at = None
        elif self._enough_at is None:
            self._enough_at = now.batch
        return self._enough_at is not None and now.batch >= self._enough_at + _FOLLOWING
