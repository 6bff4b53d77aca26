"""The progress of a subtask in what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rekindle.ids import SubtaskId


class Progress(NamedTuple):
    """The progress of a subtask, by its last batch record."""

    batch: int
    #: producer → how many of its batches need not be read any more
    read: Mapping[SubtaskId, int]
    #: True while it still reads a history, and reads a live stream beside or after it
    backlog: bool = False
