"""The schema of the rows of a state store, ``_metadata/schema``, when its state is used by another plan.

Spark refuses state with a column that is not nullable if it is nullable in the plan. A column of a plain query may be
not nullable because of a filter that Spark has inferred for a join; with watermark rows in the input it infers none.
The layout of a row does not depend on it, so the column can be declared nullable.

The file is written by Java's `DataOutputStream`: the version, then the key's and the value's schema as JSON, each as a
number of chunks and the chunks; a string is preceded by its length in two bytes.
"""

from __future__ import annotations

import io
import json
import re
import struct
from typing import BinaryIO

_FILE = re.compile(r"(?:.*/)?state/\d+/\d+/(?:[^/]+/)?_metadata/schema")
_CHUNK = 20_000
"""Letters of a chunk, each of which takes up to three bytes."""

_NOT_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')


def is_state_schema(path: str) -> bool:
    """Return whether a file of a progress directory is such a schema."""
    return _FILE.fullmatch(path) is not None


def all_nullable(schema: bytes) -> bytes:
    """Return the file with every column nullable; unchanged if its version is not 2."""
    file = io.BytesIO(schema)
    version = _string(file)
    if version != b"v2":
        return schema
    schemas = [_text(file) for _ in ("key", "value")]
    return _written(version) + b"".join(_chunked(_NOT_NULL.sub(r'"\1":true', text)) for text in schemas)


def with_value(schema: bytes, value: str) -> bytes:
    """Return the file with another schema of the value, as JSON in ASCII.

    Raises:
        ValueError: its version is not 2.
    """
    file = io.BytesIO(schema)
    if (version := _string(file)) != b"v2":
        raise ValueError(f"the schema of the state is of version {version.decode(errors='replace')}")
    _skip(file)
    return schema[: file.tell()] + _chunked(value)


def with_value_of(schema: bytes, family: str, value: str) -> bytes:
    """Return the schemas of a transformWithState with another one of the values of a column family, as JSON in ASCII.

    The file has for each family its name, the schemas of key and value, each with a number, the key's encoder, and the
    schema of a map's own key.

    Raises:
        ValueError: its version is not 3, it has no such family, or is made in another way.
    """
    file = io.BytesIO(schema)
    if (version := _string(file)) != b"v3":
        raise ValueError(f"the schemas of the state are of version {version.decode(errors='replace')}")
    places = dict[bytes, tuple[int, int]]()
    try:
        (families,) = struct.unpack(">i", file.read(4))
        for _ in range(families):
            name = _string(file)
            file.read(2)
            _skip(file)
            file.read(2)
            start = file.tell()
            _skip(file)
            places[name] = start, file.tell()
            _skip(file)
            _skip(file)
        start, end = places[family.encode()]
        json.loads(_text(io.BytesIO(schema[start:end])))
    except (LookupError, ValueError, struct.error) as error:
        raise ValueError(f"the schemas of the state are made in another way: {error!r}") from error
    if file.read():
        raise ValueError("the schemas of the state are made in another way: there is more")
    return schema[:start] + _chunked(value) + schema[end:]


def _chunked(text: str) -> bytes:
    parts = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    # Java writes a letter beyond 16 bits as two, each of which is none to Python.
    return struct.pack(">i", len(parts)) + b"".join(_written(part.encode(errors="surrogatepass")) for part in parts)


def _text(file: BinaryIO) -> str:
    chunks = [_string(file) for _ in range(*struct.unpack(">i", file.read(4)))]
    return "".join(chunk.decode(errors="surrogatepass") for chunk in chunks)


def _skip(file: BinaryIO) -> None:
    for _ in range(*struct.unpack(">i", file.read(4))):
        _string(file)


def _string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack(">H", file.read(2))
    return file.read(length)


def _written(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
