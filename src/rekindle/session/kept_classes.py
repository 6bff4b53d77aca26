"""Spark's classes as a JVM has them in memory, kept in a file for the JVMs that start later (docs/decisions/0072).

To load, check and link the classes of Spark takes a third of a JVM's first seconds. Java can write those that a JVM has
loaded to a file when it ends, and map this file into others (JEP 350). It uses the file only with the same Java, and
with a class path that begins with the same jars; else it starts as it always did.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from rekindle.errors import ConfigError
from rekindle.session.environment import environment
from rekindle.session.lifeline import forget_failed_jvm

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options that Spark's launcher puts before those of the settings, so that the user's own win."""

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java would say on stdout why it does not use the file."""

_CONFIGURATION_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Variables whose folders Spark puts after its jars. With a folder that has files on the path, Java keeps nothing."""

_END_S = 120
"""Time in which the JVM writes the file. It takes some seconds."""


class KeptClasses(NamedTuple):
    """The file that was made."""

    path: str
    #: its size
    bytes: int


def options(environ: Mapping[str, str], prefix: str = sys.prefix) -> str:
    """Return the Java options by which a new JVM uses the file; none where there is no file.

    Args:
        prefix: the folder of the Python environment.
    """
    for folder in _folders(environ, prefix):
        if (path := _file_in(folder, environ)).is_file():
            return f"{quoted(f'-XX:SharedArchiveFile={path}')} {QUIET}"
    return ""


def keep(life: Callable[[], None], prefix: str = sys.prefix) -> KeptClasses:
    """Write the file, with what Spark's JVM loads during `life`, which starts it in this process.

    An older file is replaced. JVMs that use it are not disturbed.

    Args:
        life: what a user's job is likely to do.
        prefix: the folder of the Python environment.

    Raises:
        ConfigError: ``CLASSES_NOT_KEPT``; an older file is still there.
        RekindleError: what `life` raises.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        raise ConfigError("CLASSES_NOT_KEPT", reason="this process has a JVM of Spark already")
    folders = [*_folders(os.environ, prefix)]
    folder = next(filter(_can_write, folders), None)
    if folder is None:
        tried = " or ".join(map(str, folders))
        raise ConfigError("CLASSES_NOT_KEPT", reason=f"no file can be written in {tried}")
    path = _file_in(folder, os.environ)
    new, log = path.with_suffix(".new"), path.with_suffix(".log")
    try:
        with environment(_archiving(new, log)):
            life()
            end_jvm()
        said = log.read_text(errors="replace").strip() if log.exists() else ""
        if not new.exists():
            raise ConfigError("CLASSES_NOT_KEPT", reason=said.splitlines()[-1] if said else "Java has written no file")
        new.replace(path)
    finally:
        forget_failed_jvm()  # else it would write the file later, when this process ends
        for leftover in (new, log):
            leftover.unlink(missing_ok=True)
    return KeptClasses(str(path), path.stat().st_size)


def _folders(environ: Mapping[str, str], prefix: str) -> Iterator[Path]:
    """Yield where the file may be: in the Python environment, else with what the user's programs cache."""
    yield Path(prefix, "share", "rekindle")
    with suppress(RuntimeError):  # a user without a home
        yield Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rekindle")


def _file_in(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of the file for this Java and this Spark."""
    home = environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH"))
    pair = (os.path.realpath(java or ""), os.path.realpath(_find_spark_home()))
    return folder / f"classes-{hashlib.sha256(repr(pair).encode()).hexdigest()[:12]}.jsa"


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _archiving(new: Path, log: Path) -> Mapping[str, str | None]:
    """Return the environment in which the next JVM writes `new` when it ends, and into `log` why it did not."""
    java_options = [
        quoted(f"-XX:ArchiveClassesAtExit={new}"),
        QUIET,
        quoted(f"-Xlog:cds=error,cds+dynamic=error:file={log}:none"),
        os.environ.get(SUBMIT_OPTIONS, ""),
    ]
    return {SUBMIT_OPTIONS: " ".join(java_options).strip(), **dict.fromkeys(_CONFIGURATION_FOLDERS)}


def quoted(option: str) -> str:
    """Return an option as Spark's launcher reads it: a path may have a space."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def end_jvm() -> None:
    """Let the JVM of this process end by itself, as it does once no one can write to it any more.

    Raises:
        ConfigError: ``CLASSES_NOT_KEPT``, it does not end.
    """
    gateway: Any = SparkContext._gateway
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_S)
    except subprocess.TimeoutExpired as error:
        raise ConfigError("CLASSES_NOT_KEPT", reason=f"the JVM has not ended in {_END_S} s") from error
