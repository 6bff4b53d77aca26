"""Back-pressure: how much of a task's output its readers have still to read, and whether it may write more.

A task waits before it writes a batch while more than `channel.max_in_flight_bytes` lie in its channels, as far as the
slowest reader is concerned. It waits inside the batch that would be written, so it may be held there like at any other
batch. Nothing can wait in a circle: readers never wait for those that read further down the same channel, only for room
in their own, and a barrier lies after what is written already.

What is counted is rebuilt from the batch records at each start; nothing of it is durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from rekindle.ids import SubtaskId

_POLL_S = 0.05


class Backlog:
    """The output of one subtask.

    Args:
        limit_bytes: wait while more than this lies in the channels.
        read: reader → how many batches it has read; readers that have ended are left out.
        sizes: batch → bytes, for those that not all have read.
    """

    def __init__(self, limit_bytes: int, read: Mapping[SubtaskId, int], sizes: Mapping[int, int]) -> None:
        self._limit_bytes = limit_bytes
        self._read = dict(read)
        self._sizes = dict(sizes)
        self._changed = threading.Condition()

    @property
    def bytes(self) -> int:
        """The bytes that the slowest reader has still to read."""
        if not self._read:
            return 0
        oldest = min(self._read.values())
        return sum(size for batch, size in self._sizes.items() if batch >= oldest)

    def unread(self) -> dict[str, int]:
        """Return task → bytes that it has still to read of the channels, by its slowest subtask."""
        with self._changed:
            unread: dict[str, int] = {}
            for reader, read in self._read.items():
                size = sum(size for batch, size in self._sizes.items() if batch >= read)
                unread[reader.task] = max(size, unread.get(reader.task, 0))
            return unread

    def wrote(self, batch: int, size_bytes: int) -> None:
        """Note that a batch of so many bytes is in the channels."""
        with self._changed:
            self._sizes[batch] = size_bytes

    def read(self, reader: SubtaskId, batches: int) -> None:
        """Note that a reader has read so many batches."""
        with self._changed:
            if reader in self._read:
                self._read[reader] = max(batches, self._read[reader])
                oldest = min(self._read.values())
                self._sizes = {batch: size for batch, size in self._sizes.items() if batch >= oldest}
            self._changed.notify_all()

    def wait(self, given_up: Callable[[], bool]) -> None:
        """Wait until there is room, or the wait is given up."""
        with self._changed:
            while self.bytes > self._limit_bytes and not given_up():
                self._changed.wait(_POLL_S)
