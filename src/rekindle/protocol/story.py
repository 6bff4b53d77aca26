"""The story: a bounded log of the events and commands of the protocol, printed in every error of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class Story:
    """The last `limit` steps, one line each."""

    def __init__(self, limit: int = 200) -> None:
        #: number, event and commands of each step; they never change, so they are formatted only when they are read
        self._steps: deque[tuple[int, object, Sequence[object]]] = deque(maxlen=limit)
        #: number of the last event
        self.step = 0

    def next_step(self) -> int:
        """Count an event; return its number, which its commands name as their cause."""
        self.step += 1
        return self.step

    def tell(self, event: object, commands: Sequence[object]) -> None:
        """Add one step."""
        self._steps.append((self.step, event, commands))

    def __str__(self) -> str:
        return "\n".join(
            f"{step:>5} {_brief(event)} → {', '.join(map(_brief, commands)) or '-'}"
            for step, event, commands in self._steps
        )


def _brief(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= 160 else text[:157] + "..."
