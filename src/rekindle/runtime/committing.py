"""The commit and the savepoint of a complete checkpoint, on threads beside the loop."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.errors import ControlError, RekindleError, storable
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.runtime.checkpointing import Checkpointing
from rekindle.runtime.orders import known


def commit(checkpointing: Checkpointing, command: c.CommitTransactions) -> e.Event:
    """Commit the transactions of a checkpoint; return the event that reports the outcome."""
    number = command.permit.checkpoint
    try:
        took_ms = checkpointing.commit(command.permit)
    except BaseException as error:  # a sink's code may call sys.exit(): the thread that commits must not end silently
        permanent = isinstance(error, RekindleError) and error.permanent
        return e.CommitFailed(checkpoint=number, detail=storable(error), permanent=permanent, error=known(error))
    return e.TransactionsCommitted(checkpoint=number, sink_commit_ms=tuple(took_ms.items()))


def seal(checkpointing: Checkpointing, command: c.SealSavepoint, is_over: Callable[[], bool]) -> e.Event:
    """Make the savepoint of a checkpoint; return the event that reports the outcome.

    Args:
        is_over: returns True if the run is over, and no one waits for the savepoint.
    """

    def look() -> None:
        if is_over():
            reason = "the job has ended meanwhile"
            raise ControlError("SAVEPOINT_FAILED", path=command.directory, reason=reason)

    try:
        path, size_bytes = checkpointing.seal(command.checkpoint, command.directory, look)
    except Exception as error:
        return e.SavepointFailed(checkpoint=command.checkpoint, detail=storable(error))
    return e.SavepointSealed(checkpoint=command.checkpoint, path=path, size_bytes=size_bytes)
