"""The ``rekindle`` command with all its verbs, in the order of the manual."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click

from rekindle.cli.app import Group, example, version

VERBS = {
    "example": ("examples:make_example", "Write a job and its sample data."),
    "check": ("checking:check", "Say what run would do now."),
    "run": ("running:run", "Run a job, or resume it."),
    "shadow": ("shadowing:shadow", "Run new code beside a job; compare."),
    "list": ("reading:list_jobs", "List the jobs of a storage."),
    "status": ("reading:status", "Show where a job stands."),
    "checkpoints": ("reading:checkpoints", "List a job's checkpoints."),
    "inspect": ("inspecting:inspect", "Show what a checkpoint holds."),
    "state": ("state:state", "Show state, or compare it."),
    "savepoints": ("savepoints:savepoints", "List savepoints."),
    "runs": ("history:runs", "List the runs of a job."),
    "events": ("history:events", "List what has happened to a job."),
    "logs": ("logs:logs", "Show what a job's driver has logged."),
    "ui": ("watching:ui", "Show jobs in a browser."),
    "checkpoint": ("asking:checkpoint", "Take a checkpoint now."),
    "savepoint": ("asking:savepoint", "Make a savepoint of a job."),
    "stop": ("asking:stop", "Stop a job, or drain it."),
    "cancel": ("asking:cancel", "End a job at once."),
    "answer": ("asking:answer", "Wait for the answer to a request."),
    "forget": ("deleting:forget", "Delete a job, or a checkpoint."),
    "dispose": ("deleting:dispose", "Delete a savepoint, or a shadow."),
    "storage": ("upkeep:storage", "Look after a storage."),
    "flush": ("plain:flush", "Flush the state of a plain query."),
    "adopt": ("plain:adopt", "Begin a job where a query stands."),
    "warm-up": ("warming:warm_up", "Let Spark start sooner here."),
    "docs": ("manual:docs", "Read the documentation."),
}
"""Verb → its module and function, and what it does, in so few words that a narrow terminal has room for them."""


class _Rekindle(Group):
    """The command, whose help imports no verb."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in VERBS.items()])


class _Verbs(MutableMapping[str, click.Command]):
    """The verbs, each imported when it is asked for: most of the time of a short command is its imports."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            home, summary = VERBS[name]
            module, _, function = home.partition(":")
            verb: click.Command = getattr(import_module(f"rekindle.cli.{module}"), function)
            verb.short_help = summary
            self._loaded[name] = verb
        return self._loaded[name]

    def __setitem__(self, name: str, verb: click.Command) -> None:
        self._loaded[name] = verb

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"rekindle {version()}")
        ctx.exit()


@click.group(
    cls=_Rekindle,
    commands=_Verbs(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("rekindle run hourly_bids.py\nrekindle stop hourly_bids --drain"),
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def rekindle() -> None:
    """Run streaming jobs on Spark that begin, checkpoint, stop and end properly."""
