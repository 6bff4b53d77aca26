"""The verb that lists savepoints."""

from __future__ import annotations

from typing import Any

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.errors import StorageError
from rekindle.ids import may_be_uid
from rekindle.storage.open import open_store
from rekindle.storage.savepoints import StoredSavepoint, default_folder, savepoints_in


@click.command(epilog=example("rekindle savepoints /backup --job hourly_bids"))
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--job", metavar="JOB", help="List those of this job only.")
@with_storage
@with_json
def savepoints(directory: str | None, job: str | None, storage: str, as_json: bool) -> None:
    """List the savepoints in DIR, the newest first; without DIR, those in the storage.

    `run --from`, `inspect` and `dispose` accept the name of a savepoint that is in the storage.
    """
    store = open_store(storage)
    folder = open_store(directory or default_folder(store.location)).location
    found = [one for one in savepoints_in(folder) if job is None or (one.manifest and one.manifest.job == job)]
    if not found and directory is None and not store.exists(""):
        raise StorageError("STORAGE_MISSING", uri=store.location)
    if as_json:
        output.as_json([_json(one) for one in found])
    elif found:
        header = ("savepoint", "job", "checkpoint", "taken", "size", "tasks")
        output.say("\n".join(output.whole_table(header, [_row(one) for one in found], output.width())))
    else:
        output.say(f"No savepoints{f' of {job}' if job else ''} in {folder}.", err=True)
        if directory and not open_store(folder).exists(""):
            meant = f" Of a job: rekindle savepoints --job {directory}" if may_be_uid(directory) else ""
            output.say(f"next: There is no such folder.{meant}", err=True)


def _row(one: StoredSavepoint) -> tuple[str, ...]:
    manifest = one.manifest
    if manifest is None:
        return (one.name, "-", "-", "-", "-", one.fault)
    finished = len(manifest.finished_tasks)
    tasks = f"{len(manifest.tasks)}" + (", drained" if manifest.drained else f", {finished} finished" * bool(finished))
    taken = output.short_time(manifest.completed_ms)
    return (one.name, manifest.job, str(manifest.checkpoint), taken, output.size(manifest.size_bytes), tasks)


def _json(one: StoredSavepoint) -> dict[str, Any]:
    manifest = one.manifest
    head = {"name": one.name, "path": one.path, "fault": one.fault or None}
    if manifest is None:
        return head
    return {
        **head,
        "job": manifest.job,
        "checkpoint": manifest.checkpoint,
        "taken_at": output.iso(manifest.completed_ms),
        "size_bytes": manifest.size_bytes,
        "in_flight_bytes": manifest.in_flight_bytes,
        "tasks": sorted(manifest.tasks),
        "finished_tasks": list(manifest.finished_tasks),
        "drained": manifest.drained,
    }
