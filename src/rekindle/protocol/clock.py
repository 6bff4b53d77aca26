"""Which watermark an input is given (docs/architecture.md#event-time).

Theory of operation
-------------------

A watermark is a promise, as in Flink: no row at or before it is still to come on this input. Spark keeps one for each
input of a query, works with the least of them, drops what breaks the promise, and never takes one back. So an input
that has ended freezes its query unless Spark hears that its time is over, and a watermark that is set too early loses
rows. What it is while an input continues depends on what is known of what is still to come:

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
and is to be given here when that record's segments have been admitted. What lies unread in a channel would be late.

This module does not know how a watermark is set on an input, in which unit Spark counts, nor how far its end of time
lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

END_OF_TIME: Final = 2**63 - 1
"""After every event time there can be; Flink's MAX_WATERMARK."""


class IdleTimer:
    """How long an input has had no data: counted by ticks, and then proven by a batch.

    ::

        counting ──idle_after without a row──► due ──a batch planned since then has none of it──► idle
            ▲                                   │                                                  │
            └───────── a batch that has rows of it, or another start of its query ─────────────────┘

    Counting alone proves nothing: rows that have come may wait for a batch that takes long, or may be in it. Only what
    was planned after the time was up, and has found nothing, shows that there was nothing.

    Args:
        idle_after_ms: what its user has said.
    """

    def __init__(self, idle_after_ms: int) -> None:
        self._idle_after_ms = idle_after_ms
        self._since_ms: int | None = None
        #: whether it has been silent for long enough, as far as is known, so that a batch is to prove it
        self.due = False
        #: whether it holds nothing back any more
        self.idle = False

    def broken(self) -> None:
        """It has had data; or its query was started again."""
        self._since_ms, self.due, self.idle = None, False, False

    def ticked(self, now_ms: int) -> None:
        """Count on. The time begins with the first tick after data."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self.due = self.due or now_ms - self._since_ms >= self._idle_after_ms

    def proven(self) -> None:
        """A batch that was planned while it was due has none of its rows. It may have been broken since."""
        self.idle = self.due


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerClock:
    """What a channel knows of one of its producers, as far as it is read."""

    #: its output watermark in the last record that is read, ms since the epoch; None: it has none yet
    watermark_ms: int | None = None
    #: it has sent EndOfData[finished=true]
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelInput:
    """An input that other tasks of the job write."""

    #: every one of them, whether it still runs or not; at least one
    producers: tuple[ProducerClock, ...]
    #: only a source is ever idle
    idle = False

    def ends(self, draining: bool) -> bool:
        """Whether nothing comes any more; a drain reaches it through its producers."""
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

    #: everything of it was read
    ended: bool = False
    #: least event time of what was not read yet, ms since the epoch; None where that is not known, as of a source that
    #: is in no order or has no end
    unread_from_ms: int | None = None
    #: the watermark that Spark keeps of its rows; None where it has had none yet
    own_ms: int | None = None
    #: see `IdleTimer`
    idle: bool = False

    def ends(self, draining: bool) -> bool:
        """Whether nothing comes any more."""
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
    """The watermark of every input of a query that has one, ms since the epoch or `END_OF_TIME`.

    Args:
        inputs: all inputs of the query, by uid.
        in_force: what was answered last, by this driver or by the one whose records are read; may name other inputs.
        draining: the user ends the job; a stop without a drain is none.
    """
    ends = {uid: one.ends(draining) for uid, one in inputs.items()}
    if all(ends.values()):
        return {}
    found = {uid: END_OF_TIME if ends[uid] else one.watermark_ms() for uid, one in inputs.items()}
    told = [one.tells_ms() for uid, one in inputs.items() if not (one.idle or ends[uid])]
    known = [told_ms for told_ms in told if told_ms is not None]
    if known and len(known) == len(told):
        found |= {uid: min(known) for uid, one in inputs.items() if one.idle and not ends[uid]}
    before = in_force or {}
    both = {uid: [w for w in (found[uid], before.get(uid)) if w is not None] for uid in inputs}
    return {uid: max(candidates) for uid, candidates in both.items() if candidates}
