"""The verbs for people whose query runs without Rekindle: flush, adopt."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.options import with_settings, with_spark_settings
from rekindle.cli.running import stdout_for_result, wrong_command_line

if TYPE_CHECKING:
    from rekindle.spark.plain.flush import FlushResult

_SHOWN = 20


@click.command(
    epilog=example("rekindle flush --checkpoint /data/checkpoints/hourly hourly.py:bids --out /data/hourly-rest")
)
@click.argument("query")
@click.option("--checkpoint", required=True, metavar="DIR", help="The checkpointLocation of the stopped query.")
@click.option("--out", metavar="DIR", help="A new folder for the rows, as Parquet; without it they are printed.")
@click.option(
    "--output-mode",
    default="append",
    show_default=True,
    metavar="MODE",
    help="The query's output mode: append or update.",
)
@click.option("--work", metavar="DIR", help="Copy the checkpoint to this folder; default: a temporary one.")
@with_settings("drain.max_rounds=N.")
@with_spark_settings
@with_json
def flush(
    query: str,
    checkpoint: str,
    out: str | None,
    output_mode: str,
    work: str | None,
    config: dict[str, str],
    spark_config: dict[str, str],
    as_json: bool,
) -> int:
    """Emit the rows that a stopped Structured Streaming query still has in its state.

    QUERY is FILE.py:FUNCTION or MODULE:FUNCTION: the function takes a session and returns the streaming DataFrame that
    was written with writeStream. The query runs on a copy of the checkpoint; the checkpoint itself is only read.
    """
    from rekindle.cli import jobfile
    from rekindle.flushing import flush

    with wrong_command_line(), stdout_for_result(as_json):
        function = jobfile.load_function(query)
        result = flush(
            function,
            checkpoint,
            out=out,
            output_mode=output_mode,
            config=config,
            work=work,
            spark_config=spark_config,
        )
        lines = _rows(result) if out is None and not as_json else []
        result.rows.sparkSession.stop()
    if as_json:
        output.as_json(result.to_json())
        return 0
    for line in lines:
        output.say(line)
    _say(result)
    return 0


def _rows(result: FlushResult) -> list[str]:
    """Format the first rows with all columns: as a table, or one value a line where a terminal is too narrow for it."""
    rows = result.texts(_SHOWN)
    lines = output.whole_table(result.rows.columns, rows, output.width() if sys.stdout.isatty() else None)
    if result.row_count > _SHOWN:
        lines.append(f"... and {result.row_count - _SHOWN:,} more; --out writes them all.")
    return lines


def _say(result: FlushResult) -> None:
    place = f", now in {result.out}/flushed" if result.out else ""
    were = "row was" if result.row_count == 1 else "rows were"
    output.say(f"{result.row_count} {were} in the state after batch {result.batch}{place}")
    if result.unfinished_batch is not None:
        place = f", in {result.out}/unfinished" if result.out else ""
        output.say(
            f"note: the query stopped in batch {result.unfinished_batch}, which put out "
            f"{result.unfinished_row_count} rows{place}: its own sink may have them or not"
        )
    if result.left:
        output.say(f"note: {result.left} rows stay in the state forever (no event time, or no time bound)")
    if not result.complete:
        output.say(f"note: timers were still being set after {result.rounds} flushes (--set drain.max_rounds=...)")


@click.command(epilog=example("rekindle adopt --checkpoint /data/checkpoints/hourly --task hourly hourly_bids.py"))
@click.argument("jobfile")
@click.option("--checkpoint", required=True, metavar="DIR", help="The checkpointLocation of the stopped query.")
@click.option("--task", required=True, metavar="UID", help="The task that continues it.")
@with_spark_settings
@with_storage
@with_json
def adopt(jobfile: str, checkpoint: str, task: str, storage: str, spark_config: dict[str, str], as_json: bool) -> int:
    """Let a task of the job in JOBFILE begin where a Structured Streaming query stopped.

    The task takes over the state, the positions in the sources and the watermark. The checkpoint is only read. The job
    must not have run yet; rekindle run then begins there.
    """
    from rekindle.cli import jobfile as jobfiles

    with wrong_command_line(), stdout_for_result(as_json):
        adopted = jobfiles.load(jobfile).adopt(checkpoint, task, storage=storage, spark_config=spark_config)
    if as_json:
        output.as_json(adopted.to_json())
        return 0
    watermark = f", watermark {output.short_time(adopted.watermark_ms)}" if adopted.watermark_ms else ""
    output.say(f"{adopted.job}  task {adopted.task} continues after batch {adopted.batch}{watermark}")
    for uid, position in adopted.positions.items():
        output.say(f"  {uid}: {json.dumps(position)}")
    if adopted.unfinished_batch is not None:
        output.say(
            f"note: the query stopped in batch {adopted.unfinished_batch}, which is read again: what its own sink has "
            "of it comes once more"
        )
    output.say(f"Run it: rekindle run {jobfile}")
    return 0
