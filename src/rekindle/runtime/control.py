"""The hearing side of the control folder: what is asked, heard once, and what was answered, cleaned away.

Who asks deletes request and answer once the answer is read (`client.wait`). What is left was asked by someone who does
not wait, or is gone: the driver deletes that after a time, the request first, so that no request is left that looks as
if it had no answer. (Even one such would do no harm: it names a run that is over, or was heard by this driver.) So the
folder is as good as empty, and looking at it is one listing. In a bucket a listing costs twelve times as much as a
read. There the bell is looked at, which who asks rings (`storage.bell`), and the folder when it has changed; and every
few minutes, since who asks may die before.

Ages are counted from the driver's first look at an answer, by its own clock; no two machines' clocks are compared.
"""

from __future__ import annotations

from rekindle.storage.bell import rung_for
from rekindle.storage.control_documents import Control, ControlDocuments

KEPT_S = 3_600.0
"""How long an answer that its asker has not taken away is kept."""

CROWDED_S, CROWD = 60.0, 100
"""How long it is kept where there are more than so many newer ones."""

UNRUNG_S = 300.0
"""After so long the folder is looked at though no one has rung."""

FORGOTTEN_AT_A_TIME = 100
"""How many are deleted at one look, on a store of pace 1 (`Store.pace`): the driver's loop must not be held up."""


class ControlFolder:
    """The control folder of a job, as the driver of one run sees it."""

    def __init__(self, storage: ControlDocuments) -> None:
        self._storage = storage
        #: requests that were heard and lie there still
        self._heard: set[str] = set()
        #: answered request → when this driver first saw the answer, in that order
        self._answered_s: dict[str, float] = {}
        #: what the bell said when it was read last, and before the last look
        self._bell: bytes | None = None
        self._bell_before: bytes | None = None
        self._looked_s = float("-inf")

    def rung(self) -> bool:
        """Return True if someone has rung since the last `look`; and where there is no bell."""
        if self._storage.store.pace > 1:
            self._bell = rung_for(self._storage.store, self._storage.job)
            return self._bell != self._bell_before
        return True

    def is_overdue(self, now_s: float) -> bool:
        """Return True if no one has looked for so long that it is time to, though no one has rung."""
        return now_s - self._looked_s >= UNRUNG_S

    def look(self, now_s: float) -> Control:
        """Return what is asked and was not heard before; the bell is read before, since who asks rings last."""
        found = self._storage.control(self._heard)
        self._bell_before, self._looked_s = self._bell, now_s
        self._heard &= found.asked
        self._heard.update(found.unreadable, (request.id for request in found.requests))
        self._answered_s = {
            **{one: seen_s for one, seen_s in self._answered_s.items() if one in found.answered},
            **{one: now_s for one in sorted(found.answered) if one not in self._answered_s},
        }
        return found

    def clean(self, now_s: float) -> None:
        """Delete what was answered long ago, some of it at a time."""
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
