"""One input of a subtask: what feeds it, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rekindle.channels.feed import Feed
from rekindle.channels.marks import END_OF_TIME_US, Marks, mark_for
from rekindle.channels.producer import Producer
from rekindle.protocol.clock import END_OF_TIME, IdleTimer
from rekindle.spark.inputs.split_reading import SplitReading
from rekindle.storage.documents.batch import InputPosition


@dataclass(slots=True, kw_only=True)
class Input:
    """One input of one subtask: what feeds it, and where it stands."""

    uid: str
    frame: DataFrame
    #: as of the last batch record
    position: InputPosition
    #: True for a source that ends by itself
    bounded: bool = False
    #: True if all of its rows come from bounded sources, through whichever tasks: none may be lost
    finite: bool = False
    #: True if its files are in the order of time, and it is read in any order: an earlier start may not have done so
    order_ignored: bool = False
    #: uid of the input that has to end before it is read; None: none has
    follows: str | None = None
    #: name of its event-time column
    event_time: str | None = None
    #: subtask of the producing task → its producer; empty where it is a source
    producers: Mapping[int, Producer] = field(default_factory=dict)
    #: reads a custom source into its feed; None where it is none
    reading: SplitReading | None = None
    #: the folder, as Spark takes it, of its inbox; empty where it has none
    place: str = ""
    #: feeds a bounded or custom source, or a channel; None where Spark reads the source itself
    feed: Feed | None = None
    #: True if its files must be those that were listed, and not others in their places
    same_files: bool = False
    #: its watermark rows; None where it has no event time
    marks: Marks | None = None
    #: the delay of its watermark, where Spark follows its rows, ms; None where marks alone set it
    delay_ms: int | None = None
    #: tells when it is idle; None where it never is
    idle_timer: IdleTimer | None = None
    #: True if each batch reports the event times of its rows, see `event_times.seen`
    observed: bool = False
    #: numbers of the sources, in Spark's order, that read it; set once the task's plan is known
    spark_sources: tuple[int, ...] = ()
    #: the same of its watermark rows
    mark_sources: tuple[int, ...] = ()
    #: inbox index of the data (marks: the next), which Spark's source log tells us
    index: int = 0

    def mark_us(self, watermark_ms: int) -> int:
        """Return the event time of the mark that moves the input to a watermark, microseconds."""
        if self.delay_ms is None:
            return mark_for(END_OF_TIME_US if watermark_ms == END_OF_TIME else watermark_ms * 1000)
        return END_OF_TIME_US if watermark_ms == END_OF_TIME else (watermark_ms + self.delay_ms) * 1000

    @property
    def is_channel(self) -> bool:
        """True if another task writes it."""
        return bool(self.producers)

    @property
    def ended(self) -> bool:
        """True if everything of a source has been read, by the last batch record."""
        return self.feed is not None and self.feed.ended


def in_backlog(inputs: Sequence[Input]) -> bool:
    """Return True if a history is not read to its end, and there is a live stream beside or after it."""
    sources = [item for item in inputs if not item.is_channel]
    return any(item.bounded and not item.ended for item in sources) and not all(item.bounded for item in sources)


def only_inboxes(inputs: Sequence[Input]) -> bool:
    """Return True if Spark reads nothing that we do not admit."""
    return all(item.feed is not None for item in inputs)
