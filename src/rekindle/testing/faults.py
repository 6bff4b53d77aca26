"""Chance that something goes wrong in a simulated life, as long as any faults are left."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """The faults that may still happen, and the chance by which they do."""

    chance: random.Random
    left: int

    def strike(self, probability: float) -> bool:
        """Return True if something goes wrong now, which uses up a fault."""
        if not self.left or self.chance.random() >= probability:
            return False
        self.left -= 1
        return True
