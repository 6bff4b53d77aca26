"""The crash tests' job with everything it writes in a bucket, which an environment variable names."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import rekindle as rk
from rekindle.sinks import TwoPhaseSink
from tests.crash.kit import CrashWorld, Rows
from tests.servers.kafka import jars

BUCKET = "CRASH_BUCKET"


class BucketWorld(CrashWorld):
    """The same inputs; storage and both outputs lie in the bucket."""

    job_file = Path(__file__).with_name("bucket_job_file.py")
    arguments = ("--conf", f"spark.jars={','.join(map(str, jars('spark-s3')))}")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.bucket = os.environ[BUCKET]
        self.storage = f"s3://{self.bucket}/state"

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """Where the rows go."""
        return {uid: rk.sinks.Parquet(f"s3://{self.bucket}/{uid}") for uid in self.outs}

    def outputs(self) -> dict[str, Rows]:
        """What each sink holds, read by a client that is none of ours."""
        return {uid: self._rows(uid) for uid in self.outs}

    def _rows(self, uid: str) -> Rows:
        from s3fs import S3FileSystem

        files: Any = S3FileSystem(use_listings_cache=False)
        found: Rows = Counter()
        for path in files.find(f"{self.bucket}/{uid}"):
            if path.endswith(".parquet") and "/." not in path:
                with files.open(path) as file:
                    for row in pq.read_table(file).to_pylist():
                        found[(row["window"]["start"].replace(tzinfo=None), row["k"], row["v"])] += 1
        return found
