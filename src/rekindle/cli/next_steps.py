"""The next step of an error, with the ``--storage`` of the command that shows it: typed unchanged, it finds the job.

Without it, ``rekindle forget JOB`` would lead to another storage, the default one, and to a job of the same name there.
"""

from __future__ import annotations

import re
import shlex
from contextvars import ContextVar

from rekindle.redaction import hide

VERBS = (
    *("run", "check", "shadow", "list", "status", "checkpoints", "inspect", "savepoints", "runs", "events", "logs"),
    *("checkpoint", "savepoint", "stop", "cancel", "answer", "forget", "dispose", "adopt"),
)
"""The verbs that a next step may name, and that take the storage of a job as an option."""
_COMMANDS = re.compile(rf"(?<!other storage: )rekindle (?:{'|'.join(VERBS)})\b(?! [^ ]*/)(?![^.;,)]* --storage)")
"""Commands without a place: after the verb comes no address, and no option that names the storage."""
_given: ContextVar[str | None] = ContextVar("storage", default=None)


def remember(storage: str | None) -> None:
    """Remember the storage that the command line names; None: it names none, so that any command finds the same."""
    _given.set(storage)


def next_step(text: str) -> str:
    """Return a next step, its commands with the storage that is remembered."""
    storage = _given.get()
    if storage is None:
        return text
    option = f" --storage {shlex.quote(hide(storage))}"
    return _COMMANDS.sub(lambda found: found[0] + option, text)
