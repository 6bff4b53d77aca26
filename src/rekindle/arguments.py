"""The arguments of a task's function: an input that it takes several times, or one that is read in two parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_repeats(function: Callable[..., DataFrame], read: Sequence[str]) -> Callable[..., DataFrame]:
    """Wrap a function that takes some inputs several times, so that it is called with each input once."""

    @wraps(function)
    def spread(*frames: DataFrame) -> DataFrame:
        from rekindle.spark.plans.plan import another

        given, left = dict(zip(dict.fromkeys(read), frames, strict=True)), set(read)
        arguments = []
        for uid in read:
            arguments.append(given[uid] if uid in left else another(given[uid]))
            left.discard(uid)
        return function(*arguments)

    return spread


def with_parts(function: Callable[..., DataFrame], parts: Sequence[int]) -> Callable[..., DataFrame]:
    """Wrap a function that takes whole sources, so that it is called with the parts of each source.

    Args:
        parts: for each argument of the function the number of its parts.
    """

    @wraps(function)
    def joined(*frames: DataFrame) -> DataFrame:
        given = iter(frames)
        return function(*(_joined([*islice(given, count)]) for count in parts))

    return joined


def _joined(parts: Sequence[DataFrame]) -> DataFrame:
    columns = [{field.name: field.dataType.simpleString() for field in part.schema} for part in parts]
    if columns[0] != columns[-1]:
        raise ValueError(f"the history has the columns {columns[0]}, and what continues it has {columns[-1]}")
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
