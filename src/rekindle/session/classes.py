"""Classes of Spark's JVM."""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its whole name, which is one question to the JVM.

    ``jvm.org.apache.spark.util.Utils`` is five: for ``org``, and for each package below it, the JVM first looks in all
    its jars for a class of that name.
    """
    return getattr(jvm, name)
