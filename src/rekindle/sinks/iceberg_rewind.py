"""Take an Iceberg table back to a checkpoint: what later ones have added is removed, and nothing else.

One change of the metadata adds a snapshot without the files, says that the table has the newest of these checkpoints,
so that no driver that comes late commits it again, and says which were taken back, so that a repetition finds that
done. What others have written stays. Readers of earlier snapshots still find the files, until the snapshots expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rekindle.sinks.staging import Attempts
from rekindle.sinks.two_phase import Committable

if TYPE_CHECKING:
    from pyiceberg.table import Table


TRIES = 10
"""Number of tries at a commit while others change the table."""


def rewind(
    read: Callable[[], Table | None],
    properties: tuple[str, str],
    attempts_of: Callable[[Table], Attempts],
    to: int,
    commits: Mapping[int, Sequence[Committable]],
) -> None:
    """Take the table back; see `TwoPhaseSink.rewind`.

    Args:
        read: reads the table as it is now; None where there is none.
        properties: that say which checkpoint is the newest that the table has, and which were last taken back.
    """
    from pyiceberg.exceptions import CommitFailedException

    for tried in range(1, TRIES + 1):
        table = read()
        if table is None:
            return
        try:
            _take_back(table, properties, attempts_of(table), to, commits)
            return
        except CommitFailedException:
            if tried == TRIES:
                raise


def _take_back(
    table: Table, properties: tuple[str, str], attempts: Attempts, to: int, commits: Mapping[int, Sequence[Committable]]
) -> None:
    done, taken_back = properties
    after, _, upto = table.properties.get(taken_back, "0:0").partition(":")
    left = {one: made for one, made in commits.items() if not int(after) < one <= int(upto)}
    if left:
        newest, last = int(table.properties.get(done, -1)), max(left)
        files = {task.file.file_path: task.file for task in table.scan().plan_files()}
        removed = attempts.committed_files(files, to, left, newest)
        try_once(table)
        with table.transaction() as transaction:
            # Even if there is nothing to remove: a driver that is in the middle of a commit is refused, since the table
            # has another snapshot than it has seen. Properties alone would not stop it.
            tells = {"rekindle.rewound": str(to)}
            with transaction.update_snapshot(snapshot_properties=tells).overwrite() as overwrite:
                for path in removed:
                    overwrite.delete_data_file(files[path])
            transaction.set_properties({done: str(max(last, newest)), taken_back: f"{to}:{last}"})
    for committables in commits.values():
        for committable in committables:
            attempts.forget(committable["attempt"])


def try_once(table: Table) -> None:
    """Have a commit refused where the table has changed: pyiceberg would add again what a rival has added."""
    tries_once = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": tries_once})
