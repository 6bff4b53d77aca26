"""Spark's classes as a JVM has them in memory once a job has run, kept in a file: tests start many JVMs.

With the file a JVM has a session in half the time, and its first query too. `python -m tests.class_archive` makes it,
once for each environment; without one, or with another Java or Spark than it was made with, all goes on without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from shutil import which

ARCHIVE = Path(sys.prefix, f"classes-{version('pyspark')}.jsa")
SECONDS_AT_MOST = 180

QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
"""Tests give each JVM little to do: compiled quickly it costs them 40 % less CPU than compiled well. For each file that
Hadoop writes in a local folder it starts ``chmod``, and Java starts no helper before that if it may use ``vfork``."""


def submit_arguments(archiving: Path | None = None) -> str:
    """What `PYSPARK_SUBMIT_ARGS` should be, for tests or to write the archive."""
    options = [QUICKLY]
    if archiving or ARCHIVE.is_file():
        archive = f"ArchiveClassesAtExit={archiving}" if archiving else f"SharedArchiveFile={ARCHIVE}"
        options += [f"-XX:{archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return f"--conf 'spark.driver.defaultJavaOptions={' '.join(options)}' pyspark-shell"


def live_a_life() -> None:
    """A job with a history, windows and two sinks, in this process, from beginning to end."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tests.crash.kit import CrashWorld

    with tempfile.TemporaryDirectory() as folder:
        spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
        world = CrashWorld(Path(folder)).fill()
        world.job(live=False).start(spark, storage=world.storage).wait()
        world.check(live=False)
        spark.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        java = gateway.proc  # ends when nobody can write to it any more, and writes the archive then
        java.stdin.close()
        java.wait()


def main() -> None:
    """Write the archive, from a process that has the arguments for it."""
    if ARCHIVE.is_file():
        return
    new = ARCHIVE.with_suffix(".new")
    if "PYSPARK_SUBMIT_ARGS" in os.environ or not (os.environ.get("JAVA_HOME") or which("java")):
        return
    print("keeping Spark's classes for the JVMs that tests start", file=sys.stderr)
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(new)}
    command = [sys.executable, "-c", "from tests.class_archive import live_a_life; live_a_life()"]
    try:
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=SECONDS_AT_MOST)
        new.rename(ARCHIVE)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        print(f"it could not be done ({error}); tests run without\n{said.decode()[-2000:]}", file=sys.stderr)


if __name__ == "__main__":
    main()
