"""Feeding a bounded source's files to a query, one admission at a time.

A feed owns the cursor into the frozen list of files. It admits the next files only when the admission before is in a
batch record, so that one admission is one batch's input, and Spark's own offset counts them. What it has admitted is
durable in the inbox: after a crash the admission that no record covers yet is adopted as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rekindle.channels.admission import AdmissionSizer, choose
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents import FrozenFile, InputPosition


class FileFeed:
    """The files of one bounded source on their way into one query.

    Args:
        inbox: where admissions go.
        files: the frozen list, whole.
        position: how far the last batch record says the source was read.
        sizer: decides how many bytes an admission takes.
    """

    def __init__(
        self, inbox: Inbox, files: Sequence[FrozenFile], position: InputPosition, sizer: AdmissionSizer
    ) -> None:
        self._inbox = inbox
        self._files = files
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

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole source."""
        return sum(file.size for file in self._files)

    def admit(self) -> None:
        """Admit the next files, unless an admission is outstanding or none are left."""
        cursor = self.position.files
        if self._outstanding or cursor >= len(self._files):
            return
        count = choose(self._files, cursor, self._sizer.next_bytes())
        admission, chosen = self.position.admission + 1, self._files[cursor : cursor + count]
        if not self._inbox.admit(admission, chosen):
            # A driver that has been fenced meanwhile, or fences this one, was quicker, or a try of this one failed
            # when it was through: what was admitted stands.
            chosen = self._inbox.admitted(admission)
        self._outstanding = chosen

    def after(self, admission: int) -> InputPosition:
        """The position once a batch has read up to `admission`, the outstanding one or an earlier one."""
        if admission <= self.position.admission:
            return self.position
        files = self.position.files + len(self._outstanding)
        return replace(
            self.position,
            admission=admission,
            files=files,
            bytes=self.position.bytes + self.outstanding_bytes,
            ended=files >= len(self._files),
        )

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """A batch record with `position` exists."""
        if position.admission > self.position.admission:
            self._sizer.observe(self.outstanding_bytes, batch_duration_ms)
            self._outstanding = ()
        self.position = position
