"""Starting Spark's JVM without the lines that it prints each time, whatever is run.

Three things talk: Log4j, as long as nobody has configured it; Spark, about that; and Java, about a module that Spark's
own launcher asks for. The first two are quiet under a configuration of ours (`log4j2.properties`); the last line is cut
out of the JVM's stderr, which passes through here. Everything else comes through.

A JVM that runs already, and a user who has configured Log4j, are left alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"
_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options that Spark's launcher puts before those of the settings, which so win."""
_USERS = (_OPTIONS, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS", "LOG4J_CONFIGURATION_FILE")


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM that sessions of this process will use, with `settings`; nothing where there is one."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ or os.name != "posix":
        return
    conf = SparkConf(loadDefaults=False, _jvm=None).setAll(list(settings.items()))
    launched: list[subprocess.Popen[bytes]] = []
    reader, writer = os.pipe()
    threading.Thread(target=_pass_on, args=(os.fdopen(reader, "rb"),), name="jvm-stderr", daemon=True).start()
    try:
        with _quiet_log4j(settings):
            gateway = launch_gateway(conf, {"stderr": writer})
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
