"""Files that are added to a Delta table in one entry of its log, with the checkpoint as their transaction's version."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rekindle.sinks.delta_features import not_honoured
from rekindle.sinks.delta_partitions import partition_of, repartitioned
from rekindle.sinks.delta_rewind import TRIES
from rekindle.sinks.delta_schema import changed, columns_of
from rekindle.sinks.footers import delta_statistics
from rekindle.sinks.staging import Attempts
from rekindle.sinks.writing import for_each
from rekindle.storage.port import Entry

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction


def has(table: DeltaTable, application: str, checkpoint: int) -> bool:
    """Return whether the table has a checkpoint, or a later one."""
    version = table.transaction_version(application)
    return version is not None and version >= checkpoint


def described(attempts: Attempts, files: Sequence[Entry]) -> list[AddAction]:
    """Return the entries of the log for files of attempts."""

    def describe(file: Entry) -> AddAction:
        from deltalake.transaction import AddAction

        return AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values=partition_of(file.path.split("/")[4:-1]),  # after rekindle/job/sink/attempt
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=delta_statistics(attempts.footer(file)),
        )

    return for_each(attempts.store, describe, files)


def add(
    read: Callable[[], DeltaTable],
    application: str,
    checkpoint: int,
    files: Sequence[AddAction],
    columns: Mapping[str, Any],
    tells: str,
) -> None:
    """Add files, unless the table has the checkpoint.

    Args:
        read: reads the table as it is now.
        files: see `described`.
        columns: name → type of the rows' columns.
        tells: what the entry says of itself.

    Raises:
        ValueError: with the reason, where the table has changed, and does not fit the files any more.
    """
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError

    adds: list[AddAction | RemoveAction] = [*files]
    properties = CommitProperties(
        app_transactions=[Transaction(application, checkpoint)], custom_metadata={"rekindle": tells}
    )
    for tried in range(1, TRIES + 1):
        # Delta refuses what has come since this look, so the look has to show that the checkpoint is not there yet.
        table = read()
        if has(table, application, checkpoint):
            return
        partition_by = table.metadata().partition_columns
        reason = (
            changed(columns, columns_of(table.schema().to_json()))
            or repartitioned((file.partition_values for file in files), partition_by)
            or not_honoured(table)
        )
        if reason is not None:
            raise ValueError(reason)
        try:
            table.create_write_transaction(
                adds, mode="append", schema=table.schema(), partition_by=partition_by, commit_properties=properties
            )
            return
        except CommitFailedError:
            # Another driver has committed the same, or others have changed the table: the next look shows it.
            if tried == TRIES:
                raise
