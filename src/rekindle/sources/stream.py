"""`Stream`: an unbounded source that is any streaming DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rekindle.sources.batch import check_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Stream:
    """An unbounded source: a streaming DataFrame of any Spark source, which keeps its own offsets.

    Args:
        read: makes the DataFrame, e.g. ``lambda spark: spark.readStream.format("kafka").options(...).load()``. Called
            at each start, and must then make the same one. It sets no watermark: ``job.source(..., watermark=)`` does.

    Raises:
        DefinitionError: ``SOURCE_FUNCTION_INVALID``.
    """

    kind: ClassVar[str] = "Stream"
    bounded: ClassVar[bool] = False

    read: Callable[[SparkSession], DataFrame]

    def __post_init__(self) -> None:
        check_function(self.kind, self.read)
