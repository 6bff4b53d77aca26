"""The driver's side of the control folder: it hears each request once, and deletes old answers.

A client deletes its request and the answer once it has read the answer (`client.wait`). What is left belongs to a
client that does not wait, or is gone: the driver deletes it after a time, the request first, so that no request is left
that seems to have no answer. (Even such a request would do no harm: it names a run that is over, or was heard by this
driver.) So the folder is nearly empty, and a look at it is one listing. In a bucket a listing costs twelve times as
much as a read. There the driver reads the bell, which a client rings (`storage.bell`), and lists the folder when the
bell has changed; also every few minutes, since a client may die before it rings.

Ages are counted from the driver's first look at an answer, by its own clock; no two machines' clocks are compared.
"""

from __future__ import annotations

from rekindle.storage.bell import rung_for
from rekindle.storage.control_documents import Control, ControlDocuments

KEPT_S = 3_600.0
"""The time for which an answer is kept that its client has not deleted, in seconds."""

CROWDED_S, CROWD = 60.0, 100
"""The time, in seconds, for which it is kept if there are more than `CROWD` newer answers."""

UNRUNG_S = 300.0
"""The time after which the folder is read even if the bell was not rung, in seconds."""

REFUSED_S = 30.0
"""Seconds for which the reading of a request is tried again: only the user who wrote it may be able to read it."""

FORGOTTEN_AT_A_TIME = 100
"""The number of answers deleted at one look, on a store of pace 1 (`Store.pace`): the loop must not be held up."""


class ControlFolder:
    """The control folder of a job, as the driver of one run sees it."""

    def __init__(self, storage: ControlDocuments) -> None:
        self._storage = storage
        #: requests that were heard and are still in the folder
        self._heard: set[str] = set()
        #: answered request → time at which this driver first saw the answer, in that order
        self._answered_s: dict[str, float] = {}
        #: request that cannot be read → time at which this driver first saw that
        self._refused_s: dict[str, float] = {}
        #: content of the bell when it was read last; the next attribute: its content before the last look
        self._bell: bytes | None = None
        self._bell_before: bytes | None = None
        self._looked_s = float("-inf")

    def rung(self) -> bool:
        """Return True if the bell was rung since the last `look`, or if there is no bell."""
        if self._storage.store.pace > 1:
            self._bell = rung_for(self._storage.store, self._storage.job)
            return self._bell != self._bell_before
        return True

    def is_overdue(self, now_s: float) -> bool:
        """Return True if the last look was so long ago that it is time for one even without a ring."""
        return now_s - self._looked_s >= UNRUNG_S

    def look(self, now_s: float) -> Control:
        """Return the requests that were not heard before. Read the bell first (`rung`), since a client rings last.

        A request that cannot be read for long is one of the unreadable ones.
        """
        found = self._storage.control(self._heard)
        self._refused_s = {one: self._refused_s.get(one, now_s) for one in found.refused}
        late = {one: found.refused[one] for one, since_s in self._refused_s.items() if now_s - since_s >= REFUSED_S}
        found = found._replace(unreadable={**found.unreadable, **late})
        if late.keys() == found.refused.keys():  # else the next look is soon, also without a ring
            self._bell_before, self._looked_s = self._bell, now_s
        self._heard &= found.asked
        self._heard.update(found.unreadable, (request.id for request in found.requests))
        self._answered_s = {
            **{one: seen_s for one, seen_s in self._answered_s.items() if one in found.answered},
            **{one: now_s for one in sorted(found.answered) if one not in self._answered_s},
        }
        return found

    def clean(self, now_s: float) -> None:
        """Delete old answers, a limited number at a time."""
        at_once = max(1, FORGOTTEN_AT_A_TIME // self._storage.store.pace)
        crowded = len(self._answered_s) - CROWD
        due = [
            one
            for number, (one, seen_s) in enumerate(self._answered_s.items())
            if now_s - seen_s >= (CROWDED_S if number < crowded else KEPT_S)
        ]
        for one in due[:at_once]:
            self._storage.forget_request(one)
            del self._answered_s[one]
