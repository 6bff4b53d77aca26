"""The verb that shows what is in a checkpoint or savepoint: inspect."""

from __future__ import annotations

from collections.abc import Iterator

import click

from rekindle.cli import manifests, output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.ids import SubtaskId
from rekindle.progress.state_sizes import StateSize, state_sizes
from rekindle.storage import layout
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.savepoints import find_savepoint


@click.command(epilog=example("rekindle inspect rekindle-state/hourly_bids/checkpoints/000000007"))
@click.argument("path")
@with_storage
@with_json
def inspect(path: str, storage: str, as_json: bool) -> None:
    """Show the content of a checkpoint or savepoint.

    PATH is its folder or its manifest; a relative path may start at the storage. A savepoint in the storage can be
    given by its name.
    """
    location = find_savepoint(path, storage)
    origin = find_origin(location)
    states, committed = dict(_states(origin)), origin.is_committed()
    if as_json:
        output.as_json(manifests.manifest_json(origin.manifest, location, states, committed=committed))
    else:
        lines = manifests.manifest_lines(origin.manifest, location, states, output.width(), committed=committed)
        output.say("\n".join(lines))


def _states(origin: Origin) -> Iterator[tuple[SubtaskId, list[StateSize]]]:
    """Yield the state that a restore would load."""
    for uid, snapshots in origin.manifest.tasks.items():
        for index, snapshot in snapshots.items():
            if snapshot.end is None and snapshot.batch >= 0:
                subtask = SubtaskId(uid, index)
                folder = layout.spark_progress_dir(origin.subtask(subtask))
                yield subtask, list(state_sizes(origin.store, folder, snapshot.batch))
