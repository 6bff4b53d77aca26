"""``rekindle run``: load a job file, run its job, show how it goes, and end with an exit code (docs/cli.md)."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rekindle.cli import output, scraping
from rekindle.cli.app import FAILED, INTERRUPTED, CommandLineError, example, with_json, with_storage
from rekindle.cli.options import with_settings, with_spark_settings, with_what_is_started
from rekindle.errors import RekindleError, RestoreError
from rekindle.runtime.signals import handled_by, kept_signals

if TYPE_CHECKING:
    from rekindle.job import Job
    from rekindle.results import JobResult

_CODES = {"FINISHED": 0, "STOPPED": 0, "DRAINED": 0, "CANCELED": INTERRUPTED, "FAILED": FAILED}
_WRONG_COMMAND_LINE = (
    "CLAIM_OF_NOTHING",
    "FUNCTION_UNKNOWN",
    "JOBFILE_MISSING",
    "METRICS_PORT_TAKEN",
    "MODE_UNKNOWN",
    "REWIND_TO_NOTHING",
)

_END_S = 10.0
"""The longest time, in seconds, from a signal during the start to the end of the process."""


@click.command(
    epilog=example(
        "rekindle run hourly_bids.py --set checkpoint.interval='10 seconds' \\\n    --conf spark.master='local[4]'"
    )
)
@click.argument("jobfile")
@with_what_is_started
@with_settings("A setting of the job.")
@with_spark_settings
@click.option(
    "--metrics-port",
    metavar="[ADDRESS:]PORT",
    callback=scraping.parsed,
    help="Serve the metrics of this job at /metrics, on 127.0.0.1 unless you give an address.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Print the driver's log to stderr in this format, instead of the progress.",
)
@click.option(
    "--claim-mode",
    type=click.Choice(["no-claim", "claim"]),
    default="no-claim",
    show_default=True,
    help="claim: the job owns the savepoint, and deletes it once it has as many checkpoints as it retains.",
)
@click.option(
    "--available-now",
    is_flag=True,
    help="Read what is there, then stop; the next run continues. For jobs that run on a schedule.",
)
@click.option("--allow-changed-files", is_flag=True, help="Read files of a history that were replaced.")
@click.option("--yes", is_flag=True, help="Do not ask before sinks go back; needed without a terminal.")
@click.option("--dry-run", is_flag=True, help="Show what the run would do, as rekindle check does, and do nothing.")
@with_storage
@with_json
def run(
    jobfile: str,
    as_json: bool,
    log_format: str | None,
    metrics_port: scraping.Address | None,
    yes: bool,
    dry_run: bool,
    **arguments: Any,
) -> int:
    """Run the job in JOBFILE, or resume it if it ran before.

    SIGTERM and the first Ctrl-C stop the job, a second Ctrl-C cancels it. The first Ctrl-C cancels a batch run.
    Exit code: 0 finished, stopped or drained, 1 failed, 130 canceled, 2 wrong command line.
    """
    if dry_run:
        from rekindle.cli.checking import show

        return show(jobfile, _asked(arguments), arguments["spark_config"], no_spark=False, as_json=as_json)
    from rekindle.cli import jobfile as jobfiles
    from rekindle.cli import logs, progress

    with logs.printed(log_format, arguments["config"], arguments["spark_config"]) as say_error:
        try:
            with wrong_command_line(), stdout_for_result(as_json), kept_signals() as missed:
                with _interruptible(missed):
                    # At once: loading Spark takes seconds.
                    say = logs.LOG.info if log_format else partial(output.say, err=True)
                    say(output.cut(f"Starting {os.path.basename(jobfile)} ...", output.width(sys.stderr) - 1))
                    job = jobfiles.load(jobfile)
                    if arguments["rewind_sinks"] and not yes:
                        asks = partial(click.confirm, abort=True, err=True) if sys.stdin.isatty() else None
                        confirm_rewind(job, arguments, asks)
                    if metrics_port is not None:
                        scraping.serve(metrics_port, arguments["storage"], job.name)
                    if sys.stderr.isatty():
                        say(f"{job.name}: starting Spark ...")
                    handle = job.start(**arguments)
                result = progress.follow(handle, as_log=log_format is not None, missed=missed)
        except RekindleError as error:
            if as_json or log_format is None:
                raise
            say_error(error.to_json())
            return FAILED
        code = _CODES[result.state]
        try:
            _print(result, as_json, say_error, mode=arguments["mode"])
            sys.stdout.flush()
        except OSError:  # no one reads it any more; the job has ended as it has
            leave(code)
    if code == INTERRUPTED:
        leave(code)
    return code


def confirm_rewind(job: Job, arguments: Mapping[str, Any], ask: Callable[[str], object] | None) -> None:
    """Show what would be taken back from the sinks, and ask.

    Args:
        ask: returns if the answer is yes; None where no one can be asked.

    Raises:
        RestoreError: ``REWIND_UNCONFIRMED``; whatever forbids the start.
    """
    from rekindle.cli.checking import rewound

    preview = job.check(**_asked(arguments))
    lines = rewound(preview)
    if not lines:
        return
    if ask is None:
        raise RestoreError("REWIND_UNCONFIRMED", path=preview.path, what=" ".join(lines))
    for line in lines:
        output.say(line, err=True)
    ask("Take that back?")


def _asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a start's arguments decides how it begins."""
    from rekindle.job import Job

    names = inspect.signature(Job.check).parameters
    return {name: value for name, value in arguments.items() if name in names}


