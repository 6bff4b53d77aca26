"""Feeding files to a query, one admission at a time: those of a bounded source, or the segments of a channel.

A feed owns the cursor into what there is to read. It admits the next files only when the admission before is in a batch
record, so that one admission is one batch's input, and Spark's own offset counts them. What it has admitted is durable
in the inbox: after a crash the admission that no batch record covers yet is adopted unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from rekindle.channels.admission import MAX_FILES, AdmissionSizer, choose
from rekindle.channels.inbox import CARRIED_OVER, Inbox
from rekindle.channels.splits import Splits
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.port import NotFound


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
        #: files of the admission that no batch record covers yet
        self._outstanding: Sequence[FrozenFile] = ()
        last = inbox.last_admitted()
        if last > position.admission:
            self._outstanding = inbox.admitted(last)

    @property
    def outstanding(self) -> Sequence[FrozenFile]:
        """The files on their way that no batch record covers yet."""
        return self._outstanding

    @property
    def outstanding_bytes(self) -> int:
        """The bytes of the outstanding files."""
        return sum(file.size for file in self._outstanding)

    @property
    def waiting(self) -> bool:
        """True if something is on its way to a batch record."""
        return bool(self._outstanding)

    @property
    def ended(self) -> bool:
        """True if all of a source is read, by the last batch record, and nothing more comes."""
        return False

    def admit(self) -> None:
        """Admit the next files, unless an admission is outstanding or there are none."""
        ahead = () if self._outstanding else self._ahead()
        if not ahead:
            return
        chosen = self._chosen(ahead)
        admission = self.position.admission + 1
        if not self._inbox.admit(admission, chosen):
            # A driver that has been fenced meanwhile, or fences this one, was quicker, or a try of this one failed
            # when it was through: what was admitted stands.
            chosen = self._inbox.admitted(admission)
        self._outstanding = chosen

    def after(self, admission: int) -> InputPosition:
        """Return the position once a batch has read up to `admission`, the outstanding one or an earlier one."""
        if admission <= self.position.admission:
            return self.position
        if not self._outstanding:
            # A driver that was taken for dead has admitted it meanwhile, and the query has seen that first.
            self._outstanding = self._inbox.admitted(admission)
        return self._reached(
            replace(
                self.position,
                admission=admission,
                files=self.position.files + len(self._outstanding),
                bytes=self.position.bytes + self.outstanding_bytes,
                next_bytes=self._sizer.next_bytes(),
            )
        )

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """Move to `position`, which a batch record has now, and learn from the duration of its batch."""
        if position.admission > self.position.admission:
            self._sizer.observe(self.outstanding_bytes, batch_duration_ms)
            self._outstanding = ()
        self.position = position

    def _chosen(self, ahead: Sequence[FrozenFile]) -> Sequence[FrozenFile]:
        """Return the part of what may be read that is admitted next."""
        return ahead[: choose(ahead, self._sizer.next_bytes())]

    @abstractmethod
    def _ahead(self) -> Sequence[FrozenFile]:
        """Return what may be read from the cursor on; as many files as an admission may take are enough."""

    @abstractmethod
    def _reached(self, position: InputPosition) -> InputPosition:
        """Return the position after the outstanding files by count, with all else of `position`."""


class FileFeed(Feed):
    """A subtask's part of one bounded source: what it was given so far, and more when that is read.

    Args:
        splits: the source, as the subtasks of the task share it.
        subtask: which of them this is.
    """

    def __init__(
        self, inbox: Inbox, position: InputPosition, sizer: AdmissionSizer, splits: Splits, subtask: int
    ) -> None:
        super().__init__(inbox, position, sizer)
        self.splits = splits
        self._subtask = subtask
        self._files = splits.given_to(subtask)
        splits.note_read(subtask, position.bytes)

    @property
    def outstanding(self) -> Sequence[FrozenFile]:
        """See `Feed`."""
        return self._as_listed(self._outstanding, self.position.files)

    def admit_first(self, numbers: Sequence[int]) -> None:
        """Admit some files before all others, by their numbers among those of the subtask, unless some are admitted."""
        if numbers and not self._outstanding:
            chosen = [self._files[number] for number in numbers]
            admission = self.position.admission + 1
            self._outstanding = chosen if self._inbox.admit(admission, chosen) else self._inbox.admitted(admission)

    def recorded_last(self) -> Sequence[FrozenFile]:
        """Return the files of the newest admission in a batch record, which a replay reads again; none if long past."""
        try:
            admitted = self._inbox.admitted(self.position.admission)
        except NotFound:
            return ()
        files = [file for file in admitted if file.path != CARRIED_OVER]
        return self._as_listed(files, self.position.files - len(files))

    def _as_listed(self, admitted: Sequence[FrozenFile], first: int) -> Sequence[FrozenFile]:
        """Return the files with all that the list says of them, of which an inbox holds a part."""
        listed = {file.path: file for file in self._files[max(first, 0) : first + len(admitted)]}
        return [listed.get(file.path, file) for file in admitted]

    @property
    def ended(self) -> bool:
        """True if all that the subtask was given is read, by the last batch record, and no more is left to give."""
        return self.position.files >= len(self._files) and self.splits.exhausted

    @property
    def unread_from_ms(self) -> int | None:
        """The least event time of what no batch record covers yet, ms; None where nothing is known of it."""
        return self.splits.unread_from_ms(self._subtask, self.position.files)

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """See `Feed`."""
        super().recorded(position, batch_duration_ms)
        self.splits.note_read(self._subtask, position.bytes)

    def _ahead(self) -> Sequence[FrozenFile]:
        first = self.position.files
        if first >= len(self._files):
            self.splits.ask(self._subtask)
            self._files = self.splits.given_to(self._subtask)
        return self._files[first : first + MAX_FILES]

    def _chosen(self, ahead: Sequence[FrozenFile]) -> Sequence[FrozenFile]:
        # A small rest of the source would cost a batch of its own, which loads the state once more, and writes it.
        budget_bytes = self._sizer.next_bytes()
        return ahead[: choose(ahead, budget_bytes, rest_bytes=budget_bytes // 2 if self.splits.exhausted else 0)]

    def _reached(self, position: InputPosition) -> InputPosition:
        return position
