"""Chance that something goes wrong in a simulated life, as long as any faults are left."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """How much may still go wrong, and when it does."""

    chance: random.Random
    left: int

    def strike(self, probability: float) -> bool:
        """Whether something goes wrong now."""
        if not self.left or self.chance.random() >= probability:
            return False
        self.left -= 1
        return True