@contextmanager
def wrong_command_line() -> Iterator[None]:
    try:
        yield
    except RekindleError as error:
        if error.code in _WRONG_COMMAND_LINE:
            raise CommandLineError(error) from error
        raise


@contextmanager
def stdout_for_result(as_json: bool) -> Iterator[None]:
    """Keep stdout for the one document of ``--json``: what the job file prints inside goes to stderr."""
    if not as_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def _interruptible(missed: list[int]) -> Iterator[None]:
    """Let SIGTERM, SIGHUP and Ctrl-C inside end the process: a job that starts has nothing to stop yet.

    A run that was claimed is recorded as CANCELED on the way out. Where that takes longer than `_END_S`, because Spark
    or the storage hangs, and at a second signal, the process ends at once, and the run is LOST.

    Args:
        missed: these signals join it, for the job that starts although Python has dropped the interrupt.
    """
    late = threading.Timer(_END_S, os._exit, [INTERRUPTED])
    late.daemon = True

    def end(number: int, frame: FrameType | None) -> None:
        if late.is_alive():
            os._exit(INTERRUPTED)
        late.start()
        # Not through sys.stderr: the signal may have interrupted a print.
        os.write(2, b"Interrupted while the job was starting; nothing was lost.\n")
        missed.append(number)
        raise KeyboardInterrupt

    root = logging.getLogger()
    root.addFilter(_is_no_interrupted_call)
    try:
        with handled_by(end):
            yield
    except KeyboardInterrupt:
        leave(INTERRUPTED)
    finally:
        root.removeFilter(_is_no_interrupted_call)
        late.cancel()


def _is_no_interrupted_call(record: logging.LogRecord) -> bool:
    """Return False for py4j's line and trace on a call to Spark that a signal interrupted: ours says it."""
    return not record.getMessage().startswith("KeyboardInterrupt while sending command")


def _print(result: JobResult, as_json: bool, say_error: Callable[[dict[str, Any]], None], *, mode: str) -> None:
    document = result.to_json()
    if as_json:
        output.as_json(document)
        return
    error = document["error"]
    if error is not None:
        say_error(error)
    word = "already " if result.already_ended else ""
    output.say(
        f"{result.job}  {word}{output.state(result.state)}  run {result.run}, checkpoint {result.checkpoint or '-'}"
    )
    if result.savepoint is not None:
        output.say(f"savepoint {result.savepoint}")
    for note in result.notes:
        output.say(f"note: {note}")
    if result.already_ended:
        if result.state == "DRAINED":
            output.say("To continue it from before its flush: --allow-drained.")
        if mode != "batch":  # a batch run starts from no checkpoint
            output.say(f"To run it from a checkpoint: --from PATH (see: rekindle checkpoints {result.job}).")


def leave(code: int) -> NoReturn:
    """End the process now, whatever its other threads and Spark still do: a JVM that is up ends with it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # no one reads it any more
            stream.flush()
    os._exit(code)
