"""Documents as the bytes that are stored, and back. Threads of a driver may do both at the same time."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

from rekindle.errors import StorageError
from rekindle.storage.layout import FORMAT_VERSION

Document = TypeVar("Document")

_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}
_MAKING = threading.Lock()


def encode(document: object) -> bytes:
    """Return a document as the bytes that are stored: indented JSON, so that a person can read it too."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode(data: bytes, kind: type[Document], path: str) -> Document:
    """Read a document; ``OBJECT_CORRUPT`` or ``FORMAT_NEWER`` (with `path`) where it is not one."""
    try:
        version = _decoder(_Versioned).decode(data).format
        if version > FORMAT_VERSION:
            raise StorageError("FORMAT_NEWER", path=path, found=version, supported=FORMAT_VERSION)
        return _decoder(kind).decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error


def _decoder(kind: type[Document]) -> msgspec.json.Decoder[Document]:
    """Make one decoder at a time: while msgspec inspects a class, another thread that meets it crashes Python."""
    with _MAKING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        return _DECODERS[kind]


class _Versioned(msgspec.Struct):
    format: int
