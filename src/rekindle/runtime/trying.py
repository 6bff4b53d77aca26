"""What a storage that is away does not end: it is tried again at the next look."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from rekindle.errors import StorageError

_LOG = logging.getLogger(__name__)

_Done = TypeVar("_Done")


def tried(act: Callable[[], _Done]) -> _Done | None:
    """Return what `act` returns; None where the storage refuses, and it is to be tried again in a moment."""
    try:
        return act()
    except StorageError as error:
        _LOG.warning("The storage refuses, and is tried again: %s", error)
        return None
