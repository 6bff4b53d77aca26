"""What all tests share: one Spark session, made when the first test asks for it, and what happens without a Java.

Markers group tests by what they need. A test that uses the `spark` fixture is a spark test, marked or not, and one that
uses a server's fixture a server test. Tests that start drivers of their own mark themselves with ``pytest.mark.spark``.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests import quick_files
from tests.class_archive import submit_arguments
from tests.crash.pipeline_kit import Gate
from tests.jobs.kit import INTERPRETED
from tests.servers import kafka
from tests.servers.grouping import Together
from tests.versions import older_than

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.servers.fixtures", "tests.servers.places"]

SERVERS = {
    "postgres",
    "kafka",
    "s3_server_of_tests",
    "azure_server_of_tests",
    "google_server_of_tests",
    "hdfs_of_tests",
    "secure_hdfs_of_tests",
    "name_nodes_of_tests",
    "rest_catalog_of_tests",
}
"""Fixtures that start a server."""

QUICK_ONES = "not crash and not slow"
"""What `make test` and `make check` choose by markers."""

# How long an example takes says nothing here: machines are shared, and a JVM may run beside the tests.
# CI judges a change, not its luck: it tries the same examples each time; everywhere else new ones are looked for.
settings.register_profile(
    "rekindle",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.load_profile("rekindle")

# Workers must run the interpreter that has our dependencies; drivers started by tests inherit it.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", submit_arguments())

# Log4j would look at the stack for each logger that Spark asks for, to have other loggers by class loader.
os.environ.setdefault("LOG4J_CONTEXT_SELECTOR", "org.apache.logging.log4j.core.selector.BasicContextSelector")

os.environ.setdefault("REKINDLE_LOGS", str(Path(tempfile.gettempdir(), "rekindle-test-logs")))


def why_no_spark() -> str | None:
    """What is missing for tests on Spark; None where they can run."""
    home = os.environ.get("JAVA_HOME")
    if not (os.access(Path(home, "bin", "java"), os.X_OK) if home else shutil.which("java")):
        return "no Java in JAVA_HOME or PATH: `make setup` finds or installs one, `make test` uses it"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of slow functions where `make` chooses the others: each worker would throw 12,000 away."""
    if not isinstance(obj, FunctionType) or collector.config.option.markexpr != QUICK_ONES:
        return None
    return [] if "slow" in {mark.name for mark in getattr(obj, "pytestmark", ())} else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = why_no_spark()
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if (since := item.get_closest_marker("since")) and older_than(since.args[0]):
            item.add_marker(pytest.mark.skip(reason=f"PySpark {since.args[0]} has it first"))
        if not SERVERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)
        if item.get_closest_marker("spark"):
            # What only a run on Spark reaches does not count as covered: the core has to be tested without Java.
            item.add_marker(pytest.mark.no_cover)
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))
        if is_hypothesis_test(getattr(item, "function", None)):
            # Nor does what chance reaches: each line of the core has a case that is written down. It also takes long.
            item.add_marker(pytest.mark.no_cover)
    # Files that need Spark come first, whether of many tests or of one, which may take a minute; then those that need a
    # server. The others are many and quick: they fill up the end, in which one of several workers would wait for the
    # last file of another.
    spark, server = ({item.path for item in items if item.get_closest_marker(need)} for need in ("spark", "server"))
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in spark, item.path not in server, -tests[item.path]))


def pytest_collection_finish() -> None:
    """Keep Python from looking for garbage in what was imported and collected, which stays: it cost 6 % of the CPU.

    `gc.get_referrers` does not see it either, so a test that needs it to (of `session.lifeline`) makes its functions
    while it runs.
    """
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    """Deal files out, those that share a server together."""
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


_DRIVERS: dict[threading.Thread, str] = {}
"""Drivers of this process, each with the test that was at work when it was first seen."""

_END_WITHIN_S = 30


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Name the tests of a file that leave a job running: it takes the time of all that follow, and may fail them."""
    yield
    seen = [thread for thread in threading.enumerate() if thread.name.startswith("driver-")]
    new = [thread for thread in seen if _DRIVERS.setdefault(thread, item.nodeid)]
    if nextitem is None or nextitem.path != item.path:  # a fixture may be of the whole file
        deadline = time.monotonic() + _END_WITHIN_S
        for thread in new:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                item.warn(pytest.PytestWarning(f"{thread.name} still runs, which {_DRIVERS[thread]} has left"))
                _DRIVERS[thread] = ""  # it is named once


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores, set as Rekindle sets its own; nothing purged but by us."""
    from pyspark.sql import SparkSession

    from rekindle.session.session import CHOSEN

    conf = {
        **CHOSEN,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        # What a user types in a terminal (README, tutorials, command line) runs with all that Spark does by default.
        **INTERPRETED,
    }
    # By name: what several of them need, Spark takes once.
    of = ("spark-gcs", "spark-azure", "spark-s3", "spark-kafka", "spark-postgres", "spark-jdbc")
    connectors = {jar.name: str(jar) for folder in of for jar in kafka.jars(folder)}
    if connectors:
        conf["spark.jars"] = ",".join(connectors.values())
    builder = SparkSession.builder.master("local[2]").appName("rekindle-tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    quick_files.delete_without_processes(session)
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture
def one_file_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch of a source has one file, and so has each other where batches are to be short."""
    from rekindle.spark.streaming import assembly

    monkeypatch.setattr(assembly, "FIRST_ADMISSION_BYTES_PER_CORE", 1)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Shut, and open again behind the test, whatever came of it: a job held up holds a core of the session."""
    found = Gate(tmp_path / "shut")
    yield found
    found.open()
