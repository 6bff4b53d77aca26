"""Feeding files to a query, one admission at a time: those of a bounded source, or the segments of a channel.

A feed owns the cursor into what there is to read. It admits the next files only when the admission before is in a batch
record, so that one admission is one batch's input, and Spark's own offset counts them. What it has admitted is durable
in the inbox: after a crash the admission that no record covers yet is adopted as it stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from rekindle.channels.admission import MAX_FILES, AdmissionSizer, choose
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents import FrozenFile, InputPosition


class Feed(ABC):
    """Files on their way into one query.

    Args:
        inbox: where admissions go.
        position: how far the last batch record says the input was read.
        sizer: decides how many bytes an admission takes.
    """

    def __init__(self, inbox: Inbox, position: InputPosition, sizer: AdmissionSizer) -> None:
        self._inbox = inbox
        self._sizer = sizer
        #: as of the last batch record
        self.position = position
        #: files of the admission that no record covers yet
        self._outstanding: Sequence[FrozenFile] = ()
        last = inbox.last_admitted()
        if last > position.admission:
            self._outstanding = inbox.admitted(last)

    @property
    def outstanding(self) -> Sequence[FrozenFile]:
        """The files on their way that no record covers yet."""
        return self._outstanding

    @property
    def outstanding_bytes(self) -> int:
        """Bytes of that admission."""
        return sum(file.size for file in self._outstanding)

    def admit(self) -> None:
        """Admit the next files, unless an admission is outstanding or there are none."""
        ahead = () if self._outstanding else self._ahead()
        if not ahead:
            return
        chosen = ahead[: choose(ahead, 0, self._sizer.next_bytes())]
        admission = self.position.admission + 1
        if not self._inbox.admit(admission, chosen):
            # A driver that has been fenced meanwhile, or fences this one, was quicker, or a try of this one failed
            # when it was through: what was admitted stands.
            chosen = self._inbox.admitted(admission)
        self._outstanding = chosen

    def after(self, admission: int) -> InputPosition:
        """The position once a batch has read up to `admission`, the outstanding one or an earlier one."""
        if admission <= self.position.admission:
            return self.position
        return self._reached(
            replace(
                self.position,
                admission=admission,
                files=self.position.files + len(self._outstanding),
                bytes=self.position.bytes + self.outstanding_bytes,
            )
        )

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """A batch record with `position` exists."""
        if position.admission > self.position.admission:
            self._sizer.observe(self.outstanding_bytes, batch_duration_ms)
            self._outstanding = ()
        self.position = position

    @abstractmethod
    def _ahead(self) -> Sequence[FrozenFile]:
        """What may be read from the cursor on; as many as an admission may take are enough."""

    @abstractmethod
    def _reached(self, position: InputPosition) -> InputPosition:
        """A position, behind the outstanding files by count, with the rest of what it says."""


class FileFeed(Feed):
    """The files of one bounded source.

    Args:
        files: the frozen list, whole.
    """

    def __init__(
        self, inbox: Inbox, files: Sequence[FrozenFile], position: InputPosition, sizer: AdmissionSizer
    ) -> None:
        super().__init__(inbox, position, sizer)
        self._files = files

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole source."""
        return sum(file.size for file in self._files)

    def _ahead(self) -> Sequence[FrozenFile]:
        return self._files[self.position.files : self.position.files + MAX_FILES]

    def _reached(self, position: InputPosition) -> InputPosition:
        return replace(position, ended=position.files >= len(self._files))
