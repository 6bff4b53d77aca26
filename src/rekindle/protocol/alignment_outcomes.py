"""The outcomes of the alignment of a subtask: a snapshot to take, a snapshot that is whole, or an abort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.protocol.reasons import Reason

Channel = Any
"""The id of a channel: any hashable value of the caller."""


@dataclass(frozen=True, slots=True)
class AlignedSnapshot:
    """The order to take the snapshot now, and to pass the barrier on."""

    checkpoint: int
    #: True if the barrier that is passed on overtakes data, too
    unaligned: bool


@dataclass(frozen=True, slots=True)
class Aligned:
    """The report that all barriers have come: the snapshot is whole."""

    checkpoint: int
    #: channel → positions [from, to) that belong to the snapshot; only channels that have some, {} if it was aligned
    in_flight: Mapping[Channel, tuple[int, int]] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Aborted:
    """The report that the checkpoint will never be whole here, even if its snapshot was taken."""

    checkpoint: int
    reason: Reason


Outcome = AlignedSnapshot | Aligned | Aborted
