"""Hadoop's local files for the JVMs that tests start, without a process for each that is written.

Hadoop starts ``chmod`` four times for a file that it writes, since the file has a checksum beside it, and ``readlink``
before it renames one. Ours makes the calls that these make, and does all else as Hadoop does.

Spark starts ``rm`` for each folder that it deletes: some ninety in a small join, a fifth of its CPU. Where it takes the
system for none of Unix, it deletes by Java (`delete_without_processes`).

It also leaves out those of Hadoop's defaults that no JVM here reads: those of YARN, of MapReduce's jobs, of servers and
of protocols that no test speaks. They are 1,087 of the 1,369 settings of each configuration that Spark copies, writes
and reads again, some for each batch.

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
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).with_name("QuickFiles.java")
CLASS = "rekindle.tests.QuickFiles"
PRUNED = {
    "yarn-default.xml": ("",),
    "mapred-default.xml": (
        *("yarn.", "map.", "mapred.child", "mapreduce.job", "mapreduce.map.", "mapreduce.reduce.", "mapreduce.am."),
        *("mapreduce.shuffle.", "mapreduce.task.", "mapreduce.client.", "mapreduce.ifile.", "mapreduce.cluster."),
        *("mapreduce.application.", "mapreduce.jvm.", "mapreduce.admin.", "mapreduce.app-submission."),
    ),
    "core-default.xml": (
        *("hadoop.http.", "hadoop.zk.", "hadoop.registry.", "hadoop.ssl.", "hadoop.caller.", "hadoop.tags.", "tfile."),
        *("hadoop.security.group.mapping.ldap.", "hadoop.security.kms.", "hadoop.security.crypto."),
        *("security.service.", "ipc.[port_number].", "ipc.server.", "ipc.callqueue.", "ipc.maximum."),
        *("net.topology.", "rpc.metrics.", "ha.", "dfs.ha.", "fs.adl.", "adl.", "fs.ftp.", "ftp.", "fs.viewfs."),
        *("nfs.", "fs.trash."),
    ),
}
"""Files of Hadoop's defaults, and how the names begin that are left out of each."""
_MADE_OF = SOURCE.read_bytes() + repr(PRUNED).encode()
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
    jars = spark_jars()
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
            for name, beginnings in PRUNED.items():
                jar.writestr(name, without(beginnings, defaults(name)))
        new.rename(JAR)


def delete_without_processes(spark: SparkSession) -> None:
    """Let this JVM delete folders as Spark does where ``rm`` fails; older Sparks cannot be told to."""
    assert spark._jvm is not None
    java_utils = spark._jvm.java.lang.Class.forName("org.apache.spark.network.util.JavaUtils")
    if "isUnix" in [each.getName() for each in java_utils.getFields()]:
        java_utils.getField("isUnix").setBoolean(None, False)


def spark_jars() -> Path:
    """Return the folder with what Spark consists of."""
    found = find_spec("pyspark")
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0], "jars")


def defaults(name: str) -> bytes:
    """Return a file of Hadoop's defaults."""
    (of_hadoop,) = spark_jars().glob("hadoop-client-api-*.jar")
    with zipfile.ZipFile(of_hadoop) as jar:
        return jar.read(name)


def without(beginnings: tuple[str, ...], document: bytes) -> bytes:
    """Return it without the properties whose names begin so, and without what is said about the others."""
    root = ET.fromstring(document)
    for each in root.findall("property"):
        if each.findtext("name", "").strip().startswith(beginnings):
            root.remove(each)
        elif (description := each.find("description")) is not None:
            each.remove(description)
    return ET.tostring(root)
