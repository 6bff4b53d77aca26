"""The story: a bounded log of what the protocol heard and said, printed inside every error of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class Story:
    """The last `limit` steps, one line each."""

    def __init__(self, limit: int = 200) -> None:
        self._lines: deque[str] = deque(maxlen=limit)
        #: number of the step being told
        self.step = 0

    def tell(self, event: object, commands: Sequence[object]) -> None:
        """Add one step."""
        said = ", ".join(_brief(command) for command in commands) or "-"
        self._lines.append(f"{self.step:>5} {_brief(event)} → {said}")

    def __str__(self) -> str:
        return "\n".join(self._lines)


def _brief(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= 160 else text[:157] + "..."
