"""`Batch`: a bounded source that is any batch DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Batch:
    """A bounded source: the rows of a batch DataFrame, whatever it reads (JDBC, a version of a table, a Kafka range).

    Its rows are written to the job's storage once, when the job first starts, and read from there.

    Args:
        read: makes the DataFrame, e.g. ``lambda spark: spark.read.jdbc(...)``. Called once.

    Raises:
        DefinitionError: ``SOURCE_FUNCTION_INVALID``.
    """

    kind: ClassVar[str] = "Batch"
    bounded: ClassVar[bool] = True

    read: Callable[[SparkSession], DataFrame]

    def __post_init__(self) -> None:
        check_function(self.kind, self.read)


def check_function(kind: str, read: Any) -> None:
    """Raise ``SOURCE_FUNCTION_INVALID`` for what makes no DataFrame, such as a DataFrame."""
    if not callable(read):
        raise DefinitionError("SOURCE_FUNCTION_INVALID", kind=f"rk.{kind}", found=type(read).__name__)
