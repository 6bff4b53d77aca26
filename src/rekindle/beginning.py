"""The beginning of a job, with its log and its OpenLineage events, which run beside it until it has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from rekindle.config import Config
from rekindle.handle import JobHandle
from rekindle.logs.job_log import job_log, redaction
from rekindle.logs.spark_lines import SparkLog
from rekindle.openlineage.emitter import emitting, run_events
from rekindle.results import JobResult
from rekindle.runtime.definition import Definition
from rekindle.runtime.ports import Engines
from rekindle.start.launch import Launch
from rekindle.start.running import Running
from rekindle.storage.documents.runs import Result


def begin(
    definition: Definition,
    launch: Launch,
    engines: Engines,
    successor: Callable[[int, int], Launch],
    config: Config,
    *,
    mode: str,
    spark_config: Mapping[str, str],
    spark_log: Callable[[], SparkLog | None],
) -> JobHandle:
    """Begin a job whose launch is prepared.

    Args:
        spark_config: settings of Spark, some of which may be secret.
        spark_log: returns the log of Spark; None: there is none.
    """
    storage = launch.storage
    with ExitStack() as begun:
        log = begun.enter_context(job_log(launch.storage_of_log, config, spark_config, spark_log))
        try:
            running = Running(launch, engines, successor, config)
        except BaseException:
            if (claimed := launch.claimed) is not None:
                log.begin(lambda: claimed.run)  # so that it keeps why
            raise
        if running.ended is not None:
            return JobHandle(storage, mode=mode, ended=JobResult.of(storage.job, running.ended, already_ended=True))
        log.begin(lambda: running.number)
        log.starting = False
        beside = begun.pop_all()
    events = partial(
        run_events,
        definition,
        storage,
        running.number,
        mode=mode,
        engine=getattr(sys.modules.get("pyspark"), "__version__", ""),
        redact=redaction(spark_config),
    )

    def run() -> Result:
        with beside, emitting(events, lambda: running.heartbeat.status().checkpoints_completed) as ended:
            return ended(running.run())

    return JobHandle(storage, mode=mode, driver=running, run=run)
