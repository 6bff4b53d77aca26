"""The crash tests' job with everything it writes in a bucket or in HDFS, which environment variables name."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import rekindle as rk
from rekindle.session.settings import FILE_MANAGER
from rekindle.sinks import TwoPhaseSink
from rekindle.storage.open import open_store
from tests.crash.kit import CrashWorld, Rows
from tests.servers.kafka import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rekindle.sinks.two_phase import Committable

PLACE = "CRASH_PLACE"
ARGUMENTS = "CRASH_ARGUMENTS"

TELLING = (
    "inbox.admit/after",
    "sink.prepare/after",
    "record.create/before",
    "record.create/after",
    "spark.commit/before",
    "manifest.create/before",
    "manifest.create/after",
    "sink.commit/after",
    "committed.create/before",
    "result.create/before",
)
"""Where a kill tells most."""


class BucketWorld(CrashWorld):
    """The same inputs; storage and both outputs lie in the place."""

    job_file = Path(__file__).with_name("bucket_job_file.py")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.place = os.environ[PLACE]
        self.storage = f"{self.place}/state"
        self.arguments = tuple(json.loads(os.environ.get(ARGUMENTS, "[]")))

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """Where the rows go."""
        return {uid: rk.sinks.Parquet(f"{self.place}/{uid}") for uid in self.outs}

    def outputs(self) -> dict[str, Rows]:
        """What each sink holds."""
        return {uid: self._rows(uid) for uid in self.outs}

    def _rows(self, uid: str) -> Rows:
        store, found = open_store(f"{self.place}/{uid}"), Rows()
        for path in (entry.path for entry in store.walk("")):
            if path.endswith(".parquet") and not path.startswith("."):
                for row in pq.read_table(io.BytesIO(store.read(path))).to_pylist():
                    found[(row["window"]["start"].replace(tzinfo=None), row["k"], row["v"])] += 1
        return found


class StatelessWorld(BucketWorld):
    """A job without state: its query writes its files in a bucket of S3 in another way (docs/decisions/0065)."""

    job_file = Path(__file__).with_name("stateless_job_file.py")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        #: how the queries of this process wrote their files, by the setting that each batch saw
        self.managers: set[str] = set()

    def computed(self, union: Any) -> Any:
        """Each row for itself, but those with one of the keys."""
        return union.where("k <> 'c'").selectExpr("struct(ts AS start) AS window", "k", "v + 1 AS v")

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """The same, and they look how the query writes its files."""
        return {uid: _Looking(f"{self.place}/{uid}", self.managers) for uid in self.outs}

    def expected_of(self, *, live: bool = True) -> dict[str, Rows]:
        """The rows of all inputs."""
        found = Rows((ts.replace(tzinfo=None), k, v + 1) for ts, k, v in self.read_by(live=live) if k != "c")
        return dict.fromkeys(self.outs, found)


class _Looking(rk.sinks.Parquet):
    """Parquet that notes how the query writes its files."""

    def __init__(self, path: str, managers: set[str]) -> None:
        super().__init__(path)
        self._managers = managers

    def prepare(self, df: DataFrame, batch: rk.sinks.SinkBatch) -> Sequence[Committable]:
        self._managers.add(str(df.sparkSession.conf.get(FILE_MANAGER, "")).rpartition(".")[2])
        return super().prepare(df, batch)


def arguments_of(connector: str, hadoop: Mapping[str, str], java: Mapping[str, str]) -> str:
    """What a driver in a process of its own is told beside its job, for `ARGUMENTS`."""
    settings = {f"spark.hadoop.{name}": value for name, value in hadoop.items()}
    if connector:
        settings["spark.jars"] = ",".join(map(str, jars(connector)))
    if java:
        settings["spark.driver.extraJavaOptions"] = " ".join(f"-D{name}={value}" for name, value in java.items())
    return json.dumps([part for name, value in settings.items() for part in ("--conf", f"{name}={value}")])
