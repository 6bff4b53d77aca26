"""What the tests of the server share."""

from __future__ import annotations

import httpx

from rekindle.storage.local import LocalStore

http = httpx.Client(timeout=60)
"""One for all: each makes certificates ready, which takes longer than any answer."""


class Counting(LocalStore):
    """Remembers what was read."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.was_read: list[str] = []

    def read(self, path: str) -> bytes:
        """The bytes at `path`."""
        self.was_read.append(path)
        return super().read(path)
