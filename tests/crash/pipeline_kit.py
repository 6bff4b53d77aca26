"""The pipeline that tests of several tasks run, and the crash tests break.

A history and a live stream → `enrich` → three tasks, each with its own sink: hourly sums, an archive of single rows,
and sums per two hours that a source of its own goes into as well, so that this task reads a channel and a source.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by, no_steps
from rekindle.storage.documents.status import TaskStatusDocument
from tests.crash.kit import BrokenWorld, Rows
from tests.jobs.kit import Row, at, committed, rows, until, write

LIVE_FILES = 3
"""Files of the live stream of `PipelineWorld.fill`; each is a batch of `enrich`, at least."""

FILE_BY_FILE = ("--set", "input.target_batch_duration=1 ms")


class PipelineWorld(BrokenWorld):
    """Folders of one test, with a source beside the channel and three outputs."""

    name = "pipeline"
    job_file = Path(__file__).with_name("pipeline_job_file.py")
    arguments = FILE_BY_FILE

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.extra = root / "extra"
        self.extra_data: list[Row] = []
        self.outs = {name: root / name for name in ("hourly", "archive", "both")}

    def fill(self) -> PipelineWorld:
        """Write what the job reads."""
        self.add_history(rows(10, 90), rows(0, 90), rows(20, 30))
        self.add_extra(rows(12, 90), rows(4, 30))
        self.add_live(*(rows(30 + 3 * number, 60) for number in range(LIVE_FILES)))
        return self

    def add_extra(self, *files: list[Row]) -> None:
        """Add files to the source that only `both` reads."""
        for data in files:
            self._files += 1
            self.extra_data += data
            write(self.extra, f"{self._files:04d}.parquet", data)

    def job(self, *, live: bool = True, seen: Callable[[Any], Any] | None = None, more: str | None = None) -> rk.Job:
        """The pipeline.

        Args:
            seen: put around what `archive` makes of its rows.
            more: a column more in the output of `enrich`.
        """
        from pyspark.sql import functions as F

        job = rk.Job(self.name)
        sources = [job.source("history", rk.Files(str(self.history)), event_time="ts")]
        if live:
            sources.append(job.source("live", self.stream(), event_time="ts", watermark="4 seconds"))
        extra = job.source("extra", rk.Files(str(self.extra)), event_time="ts")

        @job.task(*sources, event_time="ts")
        def enrich(first: Any, *others: Any) -> Any:
            for frame in others:
                first = first.unionByName(frame)
            enriched = first.withColumn("w", 2 * F.col("v"))
            return enriched if more is None else enriched.withColumn(more, F.lit(1))

        @job.task(enrich)
        def hourly(enriched: Any) -> Any:
            return enriched.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("w").alias("w"))

        @job.task(enrich)
        def archive(enriched: Any) -> Any:
            kept = enriched.filter("k <> 'c'")
            return kept if seen is None else seen(kept)

        @job.task(enrich, extra)
        def both(enriched: Any, extra: Any) -> Any:
            rows = enriched.select("ts", "k", "w").unionByName(extra.select("ts", "k", F.col("v").alias("w")))
            return rows.groupBy(F.window("ts", "2 hours"), "k").agg(F.sum("w").alias("w"))

        for task in (hourly, archive, both):
            job.sink(f"{task.uid}_out", task, rk.sinks.Parquet(self.outs[task.uid]))
        return job

    def expected_of(self, *, live: bool = True) -> dict[str, Rows]:
        """What each sink must hold in the end."""
        data = self.data if live else [row for row in self.data if row[0] is not None and row[0] < at(30)]
        doubled = [(ts.replace(tzinfo=None), key, 2 * value) for ts, key, value in data if ts is not None]
        single = [(ts.replace(tzinfo=None), key, value) for ts, key, value in self.extra_data if ts is not None]
        return {
            "hourly": _windows(doubled, 1),
            "archive": Counter(row for row in doubled if row[1] != "c"),
            "both": _windows(doubled + single, 2),
        }

    def outputs(self) -> dict[str, Rows]:
        """What is committed."""
        return {name: found(folder) for name, folder in self.outs.items()}

    def read_all(self, handle: JobHandle) -> None:
        """By those who read it first."""
        until(lambda: handle.wait(0) is not None or is_read(handle))

    def has_window(self, name: str, hour: float) -> bool:
        """Whether the window that begins so many hours after the start is committed in a sink."""
        return any(row[0] == at(hour).replace(tzinfo=None) for row in found(self.outs[name]))


def _windows(data: Iterable[tuple[dt.datetime, str, int]], hours: int) -> Rows:
    sums: Counter[tuple[dt.datetime, str]] = Counter()
    for ts, key, value in data:
        sums[(ts.replace(hour=ts.hour // hours * hours, minute=0), key)] += value
    return Counter((start, key, total) for (start, key), total in sums.items())


def found(folder: Path) -> Rows:
    """What a sink's folder holds: begin of the window, or time, then key and value."""
    return Counter(
        ((row["window"]["start"] if "window" in row else row["ts"]).replace(tzinfo=None), row["k"], row["w"])
        for row in committed(folder)
    )


def task(handle: JobHandle, uid: str) -> TaskStatusDocument:
    """A task as the status shows it."""
    return next(one for one in handle.status().tasks if one.uid == uid)


def live_is_read(handle: JobHandle, files: int = LIVE_FILES) -> bool:
    """Whether `enrich` has read so many files of the live stream."""
    live = task(handle, "enrich").inputs.get("live")
    return live is not None and live.position is not None and live.position["logOffset"] >= files - 1


def is_read(handle: JobHandle) -> bool:
    """Whether everything that `PipelineWorld.fill` wrote is in batch records of those who read it first."""
    enrich, both = task(handle, "enrich"), task(handle, "both")
    history, extra = enrich.inputs.get("history"), both.inputs.get("extra")
    # A task that has ended shows no inputs.
    return (
        (not enrich.inputs or (history is not None and history.ended and live_is_read(handle)))
        and (not both.inputs or (extra is not None and extra.ended))
    )  # fmt: skip


class Gate:
    """Holds a task up in a batch, for as long as it is shut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = path.with_name(f"{path.name}-held")
        path.touch()

    def __call__(self, frame: Any, where: str = "true") -> Any:
        """The frame, held up by the rows that `where` selects."""
        from pyspark.sql import functions as F

        path, sign = str(self._path), str(self._held)

        def waits(held):
            import os
            import time

            while held and os.path.exists(path):
                open(sign, "a").close()
                time.sleep(0.05)
            return True

        return frame.filter(F.udf(waits, "boolean")(F.expr(where)))

    def await_held(self) -> None:
        """Wait until the task is in that batch: one that is stopped before it is held up by nothing."""
        until(self._held.exists)

    def open(self) -> None:
        """Let it go on."""
        self._path.unlink(missing_ok=True)


SMALL_BATCHES = {"input.target_batch_duration": "1 ms"}
"""With `assembly.FIRST_ADMISSION_BYTES_PER_CORE` at 1: a file a batch, which leaves a core to the other tasks."""


def held_up(
    spark: Any, world: PipelineWorld, gate: Gate, config: dict[str, str], steps: Callable[[str], None] = no_steps
) -> JobHandle:
    """A pipeline whose sources are read, while `archive` has recorded nothing yet and is held up in its first batch."""
    settings = {**config, **SMALL_BATCHES}
    handle = heard_by(steps, world.job(seen=gate).start)(spark, storage=world.storage, config=settings)
    world.read_all(handle)
    gate.await_held()
    assert task(handle, "enrich").batch > task(handle, "archive").batch == -1
    return handle
