"""The options that take settings, ``--set`` and ``--conf``: several times, each a ``key=value``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rekindle.cli.app import command_line
from rekindle.errors import ConfigError

Verb = TypeVar("Verb", bound=Callable[..., Any])

ROWS = click.IntRange(0, 1_000_000)
"""A number of rows to print. Spark can be asked for some more, but not for any number."""


def with_settings(help_text: str) -> Callable[[Verb], Verb]:
    """Add ``--set``, checked, as the argument `config`."""
    return click.option("--set", "config", multiple=True, metavar="KEY=VALUE", callback=_settings, help=help_text)


def with_spark_settings(verb: Verb) -> Verb:
    """Add ``--conf``, checked, as the argument `spark_config`."""
    return click.option(
        "--conf",
        "spark_config",
        multiple=True,
        metavar="spark.KEY=VALUE",
        callback=_spark_settings,
        help="A setting of Spark.",
    )(verb)


def with_what_is_started(verb: Verb) -> Verb:
    """Add the options of a start: ``--from``, ``--mode``, and what it is allowed to do."""
    for option in reversed(_STARTED):
        verb = option(verb)
    return verb


def with_allowed(*names: str) -> Callable[[Verb], Verb]:
    """Add those of ``--allow-...`` that are named."""

    def added(verb: Verb) -> Verb:
        for name in reversed(names):
            verb = _ALLOWED[name](verb)
        return verb

    return added


_ALLOWED: dict[str, Callable[[Any], Any]] = {
    "non_restored_state": click.option(
        "--allow-non-restored-state", is_flag=True, help="Drop the state of tasks that the job no longer has."
    ),
    "drained": click.option("--allow-drained", is_flag=True, help="Continue from before the flush of a drained job."),
    "sink_ahead": click.option(
        "--allow-sink-ahead", is_flag=True, help="Start before rows that a sink has committed: they may come twice."
    ),
    "other_name": click.option(
        "--allow-other-name", is_flag=True, help="Start from a checkpoint of a job with another name."
    ),
    "shared_target": click.option(
        "--allow-shared-target", is_flag=True, help="Write to a target that another job, or a copy, writes to."
    ),
}

_STARTED: tuple[Callable[[Any], Any], ...] = (
    click.option("--from", "restore", metavar="PATH", help="Start from this checkpoint or savepoint."),
    click.option(
        "--mode",
        default="streaming",
        show_default=True,
        metavar="MODE",
        help="streaming, or batch if every source is bounded.",
    ),
    click.option("--rewind-sinks", is_flag=True, help="Take back all that sinks have committed after that checkpoint."),
    *_ALLOWED.values(),
)


def _pairs(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Turn ``("key=value", ...)`` into a dict, for ``--set`` and ``--conf``."""
    pairs: dict[str, str] = {}
    for text in values:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form key=value", ctx, parameter)
        if pairs.setdefault(key.strip(), value) != value:
            with command_line():
                raise ConfigError("TASK_SET_TWICE", option=f"{parameter.opts[0]} {key.strip()}")
    return pairs


def _spark_settings(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = _pairs(ctx, parameter, values)
    for key in pairs:
        if not key.startswith("spark."):
            raise click.BadParameter(
                f"{key!r} does not begin with 'spark.'; settings of the job: --set", ctx, parameter
            )
    return pairs


def _settings(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    from rekindle.config import Config

    pairs = _pairs(ctx, parameter, values)
    with command_line():
        Config.of(pairs)
    return pairs
