"""The import of what is optional, with an error of ours where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rekindle.errors import DefinitionError


@contextmanager
def needing_pyspark() -> Iterator[None]:
    """Let the imports inside need PySpark.

    Raises:
        DefinitionError: ``PYSPARK_MISSING``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in ("pyspark", "py4j"):
            raise DefinitionError("PYSPARK_MISSING") from error
        raise
