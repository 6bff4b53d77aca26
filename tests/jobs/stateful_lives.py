"""Random lives of jobs that keep state (`stateful_queries`), each by its seed: what they read, and what befalls them.

A life is a few runs. In each run more comes to the streams, steps may fail, and in the end the run is stopped, saved or
canceled. The next one resumes, from an earlier checkpoint perhaps, which takes its sinks back, or with its state in
another number of partitions. At last all that was given is read, and each sink has exactly the rows of a batch query.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.handle import JobHandle
from rekindle.results import JobResult
from rekindle.runtime.steps import heard_by
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import WHEN, Moment, Moments
from tests.crash.kit import CONFIG, persist
from tests.jobs.kit import DDL, Row, at, until, write
from tests.jobs.stateful_queries import SHAPES, Output
from tests.spark.dealing import lines

KEYS = "abcd"

STEPS = (
    *("inbox.admit", "mark.write", "mark.admit", "progress.write", "lineage.create", "segment.write"),
    *("sink.prepare", "record.create", "spark.commit", "manifest.create", "sink.commit", "committed.create"),
    *("drain.create", "sink.finish", "end.create"),
)
"""Steps that may fail."""

ENDINGS = ("stop", "stop", "save", "cancel", "rewind", "rewind")
"""The ends of a run; after ``rewind`` the next one starts from any checkpoint."""

Start = Mapping[str, Any]
"""What a start is told beside the settings."""


@dataclass
class Given:
    """An input: a history, or a stream with a delay, some of whose files come later.

    Args:
        ordered: of a history, see `rk.Files`.
        delay: minutes.
        there: number of files that are there.
        quiet: after these no more come, and its watermark is to hold nothing back.
    """

    uid: str
    folder: Path
    ends: bool
    ordered: bool | None
    delay: int
    files: list[list[Row]]
    there: int = 0
    quiet: bool = False

    def add(self, count: int) -> None:
        """Let so many more files come."""
        upto = min(self.there + count, len(self.files))
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in range(self.there, upto):
            write(self.folder, f"{number:04d}.parquet", self.files[number])
        self.there = upto

    def is_read(self, shown: Any) -> bool:
        """Whether all that is there is read, by what a job shows of it."""
        return bool(shown.share == 1 if self.ends else (shown.position or {}).get("logOffset", -1) >= self.there - 1)

    def source(self, job: rk.Job) -> Any:
        """Define it."""
        place = str(self.folder)
        if self.ends:
            return job.source(self.uid, rk.Files(place, ordered=self.ordered), event_time="ts")
        stream = rk.Stream(lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(place))
        idle = "100 ms" if self.quiet else None
        return job.source(self.uid, stream, event_time="ts", watermark=f"{self.delay} minutes", idle_after=idle)


def given(dice: random.Random, uid: str, folder: Path, values: Iterator[int], *, streams: bool, repeats: bool) -> Given:
    """Choose an input; its rows go on in time from file to file, some are earlier by less than the delay."""
    delay, step, start = dice.choice([2, 10, 40]), dice.choice([5, 20, 45]), dice.choice([0, 0, 50])
    files: list[list[Row]] = []
    for number in range(dice.randrange(1, 6)):
        minutes = [start + step * (number + dice.random()) for _ in range(dice.randrange(1, 9))]
        times = [minute - dice.random() * (delay - 1) if dice.random() < 0.3 else minute for minute in minutes]
        rows: list[Row] = [(at(max(minute, 0.1) / 60), dice.choice(KEYS), next(values)) for minute in times]
        again = [dice.choice(dice.choice([*files, rows])) for _ in range(dice.randrange(3))]
        files.append(rows + again if repeats else rows)
    ends = not streams and dice.random() < 0.5
    return Given(uid, folder, ends, dice.choice([None, False]), delay, files)


class Life:
    """One life.

    Args:
        shape: one of `SHAPES`; None: the dice choose it.
    """

    def __init__(self, spark: Any, root: Path, seed: int, shape: str | None = None) -> None:
        self._spark, self._root, self._storage = spark, root, str(root / "storage")
        self._dice = dice = random.Random(seed)
        name = dice.choice(list(SHAPES)) if shape is None else shape
        self._shape, values = SHAPES[name], itertools.count(1)
        kind = {"streams": self._shape.streams, "repeats": self._shape.repeats}
        uids = ("a", "b")[: self._shape.inputs]
        self._inputs = [given(dice, uid, root / uid, values, **kind) for uid in uids]
        self._outputs: Mapping[str, Output] = {}
        self._ended = False
        self._config = {
            **CONFIG,
            "checkpoint.retained": "20",
            "input.target_batch_duration": "1 ms",
            "checkpoint.mode": dice.choice(["unaligned", "aligned"]),
            "backlog.mode": dice.choice(["stream", "auto"]),
            "channel.max_in_flight_bytes": dice.choice(["1 GiB", "1"]),
            "state.partitions": dice.choice(["1", "2", "3"]),
        }
        #: what has happened, for a failure
        self.told: list[str] = [name, str(self._inputs), str(self._config)]

    def live(self) -> None:
        """Live to the end."""
        dice, last = self._dice, self._inputs[-1]
        for one in self._inputs:
            one.add(len(one.files) if one.ends else dice.randrange(len(one.files) + 1))
        # What comes after an input has gone idle may be late.
        last.quiet = len(self._inputs) > 1 and not last.ends and last.there == len(last.files)
        start: Start = {}
        for _ in range(dice.randrange(1, 4)):
            start = {} if self._ended else self._until_it_stops(start)
        for one in self._inputs:
            one.add(len(one.files))
        self._to_the_end(start)
        if dice.random() < 0.3:
            self._to_the_end(self._earlier())

    def differences(self) -> dict[str, Counter[str]]:
        """Return the rows that are lost (negative) or too many, by sink."""
        of = {one.uid: self._spark.read.schema(DDL).parquet(str(one.folder)) for one in self._inputs}
        found: dict[str, Counter[str]] = {}
        for uid, output in self._outputs.items():
            wanted, place = output.expected(*(of[name] for name in output.inputs)), self._out(uid)
            came = self._spark.read.schema(wanted.schema).parquet(str(place)) if place.exists() else wanted.limit(0)
            due, there = (Counter(row[0] for row in lines(frame).collect()) for frame in (wanted, came))
            if due != there:
                found[uid] = there
                found[uid].subtract(due)
        return found

    def _out(self, uid: str) -> Path:
        return self._root / "out" / uid

    def _job(self) -> rk.Job:
        job = rk.Job("life")
        self._outputs = self._shape.make(job, {one.uid: one.source(job) for one in self._inputs})
        for uid, output in self._outputs.items():
            sink = rk.sinks.Parquet(self._out(uid))
            sink.output_modes = ("append", "update")  # no row is replaced here
            job.sink(uid, output.task, sink)
        return job

    def _until_it_stops(self, start: Start) -> Start:
        """Run until it is stopped, or has ended by itself; return what the next start is to be told."""
        dice, ending = self._dice, self._dice.choice(ENDINGS)
        at_rest, pause_s, more = dice.random() < 0.5, 2 * dice.random(), [dice.randrange(3) for _ in self._inputs]
        saved: list[JobResult] = []

        def then(handle: JobHandle) -> None:
            for one in self._inputs:
                one.add(more.pop() if more else 0)
            if at_rest:
                self._read_all(handle)
            else:
                handle.wait(pause_s)
            if handle.wait(0) is not None:
                return
            if ending == "cancel":
                handle.cancel()
            else:
                saved.append(handle.stop(savepoint=str(self._root / "saves") if ending == "save" else None))

        self._run(start, "CANCELED" if ending == "cancel" else "STOPPED", then, ending)
        if self._ended or ending in ("stop", "cancel"):
            return {}
        return self._moved({"restore": saved[-1].savepoint}) if ending == "save" else self._earlier()

    def _to_the_end(self, start: Start) -> None:
        lives_on = not all(one.ends for one in self._inputs)

        def then(handle: JobHandle) -> None:
            self._read_all(handle)
            if lives_on and handle.wait(0) is None:
                handle.stop(drain=True)

        self._run(start, "DRAINED" if lives_on else "FINISHED", then, "end")

    def _run(self, start: Start, end: str, then: Callable[[JobHandle], None], why: str) -> None:
        """Start, let steps fail, and start again until it comes to this end, or has ended by itself."""
        dice, steps = self._dice, self._dice.choice([0, 0, 1, 2])
        config = self._config | {"checkpoint.interval": dice.choice(["0", "100 ms", "500 ms"])}
        faults = Moments(Moment(dice.choice(STEPS), dice.choice(WHEN), dice.randrange(1, 4)) for _ in range(steps))
        self.told.append(f"{why} after {dict(start)}, faults at {sorted(map(str, faults.waiting))}")
        # What fails while sinks go back is another test's: repeated, such a start would go back once more.
        first = [self._job().start(self._spark, storage=self._storage, config=config, **start)] if start else []

        def started() -> JobHandle:
            if first:
                return first.pop()
            return heard_by(faults, self._job().start)(self._spark, storage=self._storage, config=config)

        state = persist(started, (end, "FINISHED"), then).state
        self._ended = state in ("FINISHED", "DRAINED")

    def _earlier(self) -> Start:
        """Return a start from a checkpoint that was not taken back and is not the end of a drain, if there is one."""
        stored = JobStorage(open_store(self._storage), "life")

        def counts(number: int) -> bool:
            folder, manifest = layout.checkpoint("life", number), stored.manifest(number)
            marks = (layout.rewound(folder, by_all=by_all) for by_all in (True, False))
            return manifest is not None and not manifest.drained and not any(map(stored.store.exists, marks))

        numbers = list(filter(counts, stored.checkpoints()))
        return self._moved({"restore": self._dice.choice(numbers), "rewind_sinks": True}) if numbers else {}

    def _moved(self, start: Start) -> Start:
        self._config["state.partitions"] = self._dice.choice(["1", "2", "3", "4"])
        return start

    def _read_all(self, handle: JobHandle) -> None:
        """Wait until all that is there is read, or the job is over."""
        there = {one.uid: one for one in self._inputs if one.there}

        def has_read() -> bool:
            if handle.wait(0) is not None:
                return True
            tasks = handle.status().tasks
            shown = {uid: item for task in tasks for uid, item in task.inputs.items() if uid in there}
            # A task that had finished when the run began is not built, and shows no inputs: it has read them.
            shows_all = bool(tasks) and all(task.inputs or task.status == "closed" for task in tasks)
            return shows_all and all(there[uid].is_read(item) for uid, item in shown.items())

        until(has_read)
