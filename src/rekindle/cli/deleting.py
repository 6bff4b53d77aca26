"""The verbs that delete: `forget` and `dispose`."""

from __future__ import annotations

import sys

import click

from rekindle.cli import output
from rekindle.cli.app import command_line, example, with_json, with_storage
from rekindle.cli.clock import clock
from rekindle.cli.reading import job_storage
from rekindle.errors import ConfigError, ControlError, RestoreError
from rekindle.start.resolve import restore_to_repeat
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.disposal import Disposal
from rekindle.storage.documents.status import RUNNING
from rekindle.storage.forgetting import forget_job
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.run_documents import RunDocuments, last_begun
from rekindle.storage.savepoints import find_savepoint
from rekindle.storage.second_look import state_for_certain

WITHOUT_ASKING = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")


@click.command(epilog=example("rekindle forget hourly_bids 7"))
@click.argument("job")
@click.argument("checkpoint", metavar="[CHECKPOINT]", type=int, required=False)
@WITHOUT_ASKING
@with_storage
@with_json
def forget(job: str, checkpoint: int | None, yes: bool, storage: str, as_json: bool) -> None:
    """Delete a job that is not running, or one of its checkpoints: the number CHECKPOINT.

    Rows that sinks have committed stay, and so do savepoints.
    """
    found = job_storage(storage, job)
    _check_forgettable(found, checkpoint)
    what = f"job {job!r} and all its checkpoints" if checkpoint is None else f"checkpoint {checkpoint} of {job!r}"
    confirm(what, yes)
    # Another user may have started it while the question was open, perhaps from this checkpoint.
    _check_forgettable(found, checkpoint)
    left = checkpoint is None and _may_leave_prepared(found)
    if checkpoint is None:
        forget_job(found, clock().now_ms())
    else:
        found.forget_checkpoints([checkpoint])
    if as_json:
        output.as_json({"job": job, "checkpoint": checkpoint})
    else:
        output.say(f"Deleted the {what}.")
        if left:
            output.say(
                "PostgreSQL may keep rows that it had prepared, and their locks: rekindle docs postgres#the-server"
            )


@click.command(epilog=example("rekindle dispose /backup/hourly_bids-000000012-3e222f"))
@click.argument("path", metavar="PATH")
@WITHOUT_ASKING
@with_storage
@with_json
def dispose(path: str, yes: bool, storage: str, as_json: bool) -> None:
    """Delete the savepoint or the folder of a shadow at PATH, with everything in it.

    A savepoint in the storage can be given by its name.

    A job that was started from a savepoint has its own copy of what it needed once it runs. A shadow that runs is not
    deleted. A deletion that is cut short is finished by the next one.
    """
    disposal = Disposal(find_savepoint(path, storage))
    job = disposal.shadow_of
    shadow = None if job is None else JobStorage(open_store(f"{disposal.path}/state"), job)
    if shadow is not None:
        _check_not_running(shadow)
    what = f"{'savepoint' if shadow is None else f'shadow of {job!r} in'} {disposal.path}"
    confirm(what, yes)
    if shadow is not None:
        _check_not_running(shadow)
    disposal.run()
    if as_json:
        output.as_json({"path": disposal.path})
    else:
        output.say(f"Deleted the {what}.")


def confirm(what: str, yes: bool) -> None:
    """Ask before something is deleted, where that can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        with command_line():
            raise ConfigError("CONFIRMATION_MISSING", what=what)
    click.confirm(f"Delete the {what}?", abort=True, err=True)


def _may_leave_prepared(job: RunDocuments) -> bool:
    """Return whether a job whose last run was cut short may have left prepared transactions in PostgreSQL."""
    run, _ = last_begun(job)
    if run is None or run.description is None or job.state() in ("STOPPED", "DRAINED", "FINISHED"):
        return False
    return any(sink.kind == "Postgres" for sink in run.description.sinks)


def _check_not_running(job: RunDocuments) -> None:
    if state_for_certain(job) == RUNNING:
        raise ControlError("JOB_RUNNING", job=job.job)


def _check_forgettable(job: CheckpointDocuments, checkpoint: int | None) -> None:
    """Refuse to delete a checkpoint that is needed, or with None the job, and anything of a job that runs."""
    if checkpoint is not None:
        _check_not_needed(job, checkpoint)
    _check_not_running(job)


def _check_not_needed(job: CheckpointDocuments, checkpoint: int) -> None:
    if job.manifest(checkpoint) is None:
        path = f"{job.job}, number {checkpoint}"
        raise RestoreError("CHECKPOINT_UNKNOWN", path=path, list=f"rekindle checkpoints {job.job}")
    lineage = job.lineage()
    latest = job.latest_manifest(lineage.lineage) if lineage else None
    run, _ = last_begun(job)
    repeated = restore_to_repeat(run, lineage) if run is not None else None
    ours = f"{job.store.location.rstrip('/')}/{layout.checkpoint(job.job, checkpoint)}"
    if (latest is not None and latest.checkpoint == checkpoint) or repeated == ours:
        raise ControlError("CHECKPOINT_IN_USE", checkpoint=checkpoint, job=job.job)
    if checkpoint == job.checkpoints()[0]:
        raise ControlError("CHECKPOINT_NEWEST", checkpoint=checkpoint, job=job.job)
