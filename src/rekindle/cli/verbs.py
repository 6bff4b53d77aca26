"""The ``rekindle`` command with all its verbs, in the order of the manual."""

from __future__ import annotations

import click

from rekindle.cli import (
    asking,
    checking,
    deleting,
    examples,
    history,
    logs,
    plain,
    reading,
    running,
    savepoints,
    state,
    upkeep,
    watching,
)
from rekindle.cli.app import Group, example, version


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"rekindle {version()}")
        ctx.exit()


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("rekindle run hourly_bids.py\nrekindle stop hourly_bids --drain"),
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def rekindle() -> None:
    """Streaming jobs on Spark that begin, checkpoint, stop and end properly."""


_VERBS: dict[click.Command, str] = {
    examples.make_example: "Write a job and its sample data.",
    checking.check: "Say what run would do now.",
    running.run: "Run a job, or resume it.",
    reading.list_jobs: "List the jobs of a storage.",
    reading.status: "Show where a job stands.",
    reading.checkpoints: "List a job's checkpoints.",
    reading.inspect: "Show what a checkpoint holds.",
    state.state: "Show state, or compare it.",
    savepoints.savepoints: "List savepoints.",
    history.runs: "List the runs of a job.",
    history.events: "List what has happened to a job.",
    logs.logs: "Show what a job's driver has logged.",
    watching.ui: "Show jobs in a browser.",
    asking.checkpoint: "Take a checkpoint now.",
    asking.savepoint: "Make a savepoint of a job.",
    asking.stop: "Stop a job, or drain it.",
    asking.cancel: "End a job at once.",
    asking.answer: "Wait for the answer to a request.",
    deleting.forget: "Delete a job, or a checkpoint.",
    deleting.dispose: "Delete a savepoint.",
    upkeep.storage: "Look after a storage.",
    plain.flush: "Flush the state of a plain query.",
    plain.adopt: "Begin a job where a query stands.",
}
"""Verb → what it does, in so few words that a narrow terminal has room for them."""

for verb, summary in _VERBS.items():
    verb.short_help = summary
    rekindle.add_command(verb)
