"""Hadoop's local files for the JVMs that tests start, without a process for each that is written.

Hadoop starts ``chmod`` four times for a file that it writes, since the file has a checksum beside it, and ``readlink``
before it renames one. Ours makes the calls that these make, and does all else as Hadoop does.

It also leaves out what Hadoop has as defaults for YARN, which no JVM here talks to: they are half of each of the
configurations that Spark copies and sends, some for each batch.

`make` compiles it once for each environment, by the compiler that Spark brings. Where that cannot be done, tests run
with Hadoop's own.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).with_name("QuickFiles.java")
CLASS = "rekindle.tests.QuickFiles"
INSTEAD = {"yarn-default.xml": "<configuration/>"}
_MADE_OF = SOURCE.read_bytes() + repr(INSTEAD).encode()
JAR = Path(sys.prefix, f"quick-files-{version('pyspark')}-{hashlib.sha256(_MADE_OF).hexdigest()[:8]}.jar")
COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
SECONDS_AT_MOST = 60


def settings() -> dict[str, str]:
    """Settings of Spark by which a JVM has it."""
    if not JAR.is_file():
        return {}
    return {
        "spark.driver.extraClassPath": str(JAR),
        "spark.executor.extraClassPath": str(JAR),
        "spark.hadoop.fs.file.impl": f"{CLASS}$OfFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{CLASS}$OfFileContext",
    }


def make(java: str) -> None:
    """Compile it and put it into `JAR`.

    Raises:
        OSError, subprocess.SubprocessError: it could not be done.
    """
    if JAR.is_file():
        return
    found = find_spec("pyspark")
    assert found is not None and found.submodule_search_locations
    jars = Path(found.submodule_search_locations[0], "jars")
    known = ":".join(map(str, jars.glob("*.jar")))
    with tempfile.TemporaryDirectory() as folder:
        command = [java, "-cp", f"{jars}/*", COMPILER, "-classpath", known, "-d", folder, str(SOURCE)]
        subprocess.run(command, capture_output=True, check=True, timeout=SECONDS_AT_MOST)
        classes = sorted(Path(folder).rglob("*.class"))
        if not classes:
            raise OSError(f"{COMPILER} has made nothing of {SOURCE}")
        new = JAR.with_suffix(".new")
        with zipfile.ZipFile(new, "w") as jar:
            for each in classes:
                jar.write(each, each.relative_to(folder))
            for name, text in INSTEAD.items():
                jar.writestr(name, text)
        new.rename(JAR)
