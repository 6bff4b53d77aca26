"""The schema that a state store keeps of its rows, ``_metadata/schema``, when its state goes to another plan.

Spark refuses state with a column that could not be null if the plan says that it may be. A plain query's column may be
known not to be null, by a filter that Spark inferred for a join; beside marker rows it infers none. How a
row is laid out does not depend on it, so the column may as well be declared nullable.

The file is written by Java's `DataOutputStream`: the version, then the key's and the value's schema as JSON, each as a
number of chunks and the chunks; a string is preceded by its length in two bytes.
"""

from __future__ import annotations

import io
import re
import struct
from typing import BinaryIO

_FILE = re.compile(r"(?:.*/)?state/\d+/\d+/(?:[^/]+/)?_metadata/schema")
_CHUNK = 20_000
_NOT_NULL = re.compile(rb'"(nullable|containsNull|valueContainsNull)":false')


def is_state_schema(path: str) -> bool:
    """Whether a file of a progress directory is such a schema."""
    return _FILE.fullmatch(path) is not None


def all_nullable(schema: bytes) -> bytes:
    """The file with every column nullable; as it is where it is of another version than 2."""
    file = io.BytesIO(schema)
    version = _string(file)
    if version != b"v2":
        return schema
    made = [_written(version)]
    for _ in ("key", "value"):
        count = file.read(4)
        chunks = [_string(file) for _ in range(*struct.unpack(">i", count))]
        made += [count, *(_written(_NOT_NULL.sub(rb'"\1":true', chunk)) for chunk in chunks)]
    return b"".join(made)


def with_value(schema: bytes, value: str) -> bytes:
    """Return the file with another schema of the value, as JSON in ASCII.

    Raises:
        ValueError: it is of another version than 2.
    """
    file = io.BytesIO(schema)
    if (version := _string(file)) != b"v2":
        raise ValueError(f"the schema of the state is of version {version.decode(errors='replace')}")
    (chunks,) = struct.unpack(">i", file.read(4))
    for _ in range(chunks):
        _string(file)
    text = value.encode("ascii")
    parts = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    return schema[: file.tell()] + struct.pack(">i", len(parts)) + b"".join(map(_written, parts))


def _string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack(">H", file.read(2))
    return file.read(length)


def _written(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
