"""A fault at every durable step, before it and after it, in this process: the job is run on, and nothing shows."""

from __future__ import annotations

import contextlib
import time

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import RekindleError
from rekindle.job import JobResult
from rekindle.testing.crash import InjectedError, Moments
from tests.crash.kit import CONFIG, LAST_LIVE_BATCH, CrashWorld


def test_gauntlet(spark, world):
    import os
    from rekindle.testing.crash import ALL_MOMENTS
    faults = Moments([m for m in ALL_MOMENTS if m.when == os.environ.get("WHEN", "before")])
    for attempt in range(60):
        t = time.time()
        n = len(faults.acted)
        try:
            handle = world.job(live=False).start(spark, storage=world.storage, config=CONFIG, steps=faults)
            result = handle.wait(20)
            if result is None:
                print(handle._driver._job.story)
                print(handle.status())
                print(faults.acted[n:])
                for x in handle._driver._runners.values(): print(x.__dict__, x._protocol.__dict__)
                raise SystemExit("hang")
        except Exception as error:
            result = error
        print(attempt, round(time.time() - t, 2), [str(m) for m in faults.acted[n:]], repr(result) if isinstance(result, Exception) else (result.state, result.error, result.already_ended), flush=True)
        if isinstance(result, JobResult) and result.state == "FINISHED":
            break
    print("waiting", faults.waiting)
    world.check(live=False)
