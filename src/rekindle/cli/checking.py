"""``rekindle check``: what a start would do, before it does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.options import with_settings, with_what_is_started
from rekindle.cli.running import stdout_for_result, wrong_command_line

if TYPE_CHECKING:
    from rekindle.start.preview import StartPreview, TaskPreview

_BEGINNINGS = {
    "begins": "A start would begin at the beginning.",
    "resumes": "A start would resume in place.",
    "restores": "A start would begin from {path}.",
    "has ended": "The job has ended: a start would do nothing.",
}


@click.command(epilog=example("rekindle check hourly_bids.py --from /backup/before-upgrade"))
@click.argument("jobfile")
@with_what_is_started
@with_settings("A setting of the job.")
@with_storage
@with_json
def check(jobfile: str, as_json: bool, **arguments: Any) -> None:
    """Say what `run` would do with JOBFILE now, and do none of it.

    For each task whether it begins, resumes, has finished or is dropped, and what has changed since the last run. It
    needs no Spark session and writes nothing, also while the job runs. What Spark makes of the query comes with the
    start. Exit code: 0 where a start is possible, 1 with the reason where it is refused.
    """
    from rekindle.cli import jobfile as jobfiles

    with wrong_command_line(), stdout_for_result(as_json):
        job = jobfiles.load(jobfile)
        preview = job.check(**arguments)
    if as_json:
        output.as_json(preview.to_json())
    else:
        _show(preview)


def _show(preview: StartPreview) -> None:
    columns = output.width()
    output.say(f"{preview.job}: {_BEGINNINGS[preview.beginning].format(path=preview.path)}")
    if preview.checkpoint is not None:
        output.say(f"{'Its' if preview.path else 'The newest'} checkpoint is {preview.checkpoint}.")
    if preview.running is not None:
        output.say(f"Run {preview.running} is at work now: stop it first (rekindle stop {preview.job}).")
    output.say("")
    rows = [(task.uid, str(task.subtasks), _words(task)) for task in preview.tasks]
    for line in output.table(("task", "subtasks", "then"), rows, columns):
        output.say(line)
    for sink in preview.sinks:
        if sink.has_prepared:
            output.say(f"Sink {sink.uid} commits first what was prepared for it.")
    for line in rewound(preview):
        output.say(line)
    for one in preview.graph:
        output.say(f"{one.uid} {one.what}: {one.then}.")
    if preview.changes:
        output.say("")
        changed = [(change.what, change.now or "(gone)", change.before or "(new)") for change in preview.changes]
        for line in output.table(("changed", "now", "before"), changed, columns):
            output.say(line)


def rewound(preview: StartPreview) -> list[str]:
    """Say for each sink what would be taken back."""
    return [
        f"Sink {one.sink} ({one.kind}): {one.rows} rows of {len(one.checkpoints)} checkpoints after "
        f"{preview.checkpoint} are taken back."
        for one in preview.rewinds
    ]


def _words(task: TaskPreview) -> str:
    if task.fate == "begins":
        return "begins"
    if task.fate == "dropped":
        return "is dropped with its state: the job has it no more"
    if task.fate == "finished":
        return "has finished and is not started"
    after = f" after batch {task.batch}" if task.batch is not None else ", its work dealt out again"
    some = f"; {task.finished} of its subtasks have finished" if task.finished else ""
    return f"resumes{after}{some}"
