"""The messages of a batch as they are staged: Parquet files with a column for each part of a message, and for its size.

Spark computes the size with the message, so the largest one of a file is in the statistics of its footer, which is read
anyway. Files of earlier versions have no sizes. This module must not know Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from rekindle.sinks.footers import columns_of
from rekindle.sinks.kafka.messages import KEY, VALUE, MessageForm
from rekindle.storage.port import Store

SIZE = "s"
"""Column of staged messages: the bytes that librdkafka counts, or a few more where there are headers."""

Message = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
"""A message: key, value, and names and values of headers."""

_FRAME = 36
"""Bytes that librdkafka adds to key, value and headers before it compares them with its limit."""

_FRAME_OF_HEADER = 10
"""Bytes that it adds to name and value of a header, at most: it takes fewer where these are short."""


def size_column(form: MessageForm) -> str:
    """Return an expression for the size of a staged message, in terms of its other columns."""
    parts = [f"coalesce(octet_length({part}), 0L)" for part in (KEY, VALUE)]
    for name, header in form.header_columns():
        parts.append(f"coalesce(octet_length({header}) + {len(name.encode()) + _FRAME_OF_HEADER}L, 0L)")
    return f"{' + '.join(parts)} + {_FRAME}L AS {SIZE}"


def largest_in(footer: Any) -> int:
    """Return the size of the largest message in a file; 0 where its footer does not say."""
    return max(
        (column.bounds[1] for column in columns_of(footer) if column.path == (SIZE,) and column.bounds), default=0
    )


def read_messages(store: Store, paths: Sequence[str], headers: Sequence[str]) -> Iterator[Message]:
    """Yield the messages of some files.

    Args:
        headers: their names, in the order of the columns.
    """
    for path in paths:
        for columns in _columns(store, path):
            keys, values, *others = columns.values()
            yield from zip(keys, values, _named(headers, others), strict=False)


def read_large(store: Store, paths: Sequence[str], above: int) -> Iterator[bytes]:
    """Yield the bytes of each message with a size above this one, its parts one after the other."""
    for path in paths:
        for columns in _columns(store, path, SIZE):
            sizes = columns.pop(SIZE)
            for size, *parts in zip(sizes, *columns.values(), strict=True):
                if size > above:
                    yield b"".join(part for part in parts if part)


def _columns(store: Store, path: str, *more: str) -> Iterator[dict[str, list[Any]]]:
    """Yield column → values of some rows at a time, without the sizes unless they are asked for."""
    import pyarrow.parquet as pq  # only drivers need it; the command line starts without

    with store.open(path) as file:
        staged = pq.ParquetFile(file)
        wanted = [name for name in staged.schema_arrow.names if name != SIZE or name in more]
        for batch in staged.iter_batches(batch_size=10_000, columns=wanted):
            yield {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _named(headers: Sequence[str], columns: Sequence[Sequence[bytes | None]]) -> Iterator[list[tuple[str, bytes]]]:
    """Return the headers of each message; without end if messages have none."""
    if not headers:
        return repeat([])
    rows = zip(*columns, strict=True)
    return ([(name, each) for name, each in zip(headers, row, strict=True) if each is not None] for row in rows)
