"""`make bench-pipeline`, ending: from the end of the data to FINISHED, for five tasks in a row, two-phase commit.

One job of five tasks, each of which reads the one before and has a Parquet sink of its own; and beside it five jobs of
one task, each of which reads what the one before has committed, started one when the other has FINISHED. That is what
finishing one after the other comes to: a step begins to end when the step before has ended *and* committed, and takes a
final checkpoint for itself. The jobs share a Spark session, and the input is one small batch, so that neither has more
to do than to end.

The clock starts when the first task records the batch that ends the source, and stops when the (last) job's result is
written. Checkpoints are counted from the manifests.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from measuring import SETTINGS, arguments, middle, publish, settled, where
from rekindle.session.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEPS = 5
ROWS = 10_000


@dataclass(frozen=True)
class Ended:
    """One run's end: seconds from the end of its data, and its checkpoints."""

    seconds: float
    checkpoints: int


def chain(spark: SparkSession, data: Path, work: Path) -> Ended:
    """Run a chain of tasks as one job; return how it ended."""
    job = rk.Job("chain")
    handles = [job.task(job.source("rows", rk.Files(str(data))), uid="step0")(_same)]
    for number in range(1, STEPS):
        handles.append(job.task(handles[-1], uid=f"step{number}")(_same))
    for number, handle in enumerate(handles):
        job.sink(f"out{number}", handle, rk.sinks.Parquet(work / f"out{number}"))
    run(job, spark, work / "state")
    return Ended(finished(work / "state" / "chain") - data_ended(work / "state" / "chain", "step0"), manifests(work))


def one_after_the_other(spark: SparkSession, data: Path, work: Path) -> Ended:
    """Five jobs."""
    for number in range(STEPS):
        job = rk.Job(f"step{number}")
        rows = job.source("rows", rk.Files(str(work / f"out{number - 1}" if number else data)))
        job.sink("out", job.task(rows, uid="step")(_same), rk.sinks.Parquet(work / f"out{number}"))
        run(job, spark, work / "state")
    began = data_ended(work / "state" / "step0", "step")
    return Ended(finished(work / "state" / f"step{STEPS - 1}") - began, manifests(work))


CONTENDERS = {"one job of five tasks": chain, "five jobs, one after the other": one_after_the_other}


def _same(rows: DataFrame) -> DataFrame:
    return rows


def run(job: rk.Job, spark: SparkSession, state: Path) -> None:
    """Run a job to its end."""
    result = job.run(spark, storage=str(state))
    assert result.state == "FINISHED", result


def data_ended(job: Path, task: str) -> float:
    """Return the time at which the first task recorded the last batch of the source, seconds."""
    records = job.glob(f"tasks/{task}/0/*/batches/*.json")
    read = {path: json.loads(path.read_text())["inputs"]["rows"].get("files", 0) for path in records}
    return min(path.stat().st_mtime for path in read if read[path] == max(read.values()))


def finished(job: Path) -> float:
    """Return the time at which the result of the job's run was written, seconds."""
    return max(path.stat().st_mtime for path in job.glob("runs/*.result.json"))


def manifests(work: Path) -> int:
    """Count the completed checkpoints."""
    return len(list(work.glob("state/*/checkpoints/*/manifest.json")))


def main() -> None:
    given = arguments("End of data to FINISHED, five tasks in a row.").parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    runs: dict[str, list[Ended]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder) / "rows"
        data.mkdir()
        pq.write_table(pa.table({"number": range(ROWS)}), data / "rows.parquet")
        for number in range(given.runs + 1):
            for name, contender in CONTENDERS.items():
                ended = contender(spark, data, Path(folder) / f"{number}-{contender.__name__}")
                print(f"run {number or 'to warm up'}: {name}: {ended.seconds:.2f} s", flush=True)
                if number:
                    runs[name].append(ended)
    rows = [
        f"| {name} | {middle([one.seconds for one in ended]):.2f} | {min(one.seconds for one in ended):.2f} to "
        f"{max(one.seconds for one in ended):.2f} | {' or '.join(sorted({str(one.checkpoints) for one in ended}))} |"
        for name, ended in runs.items()
    ]
    text = f"""\
| | median s | s | checkpoints |
| --- | ---: | ---: | ---: |
{chr(10).join(rows)}

- {STEPS} steps, a sink with each; medians of {given.runs} runs in turn, after one to warm up
{where(spark, load_before)}"""
    spark.stop()
    publish("ending", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
