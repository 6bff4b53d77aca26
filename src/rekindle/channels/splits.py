"""The files of one bounded source, handed out to the subtasks of one task as they ask.

Which subtask reads which files is decided by `rekindle.protocol.enumerator`; here its log is made durable, an entry
before anything acts on it. Each entry is created if absent, and the second driver adopts what is there: two drivers
hand no file out twice, whichever of them is fenced. A single subtask is given all at once, which needs no log.

The subtasks' queries ask from threads of their own: a lock keeps them apart.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from rekindle.protocol.enumerator import Assignment, Enumerator, Ranges
from rekindle.storage import read_layout
from rekindle.storage.documents.sources import FrozenFile, SplitAssignment
from rekindle.storage.job_documents import JobDocuments


class Splits:
    """The splits of a source that the subtasks of a task share.

    Args:
        folder: `read_layout.splits`.
        run: that of the driver.
        files: the frozen list, whole, with absolute addresses.
        unread: the part of it that this lineage reads; None: all of it.
        by_time: the list is in the order of least event times.
    """

    def __init__(
        self,
        storage: JobDocuments,
        folder: str,
        run: int,
        files: Sequence[FrozenFile],
        parallelism: int,
        unread: Ranges | None,
        by_time: bool = False,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._run = run
        self._files = files
        self._by_time = by_time
        self._lock = threading.Lock()
        self._enumerator = Enumerator([file.size for file in files], parallelism, unread)
        #: bytes of the whole source, and of what was unread when the lineage began
        self.total_bytes = sum(file.size for file in files)
        self._to_read = self._enumerator.total_bytes
        #: subtask → bytes that it has read
        self._read: dict[int, int] = {}
        while parallelism == 1 and (run_of_files := self._enumerator.next_for(0)) is not None:
            self._enumerator.append(run_of_files)
        while not self._enumerator.exhausted and (entry := storage.read(self._next, SplitAssignment)) is not None:
            self._enumerator.append(Assignment(entry.subtask, entry.until))

    def given_to(self, subtask: int) -> Sequence[FrozenFile]:
        """Return what a subtask was given so far, in the order it reads it."""
        with self._lock:
            return [self._files[split] for split in self._enumerator.owned(subtask)]

    def ask(self, subtask: int) -> None:
        """Give a subtask more, if anything is left; `given_to` tells what."""
        with self._lock:
            before = len(self._enumerator.owned(subtask))
            while len(self._enumerator.owned(subtask)) == before:
                wanted = self._enumerator.next_for(subtask)
                if wanted is None:
                    return
                made = SplitAssignment(subtask=wanted.subtask, until=wanted.until, run=self._run)
                entry = self._storage.adopt(self._next, made)
                self._enumerator.append(Assignment(entry.subtask, entry.until))

    @property
    def _next(self) -> str:
        return read_layout.split_assignment(self._folder, self._enumerator.entries)

    @property
    def exhausted(self) -> bool:
        """True if every file is handed out."""
        with self._lock:
            return self._enumerator.exhausted

    def unread_from_ms(self, subtask: int, read: int) -> int | None:
        """Return the least event time that a subtask may still meet after `read` files, ms; None: nothing is known."""
        if not self._by_time:
            return None
        with self._lock:
            firsts = (self._files[split].first_ms for split in self._enumerator.ahead(subtask, read))
            return next((first_ms for first_ms in firsts if first_ms is not None), None)

    @property
    def by_time(self) -> bool:
        """True if the order of the files tells the least event time that is unread."""
        return self._by_time

    def ignore_times(self) -> None:
        """Take the files for in any order from now on, although they are listed by their times."""
        self._by_time = False

    def unread(self, read: Mapping[int, int]) -> Ranges:
        """Return what is left where each subtask has read so many of its own."""
        with self._lock:
            return self._enumerator.unread(read)

    def note_read(self, subtask: int, size_bytes: int) -> None:
        """Note that a subtask has read so many bytes in this lineage."""
        self._read[subtask] = size_bytes

    @property
    def share_read(self) -> float:
        """The share of the source that the subtasks have read together, 0 to 1."""
        left = self._to_read - sum(self._read.values())
        return 1 - left / self.total_bytes if self.total_bytes else 1.0
