"""Take a Delta table back to a checkpoint: what later ones have added is removed, and nothing else.

The entry of the log that removes the files carries the transaction of the newest of these checkpoints, so that no
driver that comes late commits it again, and which checkpoints were taken back, so that a repetition finds that done.
What others have written stays. Readers of earlier versions of the table find the files until they are vacuumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rekindle.sinks.staging import Attempts
from rekindle.sinks.two_phase import Committable

if TYPE_CHECKING:
    from deltalake import DeltaTable

TRIES = 10
"""Number of tries at a commit while others change the table; delta-rs itself tries again where they only add to it."""


def rewind(
    read: Callable[[], DeltaTable],
    application: str,
    attempts: Attempts,
    to: int,
    commits: Mapping[int, Sequence[Committable]],
) -> None:
    """Take the table back; see `TwoPhaseSink.rewind`.

    Args:
        read: reads the table as it is now.
        application: id of the transactions that the sink's commits carry.
    """
    from deltalake.exceptions import CommitFailedError

    for tried in range(1, TRIES + 1):
        table = read()
        after, upto = (table.transaction_version(f"{application}/{name}") for name in _TAKEN_BACK)
        left = {one: made for one, made in commits.items() if not (after or 0) < one <= (upto or 0)}
        try:
            if left:
                _remove(table, application, attempts, to, left)
            break
        except CommitFailedError:
            if tried == TRIES:
                raise
    for committables in commits.values():
        for committable in committables:
            # Of what the table had, only the note is left to remove, if that.
            attempts.forget(committable["attempt"])


_TAKEN_BACK = ("rewound-after", "rewound-upto")


def _remove(
    table: DeltaTable, application: str, attempts: Attempts, to: int, commits: Mapping[int, Sequence[Committable]]
) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    newest, last = table.transaction_version(application), max(commits)
    files = {file["path"]: file["size_bytes"] for file in _files(table)}
    now_ms = time.time_ns() // 1_000_000
    removed: list[AddAction | RemoveAction] = [
        # The log has paths encoded, and delta-rs encodes what it is given.
        RemoveAction(path=unquote(path), data_change=True, deletion_timestamp=now_ms, size=files[path])
        for path in attempts.committed_files(files, to, commits, -1 if newest is None else newest)
    ]
    versions = {
        application: max(last, newest or 0),
        **{f"{application}/{name}": n for name, n in zip(_TAKEN_BACK, (to, last), strict=True)},
    }
    table.create_write_transaction(
        removed,
        mode="append",
        schema=table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(name, version) for name, version in versions.items()],
            custom_metadata={"rekindle": f"back to checkpoint {to}"},
        ),
    )


def _files(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    found: list[dict[str, Any]] = pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
    return found
