"""A year in the life of one job: upgrades, a rewind, an edit of its state, a shadow beside it, a rename, a rescale.

Each month brings data and a change. In the end its table is the one that a batch query over all data computes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import DDL, QUICK, committed, rows, until, write

CONFIG = {**QUICK, "checkpoint.retained": "1000", "checkpoint.interval": "2 seconds"}


_CHECKED = ("restore", "rewind_sinks", "allow_non_restored_state")
"""What of a start's arguments decides how it begins."""


@dataclass(frozen=True)
class Version:
    """The job's code at one time."""

    #: of the task that counts, and what it was before
    uid: str = "count"
    was: str | None = None
    delay: str = "4 seconds"
    positive: bool = False
    without_bad: bool = False
    #: what it reads, in the order of its query
    inputs: tuple[str, ...] = ("live",)
    #: kind of a second sink
    audit: str | None = None
    #: subtasks of a task that reads what was counted; 0: there is none
    copies: int = 0
    factor: int = 1
    out: str = "out"


@dataclass
class Year:
    """The folders, what was dropped into them, and the job that reads them."""

    spark: SparkSession
    root: Path
    version: Version = field(default_factory=Version)
    month: int = 0
    #: codes of the job that have run
    versions: list[Version] = field(default_factory=list)

    @property
    def storage(self) -> str:
        return str(self.root / "storage")

    def job(self, version: Version) -> rk.Job:
        made = rk.Job("year")

        def stream(uid: str) -> Any:
            folder = self.root / uid
            folder.mkdir(exist_ok=True)
            read = lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))  # noqa: E731
            return made.source(uid, rk.Stream(read), event_time="ts", watermark=version.delay)

        @made.task(*map(stream, version.inputs), uid=version.uid, was=version.was, event_time="window_end")
        def count(*frames: DataFrame) -> DataFrame:
            whole = frames[0]
            for frame in frames[1:]:
                whole = whole.unionByName(frame)
            kept = whole.where("v > 0") if version.positive else whole
            kept = kept.where("k != 'bad'") if version.without_bad else kept
            value = F.col("v") if version.factor == 1 else F.col("v") * version.factor
            counted = kept.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum(value).alias("v"))
            return counted.select(F.col("window.end").alias("window_end"), "k", "v")

        made.sink("out", count, rk.sinks.Parquet(self.root / version.out))
        if version.audit == "Parquet":
            made.sink("audit", count, rk.sinks.Parquet(self.root / "audit"))
        if version.audit == "Foreach":
            made.sink("audit", count, rk.sinks.Foreach(lambda frame, _: frame.collect()))
        if version.copies:
            copied = made.task(count, uid="copy", parallelism=version.copies)(lambda counted: counted)
            made.sink("copies", copied, rk.sinks.Parquet(self.root / "copies"))
        return made

    def data_of_month(self, *, bad: bool = False) -> None:
        """Two hours of rows in each stream that the job reads; `bad` ones lie in the hour that stays open."""
        hour = 2 * self.month
        for uid in self.version.inputs:
            own = [*rows(hour, 100), *(rows(hour + 1.2, 5, keys=["bad"]) if bad else [])]  # type: ignore[arg-type]
            write(self.root / uid, f"{self.month:02d}.parquet", own)

    def lives(self, version: Version | None = None, *, bad: bool = False, **start: Any) -> str:
        """A month with this code: it reads that month's data, and is stopped with a savepoint, which is returned."""
        self.version = version or self.version
        self.data_of_month(bad=bad)
        return self.runs(self.version, self.storage, **start)

    def runs(self, version: Version, storage: str, **start: Any) -> str:
        job = self.job(version)
        looked = {name: value for name, value in start.items() if name in _CHECKED}
        said = job.check(self.spark, storage=storage, **looked)
        assert not said.refused, said
        handle = job.start(self.spark, storage=storage, **{"config": CONFIG, **start})
        files = self.month + 1
        until(lambda: not handle.is_running() or self.has_come(version, 2 * files - 1))
        result = handle.stop(savepoint=str(self.root / "savepoints"))
        ended = handle.wait()
        assert ended is not None and ended.state == "STOPPED", ended
        if storage == self.storage:
            self.month += 1
            self.versions.append(version)
        return str(result.savepoint)

    def has_come(self, version: Version, hours: int) -> bool:
        """Whether the window that ends so many hours after the start is committed."""
        return any(end == hours for end, _, _ in self.table(version.out))

    def table(self, name: str) -> Counter[tuple[int, str, int]]:
        """What lies there: the hour at whose end a window ends, its key, its sum."""
        start = rows(0, 1)[0][0]
        assert start is not None
        return Counter(
            (int((row["window_end"].replace(tzinfo=start.tzinfo) - start).total_seconds() // 3600), row["k"], row["v"])
            for row in committed(self.root / name)
        )

    def computed(self) -> Counter[tuple[int, str, int]]:
        """What a batch query makes of all data that counts."""
        folders = [str(self.root / uid) for uid in ("live", "partners")]
        frame = self.spark.read.schema(DDL).parquet(*folders).where("k != 'bad'")
        hourly = frame.groupBy(F.window("ts", "1 hour").alias("w"), "k").agg(F.sum("v").alias("v"))
        start = rows(0, 1)[0][0]
        seconds = (F.unix_timestamp("w.end") - F.lit(int(start.timestamp()))) / 3600  # type: ignore[union-attr]
        return Counter(
            (int(row["h"]), row["k"], row["v"]) for row in hourly.select(seconds.alias("h"), "k", "v").collect()
        )

    def newest(self) -> int:
        return JobStorage(open_store(self.storage), "year").checkpoints()[0]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="state is written since Spark 4.3")
def test_a_year_of_changes_leaves_the_table_that_a_batch_query_computes(spark: SparkSession, tmp_path: Path) -> None:
    year = Year(spark, tmp_path)
    first = Version()
    year.lives(first)
    # 1: a filter; 2: a rename
    year.lives(replace(year.version, positive=True))
    year.lives(replace(year.version, uid="hourly", was="count"))
    # 3: a second stream; 4: a second sink
    year.lives(replace(year.version, inputs=("live", "partners")))
    year.lives(replace(year.version, audit="Parquet"))
    # 5: a task that reads the counts; 6: the inputs in another order, and another delay
    year.lives(replace(year.version, copies=1))
    year.lives(replace(year.version, inputs=("partners", "live"), delay="10 seconds"))

    # A bad version runs for a month. The sinks go back with the checkpoint before it, and read its data again: 7, 8
    before = year.newest()
    good = replace(year.version, audit=None, copies=0)
    year.lives(replace(good, factor=100), allow_non_restored_state=True)
    assert any(value > 1000 for _, _, value in year.table("out"))
    year.month -= 1
    year.version = good
    year.runs(good, year.storage, restore=before, rewind_sinks=True, allow_non_restored_state=True)
    assert not any(value > 1000 for _, _, value in year.table("out"))

    # 9: in more partitions
    year.lives(restore=year.newest(), config={**CONFIG, "state.partitions": "3"})
    # 10: a task again, with two subtasks a month later: 11
    year.lives(replace(year.version, copies=1))
    year.lives(replace(year.version, copies=2))

    # Rows that should never have come are taken out of the state: 12
    savepoint = year.lives(bad=True)
    edited = rk.rewrite_state(savepoint, "hourly", lambda state: state.where(F.col("key.k") != "bad"), spark=spark)
    year.lives(replace(year.version, without_bad=True), restore=edited.path)

    # The next version runs as a shadow first: same inputs, and the rows of the job as it runs to compare with.
    savepoint = year.lives()
    year.lives()
    following = replace(year.version, inputs=("live", "partners"), audit="Foreach")
    report = rk.shadow(
        year.job(following),
        savepoint,
        storage=year.storage,
        key=("window_end", "k"),
        until_checkpoint=year.newest(),
        spark=spark,
        config=CONFIG,
    )
    assert report.verdict == "equal", report
    compared = {sink.sink: sink for sink in report.sinks}
    assert compared["out"].equal and compared["copies"].equal == compared["out"].equal, report
    assert compared["audit"].unseen == "the original does not have this sink"
    year.lives(following)

    handle = year.job(year.version).start(spark, storage=year.storage, config=CONFIG)
    handle.stop(drain=True)
    ended = handle.wait()
    assert ended is not None and ended.state == "DRAINED"
    assert year.table("out") == year.computed()
    assert len(set(year.versions)) > 12
