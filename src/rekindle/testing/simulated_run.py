"""The run that all parts of a simulated driver share: its world, chance, and the events on their way to its loop."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from rekindle.protocol import events as e
from rekindle.testing.faults import Faults
from rekindle.testing.simulated_world import World

Steps = Iterator[None]
"""Work in steps: a crash may fall at each."""


@dataclass(slots=True)
class SimulatedRun:
    """One run of the job. All of it is volatile except the world."""

    world: World
    faults: Faults
    #: 0 until it has begun
    number: int = 0
    #: it was paused after it had looked at the fence: its next write does not look again
    has_looked: bool = False
    #: in a run of what is available now: draws how much that is; None: it is not such a run
    available: random.Random | None = None
    #: source of events → those not delivered yet, in order
    inbox: dict[object, deque[e.Event]] = field(default_factory=dict)

    def post(self, source: object, event: e.Event) -> None:
        """Post an event that the loop will hear at some time."""
        self.inbox.setdefault(source, deque()).append(event)

    def note(self, thing: object) -> None:
        """Write something into the history."""
        self.world.note(self.number, thing)

    def is_newest(self) -> bool:
        """Return True if no newer run exists."""
        return self.number == self.world.run

    def is_fenced(self) -> bool:
        """Return True if a newer run exists; a run that was paused after its look finds out too late."""
        looked, self.has_looked = self.has_looked, False
        return not self.is_newest() and not looked


@dataclass(slots=True)
class Lanes:
    """Work beside the loop: in each lane one step after the other, in order."""

    work: dict[object, deque[Steps]] = field(default_factory=dict)

    def put(self, lane: object, work: Steps) -> None:
        """Let work be done on a lane once what is there is done."""
        self.work.setdefault(lane, deque()).append(work)

    def busy(self) -> list[object]:
        """Return the lanes on which there is work."""
        return [lane for lane, work in self.work.items() if work]

    def advance(self, lane: object) -> None:
        """Do one step of the work on a lane."""
        work = self.work[lane]
        if next(work[0], self) is self:
            work.popleft()
