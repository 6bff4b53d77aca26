"""``rekindle logs``: the log of a job's driver; and what of it ``rekindle run`` prints."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.clock import clock
from rekindle.cli.next_steps import next_step
from rekindle.cli.reading import job_storage, known_identity

LOG = logging.getLogger("rekindle.cli")

_FOLLOW_S = 1.0


@click.command(epilog=example("rekindle logs hourly_bids --follow"))
@click.argument("job")
@click.option("--run", "number", type=int, metavar="N", help="Show the log of this run; default: the newest.")
@click.option("--follow", is_flag=True, help="Continue with new lines, of newer runs too, until Ctrl-C.")
@with_storage
@with_json
def logs(*, job: str, number: int | None, follow: bool, storage: str, as_json: bool) -> None:
    """Show the log of a job's driver, with Spark's own warnings.

    With --json, each line is a JSON document.
    """
    from rekindle.logs import lines, pieces
    from rekindle.storage.run_documents import check_run

    found = job_storage(storage, job)
    run = pieces.newest_run(found) if number is None else number
    place = pieces.LogPosition(pieces.Piece(run or 0, 0))
    first, identity = place, None
    while True:
        now = known_identity(found)
        if identity not in (None, now):  # another job has taken the name, whose runs begin at 1
            place = pieces.LogPosition()
        identity = now
        for place, line in pieces.read(found, place, run if not follow else number):  # noqa: B020
            output.say(lines.as_json(line, job=job, run=place.piece.run) if as_json else lines.as_text(line))
        if number is not None and place == first:
            check_run(found, number)
        if not follow:
            break
        clock().wait(_FOLLOW_S * found.store.pace)
        output.check_read()
    if place == first and not as_json:
        output.say(f"{job} has no log{'' if number is None else f' of run {number}'}.", err=True)


@contextmanager
def printed(
    log_format: str | None, config: Mapping[str, str], spark_config: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Print what Rekindle logs on stderr: all that the log keeps, or, without a format, warnings and errors.

    It yields what prints an error in the same format (`RekindleError.to_json`).

    Args:
        spark_config: settings of Spark, whose secrets are hidden.
    """
    from rekindle.config import Config

    logger, printer = logging.getLogger("rekindle"), _Printer(log_format, spark_config)
    before = logger.level, logger.propagate
    logger.setLevel(Config.of(config).log_level.upper())
    logger.addHandler(printer)
    # Once: py4j gives the root logger a handler of its own when a JVM has died.
    logger.propagate = False
    try:
        yield printer.say_error
    finally:
        logger.removeHandler(printer)
        level, logger.propagate = before
        logger.setLevel(level)


class _Printer(logging.Handler):
    """A handler that prints on stderr."""

    def __init__(self, log_format: str | None, spark_config: Mapping[str, str]) -> None:
        super().__init__(logging.NOTSET if log_format else logging.WARNING)
        self._format = log_format
        #: each line has a format that programs read: no other line is to be among them
        self.has_format = log_format is not None
        from rekindle.logs.job_log import redaction
        from rekindle.logs.lines import LineMaker

        self._maker = LineMaker(redaction(spark_config))

    def say_error(self, error: dict[str, Any]) -> None:
        """Print an error, with what to do next, and where Spark has logged."""
        from rekindle.advice import spark_log

        log = spark_log()
        if self._format is None:
            if log is not None:
                output.say(f"Spark's log: {log}", err=True)
            output.error(error, False)
        else:
            place = f"Spark's log: {log}\n" if log is not None else ""
            LOG.error("[%s] %s\n%snext: %s", error["code"], error["message"], place, next_step(error["next_step"]))

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; one that cannot be printed is lost."""
        try:
            text = self._text(record)
            if text is not None:
                sys.stderr.write(output.harmless(text) + "\n")
                sys.stderr.flush()
        except Exception:  # noqa: S110 # a terminal that is gone must not stop the job
            pass

    def _text(self, record: logging.LogRecord) -> str | None:
        from rekindle.logs.lines import as_json, as_text

        if self._format is None:
            # How the job has ended, or why it cannot start, is the last thing that `run` says.
            is_last = getattr(record, "event", "") == "run_ended" or getattr(record, "is_shown", False)
            return None if is_last else self._maker.of_record(record).message
        more: dict[str, Any] = {"job": record.job} if hasattr(record, "job") else {}
        line = self._maker.of_record(record)
        return as_json(line, **more) if self._format == "json" else as_text(line)
