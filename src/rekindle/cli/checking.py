"""``rekindle check``: what a start would do, before it does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rekindle.cli import output
from rekindle.cli.app import FAILED, example, with_json, with_storage
from rekindle.cli.next_steps import next_step
from rekindle.cli.options import with_settings, with_spark_settings, with_what_is_started
from rekindle.cli.running import stdout_for_result, wrong_command_line
from rekindle.errors import DefinitionError

if TYPE_CHECKING:
    from rekindle.job import Job
    from rekindle.start.previews import SinkPreview, StartPreview, TaskPreview

_BEGINNINGS = {
    "begins": "A start would begin at the beginning.",
    "resumes": "A start would resume in place.",
    "restores": "A start would begin from {path}.",
    "has ended": "The job has ended: a start would do nothing.",
}
_SOURCES = {
    "begins": "is read from its beginning",
    "resumes": "is read from its position on",
    "finished": "is read no further",
    "dropped": "is no longer read",
}
_SINKS = {
    "begins": "gets the rows from now on",
    "resumes": "continues",
    "finished": "gets no more rows",
    "dropped": "gets nothing more, and keeps what is committed",
}


@click.command(epilog=example("rekindle check hourly_bids.py --from /backup/before-upgrade"))
@click.argument("jobfile")
@with_what_is_started
@with_settings("A setting of the job.")
@with_spark_settings
@click.option("--no-spark", is_flag=True, help="Do not start Spark, and do not look at the queries.")
@with_storage
@with_json
def check(jobfile: str, as_json: bool, no_spark: bool, spark_config: Mapping[str, str], **arguments: Any) -> int:
    """Show what `run` would do with JOBFILE now, and do nothing.

    It shows whether each task, source and sink begins, resumes, has finished or is dropped, and what has changed since
    the last run. In a Spark session of its own, it builds each query and lets Spark compare it with its state. It reads
    no row; with --no-spark it leaves queries and columns out. It writes nothing, and the job may run.

    It looks at the targets of sinks: whether a server answers, a topic is there, columns fit, or another job writes
    there. It asks no server of a source. Exit code: 0 if it has found nothing that forbids the start or ends the job
    with its first batch; 1, with the reason, if it has, or if Spark cannot be started.
    """
    return show(jobfile, arguments, spark_config, no_spark=no_spark, as_json=as_json)


def show(
    jobfile: str, arguments: Mapping[str, Any], spark_config: Mapping[str, str], *, no_spark: bool, as_json: bool
) -> int:
    """Print what a start of the job in a file would do; return the exit code."""
    from rekindle.cli import jobfile as jobfiles

    with wrong_command_line(), stdout_for_result(as_json):
        job = jobfiles.load(jobfile)
        # First what costs nothing, and may forbid the start.
        preview = job.check(**arguments)
        not_started = None
        if no_spark:
            preview = replace(preview, unseen="--no-spark")
        elif preview.beginning != "has ended":
            try:
                preview = _with_queries(job, arguments, spark_config)
            except DefinitionError as error:
                if error.code not in ("SPARK_NOT_STARTED", "SPARK_USER_NAMELESS"):
                    raise
                preview, not_started = replace(preview, unseen=error.message.rstrip(".")), error
    if as_json:
        output.as_json(preview.to_json())
    else:
        _show(preview)
        if not_started is not None:
            output.say(f"next: {not_started.next_step} To leave them out: --no-spark.")
    return FAILED if preview.refused or not_started is not None else 0


def _with_queries(job: Job, arguments: Mapping[str, Any], spark_config: Mapping[str, str]) -> StartPreview:
    from rekindle.session.session import make_session

    session = make_session(job.name, spark_config)
    try:
        return job.check(session, **arguments)
    finally:
        session.stop()


def _show(preview: StartPreview, columns: int | None = None) -> None:
    columns = columns or output.width()
    output.say(f"{preview.job}: {_BEGINNINGS[preview.beginning].format(path=preview.path)}")
    if preview.checkpoint is not None:
        output.say(f"{'Its' if preview.path else 'The newest'} checkpoint is {preview.checkpoint}.")
    if preview.running is not None:
        stop = next_step(f"rekindle stop {preview.job}")
        output.say(f"Run {preview.running} is at work now: stop it first ({stop}).")
    tables = (
        (("task", "subtasks", "then"), [(task.uid, str(task.subtasks), _words(task)) for task in preview.tasks]),
        (("source", "then"), [(one.uid, _SOURCES[one.fate]) for one in preview.sources]),
        (("sink", "then"), [(one.uid, _sink(one)) for one in preview.sinks]),
        (
            ("changed", "now", "before"),
            [(one.what, one.now or "(gone)", one.before or "(new)") for one in preview.changes],
        ),
    )
    for head, rows in tables:
        if rows:
            output.say("")
            for line in output.whole_table(head, rows, columns):
                output.say(line)
    lines = [*rewound(preview), *_changes(preview)]
    if preview.unseen is not None and preview.beginning != "has ended":
        lines.append(f"The queries were not looked at: {preview.unseen}.")
    for line in ("", *lines) if lines else ():
        output.say(line)


def _changes(preview: StartPreview) -> Iterator[str]:
    for one in preview.graph:
        yield f"{one.uid} {one.what}: {one.then}."
    for task in preview.tasks:
        for change in task.query:
            yield f"{task.uid}: {change.what} was {change.before}, and is now {change.now}: {change.then}."
        if task.history is not None:
            streamed = task.history_streams and f"streams its history: {task.history_streams}."
            yield f"{task.uid} {streamed or 'computes its history as a batch, and then streams.'}"
        if task.unseen is not None and task.fate != "finished":
            yield f"{task.uid} was not looked at: {task.unseen}."
        yield from _refused(task.uid, task.refused)
    for sink in preview.sinks:
        if sink.unseen is not None:
            yield f"The target of {sink.uid} was not looked at: {sink.unseen}."
        yield from _refused(sink.uid, sink.refused)


def _refused(uid: str, error: Mapping[str, Any] | None) -> Iterator[str]:
    if error is not None:
        yield f"{uid} is refused: [{error['code']}] {error['message']}"
        yield f"next: {next_step(error['next_step'])}"


def rewound(preview: StartPreview) -> list[str]:
    """Say for each sink what would be taken back."""
    return [
        f"Sink {one.sink} ({one.kind}): {one.rows} rows of {len(one.checkpoints)} checkpoints after "
        f"{preview.checkpoint} are taken back."
        for one in preview.rewinds
    ]


def _sink(sink: SinkPreview) -> str:
    if sink.refused is not None:
        return f"is refused: {sink.refused['code']}"
    first = "; commits first what was prepared for it" if sink.has_prepared else ""
    return f"{_SINKS[sink.fate]}{first}"


def _words(task: TaskPreview) -> str:
    if task.refused is not None:
        return f"is refused: {task.refused['code']}"
    if task.fate == "begins":
        return "begins"
    if task.fate == "dropped":
        return "is dropped with its state: the job has it no more"
    if task.fate == "finished":
        return "has finished and is not started"
    after = f" after batch {task.batch}" if task.batch is not None else ", its work dealt out again"
    some = f"; {task.finished} of its subtasks have finished" if task.finished else ""
    return f"resumes{after}{some}"
