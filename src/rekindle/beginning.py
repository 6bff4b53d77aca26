"""Begin a job, with what runs beside it until it has ended: its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from rekindle.config import Config
from rekindle.handle import JobHandle, JobResult
from rekindle.logs.job_log import job_log
from rekindle.logs.spark_lines import SparkLog
from rekindle.runtime.ports import Engines
from rekindle.start.launch import Launch
from rekindle.start.running import Running
from rekindle.storage.documents.runs import Result


def begin(
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
        spark_log: where Spark logs.
    """
    storage = launch.storage
    with ExitStack() as begun:
        log = begun.enter_context(job_log(storage, config, spark_config, spark_log))
        running = Running(launch, engines, successor, config)
        if running.ended is not None:
            return JobHandle(storage, mode=mode, ended=JobResult.of(storage.job, running.ended, already_ended=True))
        log.begin(lambda: running.number)
        beside = begun.pop_all()

    def run() -> Result:
        with beside:
            return running.run()

    return JobHandle(storage, mode=mode, driver=running, run=run)
