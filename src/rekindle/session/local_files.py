"""Let Spark write files in a local folder without a process for each (docs/decisions/0071).

For a file that it writes in a local folder, Hadoop starts ``chmod`` four times, because the file has a checksum file
beside it, and ``readlink`` before it renames one. A batch writes ten files or more, with a stateful query several for
each partition, so that processes take most of the time of a small batch. `LocalFiles` makes the calls that these make,
and does everything else as Hadoop does. It is the only Java in Rekindle: its source is in `java/`, and
``python tools/local_files.py`` compiles it.

A JVM that Rekindle starts for a local master has it. Executors of a cluster would need the class too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

JAR = Path(__file__).with_name("java") / "local-files.jar"
SETTINGS = {
    "spark.hadoop.fs.file.impl": "rekindle.LocalFiles$OfFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "rekindle.LocalFiles$OfFileContext",
}
"""The settings of Hadoop's two interfaces."""
HADOOPS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}
"""The same settings as Hadoop has them, for a JVM that is to do without `LocalFiles`."""
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
"""Environment variable with what Spark's launcher appends to the class path, whatever the settings say of it."""


def settings(master: str, jar: Path = JAR) -> Mapping[str, str]:
    """Return the settings with which a new JVM uses `LocalFiles`; empty where it would not serve.

    Args:
        master: as in ``spark.master``.
    """
    in_this_jvm = master == "local" or master.startswith("local[")
    # In a zip of the package there is no file that Java could read.
    return SETTINGS if in_this_jvm and os.name == "posix" and jar.is_file() else {}


def class_path(settings: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variable by which a new JVM finds the classes that its settings name, if they do."""
    if SETTINGS.items().isdisjoint(settings.items()):
        return {}
    return {_CLASS_PATH: os.pathsep.join(filter(None, [environ.get(_CLASS_PATH), str(JAR)]))}
