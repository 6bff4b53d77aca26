"""What makes the JVMs that tests start quicker.

They have Rekindle's local files (`rekindle.session.local_files`), as the sessions do that it makes.

Spark starts ``rm`` for each folder that it deletes: some ninety in a small join, a fifth of its CPU. Where it takes the
system for none of Unix, it deletes by Java (`delete_without_processes`).

They lack those of Hadoop's defaults that no JVM here reads: those of YARN, of MapReduce's jobs, of servers and of
protocols that no test speaks. They are 1,138 of the 1,364 settings of each configuration that Spark copies, writes and
reads again, some for each batch. `make` writes the rest once for each environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rekindle.session import local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        *("nfs.", "fs.trash.", "fs.wasb", "fs.obs.", "fs.getspaceused.", "fs.df.", "fs.du.", "fs.client.", "fs.har."),
        *(f"fs.AbstractFileSystem.{of}" for of in ("adl", "ftp", "har", "o3fs", "ofs", "swebhdfs", "viewfs", "wasb")),
        *("io.erasurecode.", "io.map", "io.seqfile.", "io.compression.codec.lz", "io.skip.", "seq.io."),
        *("hadoop.prometheus.", "hadoop.metrics.", "hadoop.htrace.", "hadoop.jetty.", "hadoop.domainname."),
        *("hadoop.socks.", "hadoop.system.", "hadoop.security.dns.", "hadoop.security.key."),
        *("hadoop.security.openssl.", "ipc.backoff.", "ipc.scheduler.", "ipc.identity-provider.", "ipc.cost-provider."),
    ),
}
"""Files of Hadoop's defaults, and how the names begin that are left out of each."""
_MADE_OF = hashlib.sha256(repr(PRUNED).encode()).hexdigest()[:8]
DEFAULTS = Path(sys.prefix, f"hadoop-defaults-{version('pyspark')}-{_MADE_OF}.jar")


def settings() -> dict[str, str]:
    """Settings of Spark by which a JVM has it."""
    jars = os.pathsep.join(str(jar) for jar in (DEFAULTS, local_files.JAR) if jar.is_file())
    of_class_path = dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), jars)
    return {**of_class_path, **local_files.SETTINGS}


def make() -> None:
    """Write the defaults that are kept into `DEFAULTS`.

    Raises:
        OSError: it could not be done.
    """
    if DEFAULTS.is_file():
        return
    new = DEFAULTS.with_suffix(".new")
    with zipfile.ZipFile(new, "w") as jar:
        for name, beginnings in PRUNED.items():
            jar.writestr(name, without(beginnings, defaults(name)))
    new.rename(DEFAULTS)


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
