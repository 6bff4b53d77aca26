"""The base of all verbs: the group that turns every error into two lines and an exit code, and the common options.

Exit codes: 0 done, 1 any `RekindleError` or a job that FAILED, 2 a wrong command line, 130 CANCELED or interrupted.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from rekindle.cli import next_steps, output
from rekindle.errors import ConfigError, RekindleError
from rekindle.storage import place

Verb = TypeVar("Verb", bound=Callable[..., Any])

FAILED, WRONG_COMMAND_LINE, INTERRUPTED = 1, 2, 130


class CommandLineError(click.UsageError):
    """A `RekindleError` found in the command line itself: exit code 2."""

    def __init__(self, error: RekindleError) -> None:
        super().__init__(error.message)
        self.error = error


def version() -> str:
    """Return the version of Rekindle."""
    from importlib import metadata

    try:
        return metadata.version("rekindle")
    except metadata.PackageNotFoundError:  # e.g. shipped as a zip with spark-submit --py-files
        return "(not installed)"


_ASKS_FOR_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""The exception of click for a group without a verb, since 8.2; before that it prints the help itself."""


@contextmanager
def command_line() -> Iterator[None]:
    """Report a `RekindleError` raised inside as a fault of the command line."""
    try:
        yield
    except RekindleError as error:
        raise CommandLineError(error) from error


class Group(click.Group):
    """The verbs; prints errors instead of tracebacks, and suggests what may have been meant."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run a verb and end the process: a verb returns its exit code."""
        arguments = list(sys.argv[1:] if args is None else args) or ["--help"]
        as_json = "--json" in arguments
        extra["standalone_mode"] = False
        next_steps.remember(None)
        if "NO_COLOR" in os.environ:
            extra["color"] = False
        try:
            sys.exit(self._code_of(arguments, prog_name or "rekindle", as_json, extra))
        except output.UnwrittenError as error:
            output.error(ConfigError("OUTPUT_REFUSED", reason=error.strerror).to_json(), False)
            os._exit(FAILED)  # else Python would try to write the rest once more

    def _code_of(self, arguments: Sequence[str], prog_name: str, as_json: bool, extra: dict[str, Any]) -> int:
        """Run a verb, and print its error if it fails; return the exit code."""
        try:
            code: int = super().main(arguments, prog_name, **extra) or 0
        except RekindleError as error:
            code = FAILED
            output.error(error.to_json(), as_json)
        except click.UsageError as error:
            code = 0 if isinstance(error, _ASKS_FOR_HELP) else WRONG_COMMAND_LINE
            if code:
                output.error(_usage_error(error).to_json(), as_json)
            else:
                output.say(error.format_message())
        except click.Abort:
            code = INTERRUPTED
            output.say("Interrupted.", err=True)
        except FileNotFoundError:
            if not _is_nowhere():
                raise
            code = FAILED
            output.error(ConfigError("WORKING_FOLDER_GONE").to_json(), as_json)
        return code

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            verbs = self.list_commands(ctx)
            error = ConfigError("VERB_UNKNOWN", verb=args[0], hint=hint(args[0], verbs), verbs=", ".join(verbs))
            raise CommandLineError(error)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the verbs in the order of the manual, not of the alphabet."""
        return list(self.commands)


def _is_nowhere() -> bool:
    """Return True if the working directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _usage_error(error: click.UsageError) -> RekindleError:
    if isinstance(error, CommandLineError):
        return error.error
    path = error.ctx.command_path if error.ctx else "rekindle"
    if isinstance(error, click.NoSuchOption) and error.ctx:
        options = [name for parameter in error.ctx.command.get_params(error.ctx) for name in parameter.opts]
        known = [name for name in options if name.startswith("--")]
        meant = hint(error.option_name, known)
        return ConfigError("OPTION_UNKNOWN", option=error.option_name, command=path, hint=meant)
    return ConfigError("COMMAND_LINE_INVALID", reason=error.format_message().rstrip("."), command=path)


def hint(word: str, known: Iterable[str]) -> str:
    """Return the question whether a known word was meant, after a blank; empty: none is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def with_storage(verb: Verb) -> Verb:
    """Add ``--storage``."""
    return click.option(
        "--storage",
        envvar=place.VARIABLE,
        default=place.DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="URI",
        callback=_remembered,
        help="Where jobs keep their state.",
    )(verb)


def _remembered(ctx: click.Context, option: click.Parameter, storage: str) -> str:
    """Let next steps name the storage that the command line names."""
    if ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
        next_steps.remember(storage)
    return storage


def with_json(verb: Verb) -> Verb:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, errors included.")(verb)


def example(text: str) -> str:
    """Return an epilog with one example, its lines unchanged."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in text.splitlines())
