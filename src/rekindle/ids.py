"""Names that last: uids, subtasks, runs, lineages. Everything that ends up in a path is checked here."""

from __future__ import annotations

import re
from typing import NamedTuple

from rekindle.errors import DefinitionError

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")


def check_uid(uid: str) -> str:
    """Return `uid` if it can name a job, source, task or sink; raise ``UID_INVALID`` otherwise.

    A uid is the stable identity of a thing across runs and becomes part of paths, so it holds no separator and cannot
    be ``.`` or ``..``.
    """
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise DefinitionError("UID_INVALID", uid=uid)
    return uid


class SubtaskId(NamedTuple):
    """One of the parallel queries of a task."""

    task: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.task}/{self.subtask}"
