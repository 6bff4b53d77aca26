"""The verbs that ask a running driver for something."""

from __future__ import annotations

import sys

import click

from rekindle.cli import documents, output, views
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.clock import clock
from rekindle.cli.reading import job_storage
from rekindle.errors import ControlError
from rekindle.ids import may_be_uid
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.pauses import USUAL
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import RUNNING
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.savepoints import default_folder
from rekindle.storage.second_look import state_for_certain

_DETACHED = click.option(
    "--detached", is_flag=True, help="Print the request's id and do not wait; `rekindle answer` shows what came of it."
)


@click.command(epilog=example("rekindle checkpoint hourly_bids"))
@click.argument("job")
@_DETACHED
@with_storage
@with_json
def checkpoint(job: str, detached: bool, storage: str, as_json: bool) -> None:
    """Take a checkpoint now and wait until it is complete."""
    _ask(job_storage(storage, job), ControlRequest(verb="checkpoint"), as_json, detached=detached)


@click.command(epilog=example("rekindle savepoint hourly_bids /backup/before-upgrade"))
@click.argument("job")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--unaligned", is_flag=True, help="Do not wait until tasks have read the data between them: copy it.")
@_DETACHED
@with_storage
@with_json
def savepoint(*, job: str, directory: str | None, unaligned: bool, detached: bool, storage: str, as_json: bool) -> None:
    """Make a savepoint: a copy that can be moved, and started from.

    It is a new folder below DIR, which the driver must be able to reach; without DIR, it is in the storage. If the job
    is not running, its last checkpoint is copied.
    """
    found = job_storage(storage, job)
    target = open_store(directory).location if directory else default_folder(found.store.location)
    state = state_for_certain(found)
    if state != RUNNING:
        _print(
            found, savepoint_at_rest(found, target, state), as_json, f"{job} does not run: this is its last checkpoint."
        )
        return
    wanted = ControlRequest(verb="savepoint", savepoint=target, unaligned=unaligned)
    _ask(found, wanted, as_json, detached=detached)


@click.command(epilog=example("rekindle stop hourly_bids --savepoint /backup/before-upgrade"))
@click.argument("job")
@click.option("--drain", is_flag=True, help="End for good: flush all windows and timers, as if every source had ended.")
@click.option("--savepoint", "directory", metavar="DIR", help="Make a savepoint there too, of the same moment.")
@click.option("--unaligned", is_flag=True, help="Do not read the data between tasks first: copy it into the savepoint.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="S", help="Wait at most this many seconds."
)
@_DETACHED
@with_storage
@with_json
def stop(
    *,
    job: str,
    drain: bool,
    directory: str | None,
    unaligned: bool,
    timeout_s: float | None,
    detached: bool,
    storage: str,
    as_json: bool,
) -> None:
    """Stop a job at a batch boundary, with a last checkpoint; `run` resumes it there."""
    if drain and unaligned:
        raise click.UsageError("A drain reads all data between tasks: leave out --unaligned, or --drain.")
    target = open_store(directory).location if directory else None
    wanted = ControlRequest(verb="stop", drain=drain, savepoint=target, unaligned=unaligned)
    _ask(job_storage(storage, job), wanted, as_json, timeout_s=timeout_s, detached=detached)


@click.command(epilog=example("rekindle cancel hourly_bids"))
@click.argument("job")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=USUAL.cancel_s,
    show_default=True,
    metavar="S",
    help="Wait at most this many seconds.",
)
@with_storage
@with_json
def cancel(job: str, timeout_s: float, storage: str, as_json: bool) -> None:
    """End a job now, without a checkpoint; `run` resumes it after its last recorded batches."""
    _ask(job_storage(storage, job), ControlRequest(verb="cancel"), as_json, timeout_s=timeout_s)


@click.command(epilog=example("rekindle answer hourly_bids 1735689600000-3e222f01"))
@click.argument("job")
@click.argument("request")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="S", help="Wait at most this many seconds."
)
@with_storage
@with_json
def answer(*, job: str, request: str, timeout_s: float | None, storage: str, as_json: bool) -> None:
    """Wait for the answer to a REQUEST that was made with --detached.

    You can ask again: the driver keeps an answer for an hour, and once the job has ended the answer stays.
    """
    found = job_storage(storage, job)
    asked = found.request(request) if may_be_uid(request) else None
    if asked is None:
        raise ControlError("REQUEST_NOT_FOUND", request=request, job=job)
    _print(
        found,
        client.wait(client.looks(found, ControlRequest.of(asked), asked, timeout_s, take=False, pauses=clock().pauses)),
        as_json,
    )


def _ask(
    job: JobStorage, wanted: ControlRequest, as_json: bool, *, timeout_s: float | None = None, detached: bool = False
) -> None:
    sent = client.send(job, wanted)
    if isinstance(sent, Result):
        _print(job, sent, as_json, f"{job.job} has already ended.")
    elif detached:
        output.as_json({"job": job.job, "request": sent.id}) if as_json else output.say(sent.id)
    else:
        if sys.stderr.isatty():
            output.say(f"Asked run {sent.run}; waiting. Ctrl-C leaves the request standing.", err=True)
        answer = client.wait(client.looks(job, wanted, sent, timeout_s, pauses=clock().pauses))
        _print(job, answer, as_json)


def _print(job: JobDocuments, answer: client.Ending, as_json: bool, remark: str | None = None) -> None:
    if as_json:
        output.as_json(documents.answer_json(job.job, answer))
    else:
        output.say("\n".join(views.answer_lines(job.job, answer)))
    for note in (*answer.notes, *([remark] if remark else [])):
        output.say(f"note: {note}", err=True)
