"""The content of a channel from one subtask, as its documents describe it: segments, a watermark, an end.

A channel's content is derived from the batch records of its producers, in their order; so are its EndOfData
and its event time. Where several subtasks share what one producer writes, each segment is for one of them: they take
turns. Which rows that gives them does not matter, since a task with several subtasks keeps no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.graph.job_graph import Task
from rekindle.storage.documents.batch import Segment
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_ends import RunEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A subtask at the reading end of a channel, as one producer sees it."""

    task: str
    #: its number among those that share what the producer writes, and how many they are
    rank: int = 0
    sharing: int = 1

    def share(self, batch: int, segments: Sequence[Segment]) -> Sequence[Segment]:
        """Return the segments of a batch that are for this reader."""
        ours = [one for one in segments if not one.readers or self.task in one.readers]
        return [one for number, one in enumerate(ours) if (batch + number) % self.sharing == self.rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A subtask at the writing end of a channel, as one of its readers sees it."""

    storage: JobStorage
    #: of the subtask
    folder: str
    task: Task
    reader: Reader
    ends: RunEnds
    #: its oldest batch record that was kept when the reader was started
    oldest: int = 0

    @property
    def address(self) -> str:
        """The beginning of the addresses of all its segments."""
        return f"{self.storage.store.uri(self.folder)}/"

    def segments(self, batch: int) -> Sequence[FrozenFile]:
        """Return the segments of a batch for this reader, with absolute addresses; none where it has no record."""
        record = self.storage.record(self.folder, batch)
        segments = self.reader.share(batch, record.segments) if record else ()
        uri = self.storage.store.uri
        return [FrozenFile(path=uri(f"{self.folder}/{one.path}"), size=one.size) for one in segments]

    def watermark_ms(self, batch: int) -> int | None:
        """Return the least event time that may follow a batch, ms; None where nothing is known.

        The end of time that a flush runs with says nothing: timers may send more, and a drain may be taken back.
        """
        record = self.storage.record(self.folder, batch) if batch >= 0 and self.task.event_time is not None else None
        if record is None or record.flush or not record.watermark_ms:
            return None
        return record.watermark_ms - self.task.lateness_ms

    def ended_by(self, batches: int) -> bool:
        """Return whether so many batches are all there will ever be (EndOfData)."""
        end = self.ends.of(self.folder)
        return end is not None and batches > end.batch
