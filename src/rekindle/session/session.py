"""The Spark session of a job: which settings Rekindle chooses, which it needs, and which it refuses.

A session that Rekindle makes itself gets `CHOSEN` below whatever the user passes as ``--conf``; a session that the user
brings is respected: only `NEEDED` is set on it, which are settings of streaming queries, read when one starts or soon
after. What is needed and what is refused stands in `settings`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors.exceptions import base
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError
from rekindle.session.classes import java_class
from rekindle.session.classic import check_classic, refuse_connect
from rekindle.session.connectors import s3a_settings
from rekindle.session.failures import brief
from rekindle.session.jvm import start_jvm
from rekindle.session.lifeline import forgotten_if_interrupted
from rekindle.session.local_files import settings as of_local_files
from rekindle.session.settings import Decision, of, refused
from rekindle.session.sharing import is_of_user
from rekindle.session.starting import not_started, said_to_wait

OLDEST = (3, 5)
"""Oldest PySpark this version runs on."""

SESSION = threading.Lock()
"""Queries start side by side, and share the session that is set for them."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

NEEDED: dict[str, str] = {name: setting.value for name, setting in of(Decision.SET).items()}
"""Settings of every session: checkpoints and flushes rest on them (`settings`)."""

CHOSEN: dict[str, str] = {
    # State beside the heap, as large as the disk.
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    # Resuming and flushing then copy the state's files; with changelogs they would replay the changes of a minute.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    # To count the rows of state, RocksDB looks up each key before it writes it. Their number is unknown without.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Each batch leaves the names of its files in a cache, where nothing finds them again; Spark allows it 250 MB.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "16777216",
    # Queries of one driver share its cores fairly, each in its own pool.
    "spark.scheduler.mode": "FAIR",
    # A batch's timestamp means the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Many jobs on one machine need no port each; `rekindle status` tells where a job stands.
    "spark.ui.enabled": "false",
    # It would draw over the display of `rekindle run`.
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session that Rekindle makes, unless the user says otherwise."""

_QUIET_LOGGERS = (
    # It prints the whole stack of a batch that was held back on purpose; real failures are reported by us.
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.StreamExecution",
    "org.apache.spark.sql.execution.streaming.runtime.StreamExecution",
    # It takes the interval of its trigger for a promise (`polling`).
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    # The same once more, and what follows from an interrupted write.
    "org.apache.spark.api.python.PythonRunner",
    "org.apache.spark.broadcast.TorrentBroadcast",
)

_LOG4J = "org.apache.logging.log4j"
_OF_LOG4J = ("LogManager", "Level", "core.config.Configurator")


def make_plain_session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """Make a session for a query that ran without Rekindle: in the time zone it had, that of the machine."""
    its_own = "spark.sql.session.timeZone"
    chosen = {key: value for key, value in CHOSEN.items() if key != its_own}
    return make_session(app_name, settings, chosen, plain=True)


def make_session(
    app_name: str, settings: Mapping[str, str], chosen: Mapping[str, str] = CHOSEN, *, plain: bool = False
) -> SparkSession:
    """Make a session with `CHOSEN`, `NEEDED` and the user's `settings`; local on all cores unless a master is set.

    Where the process has a session that Rekindle has not made, that one is returned, with the user's `settings`.

    Raises:
        DefinitionError: ``SPARK_NOT_STARTED``, ``SPARK_USER_NAMELESS``, and what `prepare_session` raises.
    """
    check_version()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    settings = {**_submitted(), **settings}
    if not is_of_user():
        refuse_connect(settings, os.environ)
    by_master = {} if is_of_user() else of_master(settings, os.environ)
    settings = settings if is_of_user() else {**chosen, **s3a_settings(os.environ), **NEEDED, **settings}
    for key, value in (by_master | settings).items():
        builder = builder.config(key, value)
    _let_workers_import_beside(getattr(sys.modules.get("__main__"), "__file__", None))
    try:
        # Not of the session: its JVM may be older, and lack the class.
        start_jvm({**of_local_files(_master(settings, os.environ)), **settings}, app_name)
        spark = _make(builder)
    except (base.PySparkException, Py4JError) as error:
        raise not_started(brief(error), os.getuid()) from error
    return prepare_session(spark, plain=plain)


def of_master(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the master, if nothing else names one, and for a local master the number of shuffle partitions.

    Spark's default of 200 is meant for clusters, and is fixed for a stateful query when it first runs.
    """
    named = settings.get("spark.master") or environ.get("MASTER")
    master = _master(settings, environ)
    chosen = {} if named else {"spark.master": master}
    if master.startswith("local"):
        chosen["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    return chosen


def _master(settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    return settings.get("spark.master") or environ.get("MASTER") or environ.get("SPARK_MASTER") or "local[*]"


def active_or_made(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """Return the active session as it is, or else one that `make_session` makes."""
    return SparkSession.getActiveSession() or make_session(app_name, settings)


def _let_workers_import_beside(program: str | None) -> None:
    """Let workers on this machine import what the program imports from its own folder, wherever it was run from."""
    if program is None:
        return
    folder, known = os.path.dirname(os.path.realpath(program)), os.environ.get("PYTHONPATH", "")
    if folder not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, known]))


def _make(builder: Any) -> SparkSession:
    """Make a session in another thread: in the main one PySpark would let Ctrl-C end Spark's jobs, noisily."""
    with forgotten_if_interrupted():
        spark: SparkSession = said_to_wait(builder.getOrCreate)
    # It became the active session of that thread only. Where its class lies has changed with Spark 4.
    session: Any = spark._jsparkSession
    java_class(spark._jvm, session.getClass().getName()).setActiveSession(session)
    return spark


def _submitted() -> dict[str, str]:
    """Return what ``spark-submit`` was given, which comes before what Rekindle chooses; empty under plain Python."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def prepare_session(spark: SparkSession, *, plain: bool = False) -> SparkSession:
    """Check a session, the user's or ours, and set what is `NEEDED`, for as long as it lives.

    To set it only while a query starts is not enough: the thread of the query reads some of it from the session
    afterwards (how many entries the log of a file source keeps, whether it looks that the directory is empty).

    Args:
        plain: for a query without a job, whose sources may have names.

    Raises:
        DefinitionError: ``SPARK_CONNECT_UNSUPPORTED``, ``PYSPARK_TOO_OLD``, ``SPARK_SETTING_REFUSED``.
    """
    check_version()
    check_classic(spark)
    check_settings(spark)
    if not plain:
        refuse_settings({key: spark.conf.get(key, None) for key in of(Decision.ONLY_OF_JOBS)})
    with SESSION:  # a query that starts beside this has settings of its own
        for key, value in NEEDED.items():
            spark.conf.set(key, value)
    return spark


def check_settings(spark: SparkSession) -> None:
    """Raise ``SPARK_SETTING_REFUSED`` where a session has a setting with which no query may run."""
    refuse_settings({key: spark.conf.get(key, None) for key in of(Decision.ONLY)})


def refuse_settings(values: Mapping[str, str | None], place: str = "The session has") -> None:
    """Raise ``SPARK_SETTING_REFUSED`` for the first of these settings with which no query may run."""
    for key, value, setting in refused(values):
        raise DefinitionError(
            "SPARK_SETTING_REFUSED", place=place, setting=key, value=value, reason=setting.why, wanted=setting.value
        )


def check_version() -> None:
    """Raise ``PYSPARK_TOO_OLD`` where Spark lacks what the design rests on."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise DefinitionError("PYSPARK_TOO_OLD", version=pyspark.__version__, reason="not tested below", wanted=wanted)


_QUIET_PYTHON_LOGGERS = (
    "py4j",
    # They print a page on every mistake in a user's function, which is reported by us. PySpark has a class for them.
    "DataFrameQueryContextLogger",
    "SQLQueryContextLogger",
)

_PUT_BACK_S = 5.0


class _Hush:
    """The count of callers that want quiet: levels are changed for the first and put back after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._put_back: list[Callable[[], object]] = []

    def begin(self, spark: SparkSession) -> None:
        """Count one more caller; change the levels for the first."""
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._put_back = [*_hush_python()]
                with suppress(Exception):  # a JVM that is dying says so by itself
                    self._put_back += _hush_jvm(spark)

    def end(self) -> None:
        """Count one caller less; put the levels back after the last."""
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                changed, self._put_back = self._put_back, []
                # A JVM that hangs answers nothing.
                undoing = threading.Thread(target=_undo, args=(changed,), name="put-back-levels", daemon=True)
                undoing.start()
                undoing.join(_PUT_BACK_S)


def _undo(changed: list[Callable[[], object]]) -> None:
    for put_back in reversed(changed):
        with suppress(Exception):  # the JVM may be gone by now
            put_back()


def _hush_python() -> Iterator[Callable[[], object]]:
    root = logging.getLogger()
    root.addFilter(_is_no_lost_call)
    yield partial(root.removeFilter, _is_no_lost_call)
    for name in _QUIET_PYTHON_LOGGERS:
        logger = getattr(base, "PySparkLogger", logging).getLogger(name)
        yield partial(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)


def _is_no_lost_call(record: logging.LogRecord) -> bool:
    """Return False for py4j's line on a call that a dead JVM did not answer: we report the death once."""
    return not record.getMessage().startswith("Exception while sending command")


def _hush_jvm(spark: SparkSession) -> Iterator[Callable[[], object]]:
    manager, levels, configurator = (java_class(spark._jvm, f"{_LOG4J}.{name}") for name in _OF_LOG4J)
    get_logger, set_level, off = manager.getLogger, configurator.setLevel, levels.OFF
    for name in _QUIET_LOGGERS:
        yield partial(set_level, name, get_logger(name).getLevel())
        set_level(name, off)


_HUSH = _Hush()


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from printing the stack traces of batches that are held back or canceled on purpose.

    Jobs that run side by side in one process share it.
    """
    _HUSH.begin(spark)
    try:
        yield
    finally:
        _HUSH.end()
