"""Look at a job and at its shadow while the shadow runs, and stop the shadow when it is time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from rekindle.errors import ControlError, RekindleError
from rekindle.shadowing.following import Following, standings
from rekindle.shadowing.plan import ShadowPlan
from rekindle.shadowing.standing import covered

_LOOK_S = 0.5


class Stopped(Protocol):
    """The part of a `JobHandle` that is needed here."""

    def stop(self) -> object:
        """End at a batch boundary, with a last checkpoint."""
        ...


class ShadowWatch:
    """A thread that watches for as long as the shadow runs.

    Args:
        for_s: how long it may run; None: as long as it takes.
        until_checkpoint: of the original: the shadow is stopped once it has all that the original had there.
    """

    def __init__(
        self,
        plan: ShadowPlan,
        ours: Following,
        theirs: Following,
        shadow: Stopped,
        *,
        for_s: float | None,
        until_checkpoint: int | None,
    ) -> None:
        self._plan, self._ours, self._theirs, self._shadow = plan, ours, theirs, shadow
        self._for_s, self._until = for_s, until_checkpoint
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="shadow-watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        waited_s, pause_s, stopped = 0.0, _LOOK_S * self._plan.original.store.pace, False
        while not self._over.wait(pause_s):
            waited_s += pause_s
            with suppress(RekindleError):  # the next look may find the storage again
                self.look()
                if not stopped and self.is_time(waited_s):
                    self._shadow.stop()
                    stopped = True

    def look(self) -> None:
        """Read the checkpoints that have come."""
        self._ours.look()
        self._theirs.look()

    def is_time(self, waited_s: float) -> bool:
        """Return True if the shadow is to be stopped: also where nothing could be compared any more."""
        if self._ours.lost is not None or self._theirs.lost is not None:
            return True
        return (self._for_s is not None and waited_s >= self._for_s) or self._has_come()

    def _has_come(self) -> bool:
        # A number may have no checkpoint: one that failed, or one before the cut.
        if self._until is None or self._ours.last < self._until:
            return False
        upto = [one for one in self._ours.manifests if one.checkpoint <= self._until]
        try:
            line = [one for one in self._ours.line(self._plan.since) if one.checkpoint <= self._until]
        except ControlError:
            return True  # it was started from elsewhere: it never comes there in this line
        if upto[-1:] == self._ours.manifests[-1:] and line[-1:] != upto[-1:]:
            return False  # its rows may not be in the sinks yet
        ours = standings(self._plan.original, line[-1:], self._plan.names)
        return covered(ours, standings(self._theirs.storage, self._theirs.whole()[-1:], {})) == len(ours)
