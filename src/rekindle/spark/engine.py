"""Spark as the engine of a run: the only wiring of what this package has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from rekindle.runtime.definition import RunContext, SourceSpec
from rekindle.runtime.examining import Examination, Examined
from rekindle.runtime.ports import Subtasks
from rekindle.runtime.steps import Steps
from rekindle.session.connectors import check_connector, check_sees
from rekindle.session.failures import brief
from rekindle.session.lifeline import SparkLifeline, forget_failed_jvm, stop_session
from rekindle.session.session import make_session, prepare_session, quiet
from rekindle.session.sharing import Shared, is_in_use
from rekindle.session.value_settings import value_settings
from rekindle.spark.batch.assembly import BatchAssembly
from rekindle.spark.examining import examine
from rekindle.spark.inputs.freezing import freeze
from rekindle.spark.query.state_partitions import repartition
from rekindle.spark.streaming.assembly import Assembly
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_storage import JobStorage


class SparkEngine:
    """An `Engine` in a session.

    Args:
        shared: the job's share in a session that Rekindle has asked for; None: the user has given it. Another can take
            the place of one that Rekindle has made.
    """

    def __init__(self, spark: SparkSession, shared: Shared | None = None) -> None:
        self._spark = spark
        self._shared = shared
        self.lifeline = SparkLifeline(spark, ours=shared is not None and shared.ours)

    def quiet(self) -> AbstractContextManager[None]:
        """See `Engine`."""
        return quiet(self._spark)

    def stop(self) -> None:
        """See `Engine`."""
        if self._shared is not None and self._shared.end(gone=self.lifeline.is_gone()):
            stop_session(self._spark)

    def check_reaches(self, places: Iterable[str]) -> None:
        """See `Engine`."""
        for place in places:
            check_connector(self._spark, place)

    def check_sees(self, place: str, path: str) -> None:
        """See `Engine`."""
        check_sees(self._spark, place, path)

    @property
    def value_settings(self) -> Mapping[str, str]:
        """See `Engine`."""
        return value_settings(self._spark)

    def freeze(self, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps) -> FrozenFiles | None:
        """See `Engine`."""
        return freeze(self._spark, storage, spec, attempt, steps)

    def words_of(self, error: BaseException) -> str:
        """See `Engine`."""
        return brief(error)

    def repartition(self, storage: JobStorage, folder: str, task: str, count: int) -> None:
        """See `Engine`."""
        repartition(self._spark, storage, folder, task, count)

    def examine(self, of: Examination) -> Mapping[str, Examined]:
        """See `Engine`."""
        with self.quiet():
            return examine(self._spark, of)

    def assemble(self, run: RunContext, lineage: Lineage) -> Subtasks:
        """See `Engine`."""
        return BatchAssembly(run, self._spark) if run.run.mode == "batch" else Assembly(run, self._spark, lineage)


class SparkEngines:
    """`Engines` in the user's session, or in sessions of Rekindle's own, one after the other.

    Args:
        session: the user's; None: one is made for each engine, and stopped with the last job that uses it. If the
            process has one already, that is used.
        settings: of the sessions that are made.
    """

    def __init__(self, session: SparkSession | None, app_name: str, settings: Mapping[str, str]) -> None:
        self._session = session
        self._app_name = app_name
        self._settings = settings

    def make(self) -> SparkEngine:
        """See `Engines`."""
        if self._session is not None:
            return SparkEngine(prepare_session(self._session))
        shared = Shared(lambda: make_session(self._app_name, self._settings))
        return SparkEngine(shared.spark, shared)

    def forget_failed(self) -> None:
        """See `Engines`. A JVM in which another job of this process runs has not failed."""
        if not is_in_use():
            forget_failed_jvm()
