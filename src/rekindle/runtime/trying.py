"""Actions that survive a storage that is away: they are tried again at the next look."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from rekindle.errors import StorageError

_LOG = logging.getLogger(__name__)

_Done = TypeVar("_Done")


def tried(act: Callable[[], _Done]) -> _Done | None:
    """Return the result of `act`; None if the storage refuses: the caller tries again later."""
    try:
        return act()
    except StorageError as error:
        _LOG.warning("The storage refuses, and is tried again: %s", error)
        return None
