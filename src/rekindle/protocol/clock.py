"""The watermark that each input of a query is given (docs/architecture.md#event-time).

Theory of operation
-------------------

A watermark is a promise, as in Flink: no row at or before it is still to come on this input. Spark keeps one for each
input of a query, works with the lowest of them, drops rows that break the promise, and never takes one back. So an
input that has ended stops the time of its query unless Spark hears that its time is over, and a watermark that is set
too early loses rows. While an input continues, its watermark depends on what is known of the rows still to come:

=================================  ===================================================================================
input                              watermark while it continues
=================================  ===================================================================================
bounded source, in any order       none: nothing of it is ever late
bounded source, in order           just before the least event time that was not read yet, where that is known
unbounded source (a ``Stream``)    none of ours: Spark follows its rows, with the delay that the user gave
channel                            the least output watermark of its producers
=================================  ===================================================================================

1. Of a channel's producers, those that have ended are left out; one that has no watermark yet holds the watermark back.
2. The end of an input is the end of time: for a source its last row, for a channel EndOfData[finished=true] of *all*
   its producers. EndOfData[finished=false] is no end: what was merely stopped keeps its last watermark, and will
   continue.
3. A drain ends every source where it stands. A channel it does not end: its producers flush first, and what they still
   send must not be late.
4. When all inputs of a query have ended there is nothing to hold back: the flush does what is left, so none is set.
5. An *idle* input, one that is proven to have had no data for as long as its user has said (`IdleTimer`), holds nothing
   back: it advances to the lowest watermark among the active inputs. No further: its next rows are measured by
   it, and a watermark is never taken back. Where no other input is active, or one of them has no time, its own stays.
   It is idle until it has data again.
6. A watermark never goes backwards, whatever is heard, and in whichever order.
7. Spark forgets every watermark on a restart. What is in force is therefore given back in full each time, and after a
   restart or a restore the caller, whose new query has none yet, sets all of it again.

What a producer says counts once the rows that it says it of are read: a watermark, or an end, belongs to a batch record
and is to be given here when that batch record's segments have been admitted. What is unread in a channel would be late.

This module does not know how a watermark is set on an input, in which unit Spark counts, nor how far its end of time
lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

END_OF_TIME: Final = 2**63 - 1
"""A time after every possible event time, ms; Flink's MAX_WATERMARK."""


class IdleTimer:
    """A timer for an input without data: the time is counted by ticks, and then proven by a batch.

    ::

        counting ──idle_after without a row──► due ──a batch planned since then has none of it──► idle
            ▲                                   │                                                  │
            └───────── a batch that has rows of it, or another start of its query ─────────────────┘

    Counting alone proves nothing: rows that have come may wait for a batch that takes long, or may be in it. Only a
    batch that was planned after the time was up, and has no row of the input, proves that there was no data.

    Args:
        idle_after_ms: time without data after which the input is idle, as the user has set it.
    """

    def __init__(self, idle_after_ms: int) -> None:
        self._idle_after_ms = idle_after_ms
        self._since_ms: int | None = None
        #: True if it has had no data for long enough, as far as is known, so that a batch is to prove it
        self.due = False
        #: True if it does not hold the watermark back any more
        self.idle = False

    def broken(self) -> None:
        """Begin again: the input has had data, or its query was started again."""
        self._since_ms, self.due, self.idle = None, False, False

    def ticked(self, now_ms: int) -> None:
        """Continue to count. The time begins with the first tick after data."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self.due = self.due or now_ms - self._since_ms >= self._idle_after_ms

    def proven(self) -> None:
        """Mark the input idle if it is still due: a batch that was planned while it was due has none of its rows."""
        self.idle = self.due


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerClock:
    """The event time of one producer of a channel, as far as the channel is read."""

    #: output watermark in its last batch record that is read, ms since the epoch; None: it has none yet
    watermark_ms: int | None = None
    #: True if it has sent EndOfData[finished=true]
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelInput:
    """An input that other tasks of the job write."""

    #: all of its producers, whether they still run or not; at least one
    producers: tuple[ProducerClock, ...]
    #: always False: only a source can be idle
    idle = False

    def ends(self, draining: bool) -> bool:
        """Return whether no more rows come; a drain reaches a channel through its producers."""
        return all(producer.ended for producer in self.producers)

    def tells_ms(self) -> int | None:
        """Return how far its time is known to be."""
        return self.watermark_ms()

    def watermark_ms(self) -> int | None:
        """Return the watermark while it continues."""
        open_ones = [producer.watermark_ms for producer in self.producers if not producer.ended]
        known = [watermark_ms for watermark_ms in open_ones if watermark_ms is not None]
        return min(known) if len(known) == len(open_ones) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInput:
    """An input that is a source of the job."""

    #: True if everything of it was read
    ended: bool = False
    #: lowest event time of the rows not read yet, ms since the epoch; None: not known, as for a source that is in no
    #: order or has no end, or not to be followed, as the query makes older rows of them
    unread_from_ms: int | None = None
    #: watermark that Spark keeps of its rows, ms since the epoch; None: there is none yet
    own_ms: int | None = None
    #: see `IdleTimer`
    idle: bool = False

    def ends(self, draining: bool) -> bool:
        """Return whether no more rows come: it was read to its end, or a drain ends it."""
        return self.ended or draining

    def tells_ms(self) -> int | None:
        """Return how far its time is known to be."""
        return self.own_ms if self.unread_from_ms is None else self.watermark_ms()

    def watermark_ms(self) -> int | None:
        """Return the watermark while it continues."""
        return None if self.unread_from_ms is None else self.unread_from_ms - 1


def watermarks(
    inputs: Mapping[str, SourceInput | ChannelInput],
    *,
    in_force: Mapping[str, int] | None = None,
    draining: bool = False,
) -> dict[str, int]:
    """Return the watermark of every input that has one, ms since the epoch or `END_OF_TIME`, by uid.

    Args:
        inputs: all inputs of the query, by uid.
        in_force: the result of the last call, by this driver or by the one whose batch records are read; may name other
            inputs.
        draining: True if the user drains the job; False for a plain stop.
    """
    ends = {uid: one.ends(draining) for uid, one in inputs.items()}
    if all(ends.values()):
        return {}
    found = {uid: END_OF_TIME if ends[uid] else one.watermark_ms() for uid, one in inputs.items()}
    active = [one.tells_ms() for uid, one in inputs.items() if not (one.idle or ends[uid])]
    known = [watermark_ms for watermark_ms in active if watermark_ms is not None]
    if known and len(known) == len(active):
        found |= {uid: min(known) for uid, one in inputs.items() if one.idle and not ends[uid]}
    before = in_force or {}
    both = {uid: [w for w in (found[uid], before.get(uid)) if w is not None] for uid in inputs}
    return {uid: max(candidates) for uid, candidates in both.items() if candidates}
