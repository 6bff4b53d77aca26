"""What comes of the barriers that a subtask has seen: the outcomes of its alignment, in the order to follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.protocol.reasons import Reason

Channel = Any
"""The id of a channel: whatever the caller calls it, if it is hashable."""


@dataclass(frozen=True, slots=True)
class AlignedSnapshot:
    """Take the snapshot now, and pass the barrier on."""

    checkpoint: int
    #: whether the barrier passed on overtakes data too
    unaligned: bool


@dataclass(frozen=True, slots=True)
class Aligned:
    """All barriers are there: the snapshot is whole."""

    checkpoint: int
    #: positions [from, to) that belong to the snapshot; channels without any left out, empty if it was aligned
    in_flight: Mapping[Channel, tuple[int, int]] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Aborted:
    """The checkpoint will not be whole here, whether its snapshot was taken or not."""

    checkpoint: int
    reason: Reason


Outcome = AlignedSnapshot | Aligned | Aborted
