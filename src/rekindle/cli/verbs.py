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


for verb in (
    examples.make_example,
    checking.check,
    running.run,
    reading.list_jobs,
    reading.status,
    reading.checkpoints,
    reading.inspect,
    savepoints.savepoints,
    history.runs,
    history.events,
    logs.logs,
    watching.ui,
    asking.checkpoint,
    asking.savepoint,
    asking.stop,
    asking.cancel,
    asking.answer,
    deleting.forget,
    deleting.dispose,
    plain.flush,
    plain.adopt,
):
    rekindle.add_command(verb)
