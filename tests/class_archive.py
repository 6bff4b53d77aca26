"""Spark's classes as a JVM has them in memory once a job has run, kept in a file: tests start many JVMs.

With the file a JVM has a session in half the time, and its first query too. `python -m tests.class_archive` makes it,
and `tests.quick_files`, once for each environment; without one, or with another Java or Spark than it was made with,
all goes on without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tests import quick_files

SECONDS_AT_MOST = 600
"""It takes half a minute, on a machine that has little time for us twenty times that."""

COMPILED_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
"""Tests give each JVM little to do: compiled quickly it costs them 40 % less CPU than compiled well.

Java then expects little code, and 48 MB of it are soon full: it throws methods out and compiles them once more. Before
it has loaded Spark's classes it collects all its garbage several times, each time it has loaded as many again.
"""

QUICKLY = f"{COMPILED_QUICKLY} -XX:+UseSerialGC"
"""Threads that collect garbage beside the others would only take their cores."""


def archive() -> Path:
    """Where it is kept: it holds for the class path and the options that it was made with."""
    made_with = f"{QUICKLY} {quick_files.settings()}"
    return Path(sys.prefix, f"classes-{version('pyspark')}-{hashlib.sha256(made_with.encode()).hexdigest()[:8]}.jsa")


def submit_arguments(archiving: Path | None = None) -> str:
    """What `PYSPARK_SUBMIT_ARGS` should be, for tests or to write the archive."""
    options = [QUICKLY]
    if archiving or archive().is_file():
        kept = f"ArchiveClassesAtExit={archiving}" if archiving else f"SharedArchiveFile={archive()}"
        options += [f"-XX:{kept}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    settings = {"spark.driver.defaultJavaOptions": " ".join(options), **quick_files.settings()}
    return " ".join([*(f"--conf '{key}={value}'" for key, value in settings.items()), "pyspark-shell"])


def environment_of_a_user() -> dict[str, str]:
    """Return this process's environment without what tests tell Spark; only Java compiles quickly there too."""
    own = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    return own | {"SPARK_SUBMIT_OPTS": COMPILED_QUICKLY}


def live_a_life() -> None:
    """A job with a history, windows and two sinks, in this process, from beginning to end."""
    from pyspark.sql import SparkSession

    from rekindle.session.kept_classes import end_jvm
    from tests.crash.kit import CrashWorld

    with tempfile.TemporaryDirectory() as folder:
        spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
        world = CrashWorld(Path(folder)).fill()
        world.job(live=False).start(spark, storage=world.storage).wait()
        world.check(live=False)
        end_jvm()  # it writes the archive then


def main() -> None:
    """Make what JVMs of tests are started with, in a process that was not given other arguments for them."""
    if "PYSPARK_SUBMIT_ARGS" in os.environ:
        return
    attempt(quick_files.make)
    attempt(keep_classes)


def attempt(step: Callable[[], None]) -> None:
    """Say where it fails: tests run without."""
    try:
        step()
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        print(f"it could not be done ({error}); tests run without\n{said.decode()[-2000:]}", file=sys.stderr)


def keep_classes() -> None:
    """Write the archive, from a process that has the arguments for it."""
    if archive().is_file():
        return
    print("keeping Spark's classes for the JVMs that tests start", file=sys.stderr)
    new = archive().with_suffix(".new")
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(new)}
    command = [sys.executable, "-c", "from tests.class_archive import live_a_life; live_a_life()"]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=SECONDS_AT_MOST)
    new.rename(archive())


if __name__ == "__main__":
    main()
