"""The start of Spark's JVM, so that the terminal holds what Rekindle says, and Spark's own lines lie in a file.

Spark gets a configuration of Log4j of ours (`log4j2.properties`), unless the user has one or has started the JVM: its
lines go to a file in `FOLDER`, whose path is said when the JVM starts, and again when the job fails. What the JVM and
the functions of users write to stderr still comes through, except one line of Java's about a module that Spark's own
launcher asks for.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from rekindle.logs.spark_lines import SparkLog
from rekindle.session import kept_classes, scratch
from rekindle.session.environment import environment, of_file_names
from rekindle.session.kept_classes import SUBMIT_OPTIONS
from rekindle.session.local_files import class_path
from rekindle.session.starting import SILENCE_S, JvmWatch

_LOG = logging.getLogger(__name__)
_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
FOLDER = "rekindle-logs"
"""The folder of Spark's logs, in the working directory, or in the temporary one where that cannot be written."""
FOLDER_VARIABLE = "REKINDLE_LOGS"
"""Environment variable that names another folder."""

_LOG_VARIABLE = "REKINDLE_SPARK_LOG"
"""Environment variable by which the JVM is given the path of its log."""

_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"

_AWAITED = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Environment variable by which PySpark tells the JVM where to write how it can be reached."""

_PLACES = (SUBMIT_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Environment variables with options of Java, which may point Log4j to a configuration."""


_LOGS: list[SparkLog] = []
"""The log of this process's JVM, if it has one of ours."""


def log_of_jvm() -> SparkLog | None:
    """Return the file that Spark logs to; None where that is not ours to say."""
    return _LOGS[-1] if _LOGS else None


def spark_log() -> str | None:
    """Return the path of that file."""
    return _LOGS[-1].path if _LOGS else None


def start_jvm(settings: Mapping[str, str], name: str, silence_s: float = SILENCE_S) -> None:
    """Start the JVM that sessions of this process will use, with `settings`; where there is one, nothing is done.

    Args:
        name: what its log is called.
        silence_s: how long it may say nothing before it is given up.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    reader, writer = os.pipe()
    watch = JvmWatch(silence_s)
    threading.Thread(target=_pass_on, args=(reader, watch.heard), name="jvm-stderr", daemon=True).start()
    ours = not configures_log4j(settings)
    if ours:
        path = _log_file(name)
        _LOGS[:] = [SparkLog(path, os.path.getsize(path) if os.path.exists(path) else 0)]
        _say(f"Spark logs to {_LOGS[0].path}")
    temporary = scratch.option(_java_options_given(settings))
    try:
        with (
            watch.watched(),
            environment({_LOG_VARIABLE: spark_log() or ""}),
            environment({SUBMIT_OPTIONS: f"{temporary} {_java_options(settings, configured=not ours)}".strip()}),
            environment({**class_path(settings, os.environ), **of_file_names(os.environ)}),
        ):
            gateway = launch_gateway(conf, _Deaf(watch, stderr=writer))  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
    finally:
        os.close(writer)


def _say(text: str) -> None:
    """Say it on stderr: as a line of the log, where `rekindle run` prints the log there in a format of its own."""
    if any(getattr(one, "has_format", False) for one in logging.getLogger("rekindle").handlers):
        _LOG.info(text)
    else:
        print(text, file=sys.stderr, flush=True)


def _log_file(name: str) -> str:
    """Return a file to log to, in the first folder that can be written; the null device where none can be."""
    given = os.environ.get(FOLDER_VARIABLE) or FOLDER
    for folder in (Path(given).absolute(), Path(scratch.temporary(), f"{FOLDER}-{os.getuid()}")):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return str(folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}.log")
    return os.devnull


class _Deaf(dict[str, Any]):
    """Arguments of Popen for a JVM that does not hear SIGTERM and SIGHUP.

    Both mean that the job is to stop, which needs the JVM, and often reach every process of a group or a container.
    Java leaves a signal alone that is ignored when it starts; PySpark uses that for Ctrl-C, by a function of its own
    that it puts here. The JVM ends with its driver, as always: when its stdin is closed.

    Args:
        watch: hears from the process that will be the JVM, and of the file by which that tells PySpark that it is up.
    """

    def __init__(self, watch: JvmWatch, **arguments: Any) -> None:
        super().__init__(arguments)
        self._watch = watch

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "env":
            self._watch.awaits(value.get(_AWAITED))
        super().__setitem__(key, _deafened(value, self._watch.begun) if key == "preexec_fn" else value)


def _deafened(before: Callable[[], None], begun: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        begun()
        before()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    return run


def configures_log4j(settings: Mapping[str, str]) -> bool:
    """Return True if the user has configured Log4j, in Spark's ``conf`` folder, the environment or a setting."""
    if "LOG4J_CONFIGURATION_FILE" in os.environ or any("log4j" in text for text in _java_options_given(settings)):
        return True
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    return any(path.suffix != ".template" for path in folder.glob("log4j2*"))


def _java_options(settings: Mapping[str, str], *, configured: bool) -> str:
    """Return Java's options of ours, and after them the user's.

    Args:
        configured: the user has configured Log4j.
    """
    log4j = "" if configured else f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()}"
    has_archive = any("Archive" in text for text in _java_options_given(settings))
    kept = "" if has_archive else kept_classes.options(os.environ)
    return " ".join(filter(None, [log4j, kept, os.environ.get(SUBMIT_OPTIONS)]))


def _java_options_given(settings: Mapping[str, str]) -> list[str]:
    return [
        *(os.environ.get(name, "") for name in _PLACES),
        *(settings.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")),
    ]


def _pass_on(reader: int, heard: Callable[[], None] = lambda: None) -> None:
    """Copy the JVM's stderr to ours, line by line, except the noise."""
    rest = b""
    while chunk := os.read(reader, 65_536):
        heard()
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.rstrip() != _NOISE:
                with suppress(OSError):  # ours may be closed: Java must not wait for that
                    os.write(2, line + b"\n")
    with suppress(OSError):
        os.write(2, rest)
    os.close(reader)
