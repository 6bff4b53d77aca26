"""``rekindle shadow``: run the new code of a job beside the job, and compare the rows of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rekindle.cli import output
from rekindle.cli.app import command_line, example, with_json, with_storage
from rekindle.cli.options import ROWS, with_allowed, with_settings, with_spark_settings
from rekindle.cli.running import stdout_for_result, wrong_command_line

if TYPE_CHECKING:
    from rekindle.handle import JobHandle
    from rekindle.results import JobResult
    from rekindle.shadowing.report import RowExample, ShadowReport, SinkComparison

CODES = {"equal": 0, "differs": 3, "not compared": 4}


def _seconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    from rekindle.config import duration_ms

    with command_line():
        return duration_ms("--for", value) / 1000


@click.command(
    epilog=example(
        "rekindle shadow new_bids.py --from saves/hourly_bids-000000012-3e222f \\\n"
        "    --key window --key auction --for '1 hour'"
    )
)
@click.argument("jobfile")
@click.option(
    "--from", "restore", metavar="PATH", required=True, help="Start from this savepoint or checkpoint of the job."
)
@click.option("--key", multiple=True, metavar="COLUMN", help="A column of the key by which rows of both are matched.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column that is not compared.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="PART",
    help="With --key: let columns of type float or double differ by this relative amount, e.g. 1e-9.",
)
@click.option(
    "--examples",
    type=ROWS,
    default=10,
    show_default=True,
    metavar="N",
    help="Show at most this many different rows of each sink.",
)
@click.option("--for", "for_s", metavar="DURATION", callback=_seconds, help="Stop after this time, e.g. '1 hour'.")
@click.option(
    "--until-checkpoint",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop once the shadow has everything that the job had at its checkpoint N.",
)
@click.option(
    "--target",
    metavar="DIR",
    help="Make the shadow's folder there; default: the storage's address with '-shadow' appended.",
)
@click.option("--keep", is_flag=True, help="Keep the shadow's folder even if all rows are equal.")
@with_allowed("non_restored_state", "drained", "other_name")
@click.option("--allow-changed-files", is_flag=True, help="Read files of a history that were replaced.")
@with_settings("A setting of the shadow.")
@with_spark_settings
@with_storage
@with_json
def shadow(jobfile: str, as_json: bool, **arguments: Any) -> int:
    """Run the new code in JOBFILE from a savepoint of the job, beside the job, and compare the rows of both.

    The shadow reads the same inputs and writes all rows into a folder of its own. It only reads the storage and the
    committed rows of the job. It runs until Ctrl-C, SIGTERM, --for or --until-checkpoint. Then the rows are compared,
    as far as both jobs have come.

    \b
    Exit code:
      0  rows were compared, and all are equal
      1  the shadow has failed or was canceled
      3  rows or columns differ
      4  no row could be compared
    """
    from rekindle.cli import jobfile as jobfiles
    from rekindle.cli import progress
    from rekindle.shadowing.shadow import shadow as run_shadow

    with wrong_command_line(), stdout_for_result(as_json):
        say = partial(output.say, err=True)
        say(output.cut(f"Starting a shadow of {os.path.basename(jobfile)} ...", output.width(sys.stderr) - 1))

        def follow(handle: JobHandle) -> JobResult:
            say(repr(handle).strip("<>"))  # where it lies, should it be killed
            return progress.follow(handle)

        report = run_shadow(jobfiles.load(jobfile), wait=follow, **arguments)
    if as_json:
        output.as_json(report.to_json())
    else:
        for line in lines_of(report, output.width()):
            output.say(line)
    return CODES[report.verdict]


def lines_of(report: ShadowReport, columns: int) -> Iterator[str]:
    """Say what came of a shadow, for a terminal of `columns` characters."""
    yield f"{report.job}: {report.verdict}"
    yield _upto("The original", report.original_checkpoint, report.original_comparable)
    yield _upto("The shadow", report.shadow_checkpoint, report.shadow_comparable)
    compared = [one for one in report.sinks if one.unseen is None]
    if compared:
        yield ""
        head = ("sink", "then", "equal", "different", "missing", "extra", "not yet comparable")
        yield from output.whole_table(head, [_row(one) for one in compared], columns)
    for one in report.sinks:
        if one.unseen is not None:
            yield f"{one.sink} was not compared: {one.unseen}."
        yield from _columns(one)
        for found in one.examples:
            yield f"{one.sink}  {_example(found)}"
    if report.folder is not None:
        yield f"The rows of the shadow are in {report.folder}/rows. To delete it: rekindle dispose {report.folder}"


def _upto(who: str, newest: int | None, comparable: int | None) -> str:
    if newest is None:
        return f"{who} has committed no checkpoint since."
    upto = "none of its rows have" if comparable is None else f"rows up to checkpoint {comparable} have"
    return f"{who} has come to checkpoint {newest}; {upto} to be in the other one."


def _row(one: SinkComparison) -> tuple[str, ...]:
    counts = (one.equal, one.different, one.missing, one.extra)
    return (one.sink, one.verdict, *(f"{count:,}" for count in counts), " and ".join(f"{n:,}" for n in one.pending))


def _columns(one: SinkComparison) -> Iterator[str]:
    for words, names in (
        ("that only the original has", one.columns_gone),
        ("that only the shadow has", one.columns_new),
        ("of another type in the shadow", one.columns_changed),
    ):
        if names:
            yield f"{one.sink}  columns {words}: {', '.join(names)}"


def _example(found: RowExample) -> str:
    if found.shadow is None:
        return f"- {found.original}"
    if found.original is None:
        return f"+ {found.shadow}"
    return f"~ {found.original} -> {found.shadow}"
