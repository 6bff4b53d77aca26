"""Lasting names: uids, and the ids of subtasks. Names that become part of a path are checked here."""

from __future__ import annotations

import re
from typing import NamedTuple

from rekindle.errors import DefinitionError

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")


def check_uid(uid: str) -> str:
    """Return `uid` if it can name a job, source, task or sink; raise ``UID_INVALID`` otherwise.

    A uid is a stable identity across runs and becomes part of paths, so it holds no separator and cannot be ``.`` or
    ``..``.
    """
    if not isinstance(uid, str) or not may_be_uid(uid):
        raise DefinitionError("UID_INVALID", uid=uid)
    return uid


def may_be_uid(text: str) -> bool:
    """Return True if `check_uid` accepts a text."""
    return _UID.fullmatch(text) is not None


class SubtaskId(NamedTuple):
    """The id of one of the parallel queries of a task."""

    task: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.task}/{self.subtask}"
