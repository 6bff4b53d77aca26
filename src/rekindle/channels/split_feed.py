"""Feeding what is read of a custom source to the query that reads it: one read, one admission.

A read becomes durable in four steps, and each of them ends a time in which a crash takes back something else:

1. its rows are staged, in a folder that no one knows: a crash leaves an orphan, and the read is repeated;
2. its document is created, with the names of the files and with where the subtask stands in all of its splits after
   it. From here on it is not read again, and the number of the next document is one higher;
3. its files are admitted to the inbox;
4. a batch record covers the admission: the position in it is the one of the document.

So a subtask has read what its documents say, its query has consumed what its batch records say, and between the two
lies what is staged. One read is staged ahead, and no more. Documents are created if absent: of two drivers that make
the same read the second adopts the first one's read, and its own rows are dropped.

A read without rows has no document. It has changed nothing that could be lost: what it says of the position goes along
with the next read that has rows, and is asked for again after a crash. Only that all splits have ended is written down,
in a document without files: what was flushed because of it must not be read on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.feed import Feed
from rekindle.channels.inbox import Inbox
from rekindle.protocol.custom_splits import ReaderState
from rekindle.storage import read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFile, SplitRead
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.numbered import names_before
from rekindle.storage.port import NotFound

_AHEAD = 1
"""Reads that may be staged beside the one that a batch is at."""


class SplitFeed(Feed):
    """The reads of one subtask of a custom source.

    Args:
        folder: `read_layout.reads`.
        splits: of the source, as the subtasks of the task share them.
        subtask: which of them this is.
    """

    def __init__(
        self,
        inbox: Inbox,
        position: InputPosition,
        sizer: AdmissionSizer,
        storage: JobDocuments,
        folder: str,
        splits: CustomSplits,
        subtask: int,
    ) -> None:
        super().__init__(inbox, position, sizer)
        self._storage = storage
        self._folder = folder
        self._splits = splits
        self._subtask = subtask
        #: number → documents that no batch record covers
        self._staged: dict[int, SplitRead] = {}
        #: number of the next document, as far as the reader has come
        self._next = position.reads
        #: True: the source has nothing more for this subtask, and that is durable
        self.exhausted = self.is_over(self.state)
        while (document := self.document(self._next)) is not None:
            self.stage(self._next, document)

    # -- of the reader, which calls these on a thread of its own ---------------------------------------------------

    def frontier(self) -> tuple[int, ReaderState | None]:
        """Return the number of the next document, and where the subtask stands before it; None: where the reader's own
        last read has led to.
        """
        position = self.position
        if position.reads <= self._next:
            return self._next, None
        # A driver that was taken for dead has read on, and what that has given is recorded.
        self._next = position.reads
        return self._next, position.reader

    def document(self, number: int) -> SplitRead | None:
        """Return the document of a read; None where there is none yet."""
        return self._storage.read(read_layout.split_read(self._folder, number), SplitRead)

    def is_over(self, state: ReaderState) -> bool:
        """Return whether nothing more comes, for a subtask in this state."""
        splits = self._splits
        return splits.complete and not state.open and state.given >= len(splits.given_to(self._subtask))

    @property
    def state(self) -> ReaderState:
        """The state of the subtask, by what is durable."""
        newest = self.newest
        return newest.state if newest else self.position.reader or ReaderState()

    @property
    def own(self) -> Mapping[str, Sequence[Any]]:
        """The entries that the source keeps itself for the subtask, by what is durable."""
        newest = self.newest
        if newest is None and not self.position.reads:
            return self._splits.own_of(self._subtask)
        return newest.own if newest else self.position.own

    @property
    def newest(self) -> SplitRead | None:
        """The newest document, unless a batch record covers it."""
        return self._staged.get(self._next - 1)

    @property
    def has_room(self) -> bool:
        """True if another read may be staged."""
        return self._next - self.position.reads - bool(self._outstanding) < _AHEAD

    # -- of the intake, which locks --------------------------------------------------------------------------------

    def stage(self, number: int, document: SplitRead) -> None:
        """Add the next document, which exists now. One that another thread has added before changes nothing."""
        if number < self._next:
            return
        if number >= self.position.reads:
            self._staged[number] = document
        self._next = number + 1
        self.exhausted = self.is_over(document.state)

    @property
    def waiting(self) -> bool:
        """See `Feed`: what is staged is admitted, whatever happens."""
        return bool(self._outstanding) or any(one.files for one in self._staged.values())

    @property
    def ended(self) -> bool:
        """See `Feed`."""
        return self.exhausted and not self.waiting

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """See `Feed`."""
        super().recorded(position, batch_duration_ms)
        self._staged = {number: one for number, one in self._staged.items() if number >= position.reads}

    def _ahead(self) -> Sequence[FrozenFile]:
        document = self._staged.get(self.position.reads)
        return self._files_of(document) if document is not None else ()

    def _chosen(self, ahead: Sequence[FrozenFile]) -> Sequence[FrozenFile]:
        return ahead

    def _files_of(self, document: SplitRead) -> Sequence[FrozenFile]:
        store = self._storage.store
        return [FrozenFile(path=store.uri(f"{self._folder}/{file.path}"), size=file.size) for file in document.files]

    def _reached(self, position: InputPosition) -> InputPosition:
        number = self.position.reads
        document = self._staged.get(number) or self.document(number)
        if document is None:  # it was there before its files were admitted
            raise NotFound(read_layout.split_read(self._folder, number))
        return replace(position, reads=number + 1, reader=document.state, own=document.own)


def purge_reads(storage: JobDocuments, folder: str, before: int) -> None:
    """Delete the reads below a number, and every attempt at them.

    Args:
        folder: `read_layout.reads`.
    """
    store = storage.store
    old = names_before(store, folder, before)
    # The documents go last: what they name is gone, and no one needs it.
    store.delete_trees(folder, [name for name in old if not name.endswith(".json")])
    store.delete_many([f"{folder}/{name}" for name in old if name.endswith(".json")])
