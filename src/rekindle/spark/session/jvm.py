"""Starting Spark's JVM without the lines that it prints each time, whatever is run.

Spark talks while Log4j is not configured: it gets a configuration of ours (`log4j2.properties`), unless the user has
one or has started the JVM himself. Java says one line about a module that Spark's own launcher asks for: it is cut out
of the JVM's stderr, which therefore passes through here. Everything else comes through.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"

_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options that Spark's launcher puts before those of the settings, so that the user's own win."""

_PLACES = (_SUBMIT_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Environment variables that may point Log4j to a configuration."""


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM that sessions of this process will use, with `settings`; where there is one, nothing is done."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    reader, writer = os.pipe()
    threading.Thread(target=_pass_on, args=(reader,), name="jvm-stderr", daemon=True).start()
    try:
        with _java_options(
            "" if configures_log4j(settings) else f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()}"
        ):
            gateway = launch_gateway(conf, _Deaf(stderr=writer))  # type: ignore[no-untyped-call]
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


class _Deaf(dict[str, Any]):
    """Arguments of Popen for a JVM that does not hear SIGTERM and SIGHUP.

    Both mean that the job is to stop, which needs the JVM, and often reach every process of a group or a container.
    Java leaves a signal alone that is ignored when it starts; PySpark uses that for Ctrl-C, by a function of its own
    that it puts here. The JVM ends with its driver, as always: when its stdin is closed.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, _deafened(value) if key == "preexec_fn" else value)


def _deafened(before: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        before()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    return run


def configures_log4j(settings: Mapping[str, str]) -> bool:
    """Whether the user has configured Log4j: in Spark's ``conf`` folder, an environment variable or a setting."""
    given = [os.environ.get(name, "") for name in _PLACES]
    given += [settings.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")]
    if "LOG4J_CONFIGURATION_FILE" in os.environ or any("log4j" in text for text in given):
        return True
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    return any(path.suffix != ".template" for path in folder.glob("log4j2*"))


@contextmanager
def _java_options(options: str) -> Iterator[None]:
    before = os.environ.get(_SUBMIT_OPTIONS)
    os.environ[_SUBMIT_OPTIONS] = f"{options} {before or ''}".strip()
    try:
        yield
    finally:
        del os.environ[_SUBMIT_OPTIONS]
        if before is not None:
            os.environ[_SUBMIT_OPTIONS] = before


def _pass_on(reader: int) -> None:
    """Copy the JVM's stderr to ours, line by line, but for the noise."""
    rest = b""
    while chunk := os.read(reader, 65_536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.rstrip() != _NOISE:
                with suppress(OSError):  # ours may be closed: Java must not wait for that
                    os.write(2, line + b"\n")
    with suppress(OSError):
        os.write(2, rest)
    os.close(reader)
