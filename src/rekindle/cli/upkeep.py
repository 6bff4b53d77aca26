"""The verbs that look after storages: `storage check`, `storage copy`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from rekindle.cli import output
from rekindle.cli.app import FAILED, Group, example, with_json
from rekindle.cli.deleting import WITHOUT_ASKING, confirm
from rekindle.errors import StorageError
from rekindle.runtime.elapsed import system_clock
from rekindle.storage import layout
from rekindle.storage.open import is_within, open_store, parent_of
from rekindle.storage.place import DEFAULT, VARIABLE
from rekindle.upkeep.check import Checked, check_place, refuse_change, remove_orphans
from rekindle.upkeep.findings import Findings, Orphan
from rekindle.upkeep.moving import copy_job

ORPHANS = 3
"""Exit code of ``storage check`` where all is whole, and something is left that nothing needs."""


@click.group(cls=Group, epilog=example("rekindle storage check /srv/rekindle"))
def storage() -> None:
    """Check a storage, or copy a job to another one."""


@storage.command(
    epilog=example(
        "rekindle storage check /srv/rekindle\nrekindle storage check /srv/rekindle --job hourly_bids --repair"
    )
)
@click.argument("path", envvar=VARIABLE, default=DEFAULT, metavar="[PATH]")
@click.option("--job", metavar="JOB", help="Check this job only.")
@click.option("--repair", is_flag=True, help="Delete the orphans, and nothing else; refused while a job runs.")
@WITHOUT_ASKING
@with_json
def check(*, path: str, job: str | None, repair: bool, yes: bool, as_json: bool) -> None:
    """Check a storage, one job in it, or one savepoint: the folder or address PATH.

    It opens every document, and looks for everything that checkpoints, savepoints and batch records name, with the
    sizes and hashes in them. It lists orphans: files that nothing names, which do no harm but take up room. It does not
    look for the orphans of a running job. It needs no JVM, and changes nothing without --repair.

    \b
    Exit code:
      0  everything is complete
      1  something is missing or damaged
      3  everything is complete, and there are orphans
    """
    store = open_store(path)
    above, name = parent_of(store)
    if job is None and name and above.exists(layout.identity(name)):  # PATH is the folder of a job
        store, job = above, name
    checked = check_place(store, above, name, job, waits=repair)
    if not checked.jobs and not checked.savepoints and not store.exists(""):
        raise StorageError("STORAGE_MISSING", uri=path)
    removed: list[Orphan] = []
    if repair:
        refuse_change(store, checked)
        if checked.every_orphan:
            confirm(f"{len(checked.every_orphan)} orphans in {store.location}", yes)
            removed = remove_orphans(store, checked)
    if as_json:
        output.as_json(_json(store.location, checked, removed))
    else:
        _show(checked, removed)
    if not checked.whole:
        sys.exit(FAILED)
    if len(checked.every_orphan) > len(removed):
        sys.exit(ORPHANS)


@storage.command(epilog=example("rekindle storage copy /srv/rekindle hourly_bids s3://bucket/state"))
@click.argument("source")
@click.argument("job")
@click.argument("target")
@with_json
def copy(*, source: str, job: str, target: str, as_json: bool) -> None:
    """Copy a job that is not running from the storage SOURCE to the storage TARGET, where it can be resumed.

    Its checkpoints, history and logs are copied; savepoints stay where they are. Before the copy becomes a job, each
    object is compared with its original, and the copy is checked as by `storage check`. Nothing is changed at SOURCE.
    If a copy is cut off, the same command finishes it.

    Start the job in only one of the two storages, and delete it in the other: both would write to the same sinks.
    """
    there, here = open_store(target), open_store(source)
    if is_within(there.location, here.location) and is_within(here.location, there.location):
        raise click.UsageError("SOURCE and TARGET are the same storage.")
    copied = copy_job(here, job, there, system_clock())
    if as_json:
        output.as_json({"source": here.location, "target": there.location, **asdict(copied)})
        return
    found = f", {copied.found} of them by an earlier command" if copied.found else ""
    size = output.size(copied.size_bytes)
    output.say(f"copied {job} to {there.location}: {copied.files} files, {size}{found}; compared and checked")
    output.say(f"next: start it with --storage {there.location}, never again at {here.location}. There, delete it:")
    output.say(f"rekindle forget {job} --storage {here.location}")


def _json(location: str, checked: Checked, removed: list[Orphan]) -> dict[str, Any]:
    return {
        "storage": location,
        "whole": checked.whole,
        "jobs": [{"job": one.name, "state": one.state, **_found(one)} for one in checked.jobs],
        "savepoints": [{"name": one.name, **_found(one)} for one in checked.savepoints],
        "orphans": [_orphan(one) for one in checked.orphans],
        "removed": len(removed),
    }


def _found(one: Findings) -> dict[str, Any]:
    return {
        "files": one.files,
        "size_bytes": one.size_bytes,
        "faults": [{"path": fault.path, "code": fault.code, "message": fault.message} for fault in one.faults],
        "orphans": [_orphan(orphan) for orphan in one.orphans],
    }


def _orphan(one: Orphan) -> dict[str, Any]:
    return {"path": one.path, "size_bytes": one.size_bytes, "reason": one.reason}


def _show(checked: Checked, removed: list[Orphan]) -> None:
    for kind, found in (("job", checked.jobs), ("savepoint", checked.savepoints)):
        for one in found:
            verdict = output.several(len(one.faults), "fault") if one.faults else "whole"
            state = f" ({one.state})" if one.state else ""
            output.say(f"{kind} {one.name}{state}: {one.files} files, {output.size(one.size_bytes)}, {verdict}")
            for fault in one.faults:
                output.say(f"  [{fault.code}] {fault.message}")
    gone = {orphan.path for orphan in removed}
    left = [orphan for orphan in checked.every_orphan if orphan.path not in gone]
    for word, orphans in (("removed", removed), ("orphan", left)):
        for orphan in orphans:
            output.say(f"{word} {orphan.path}  {output.size(orphan.size_bytes)}  {orphan.reason}")
    if left:
        size = output.size(sum(orphan.size_bytes for orphan in left))
        output.say(f"note: {len(left)} orphans take up {size}; --repair deletes them.", err=True)
    if not checked.jobs and not checked.savepoints:
        output.say("There is nothing to check.")
