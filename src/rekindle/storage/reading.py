"""An object that is read here and there, a request for each piece; and a file read a piece at a time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

_AHEAD_BYTES = 1 << 20


def read_in_pieces(size_bytes: int, piece: Callable[[int, int], bytes]) -> BinaryIO:
    """Return an object of so many bytes as a file; ``piece(start, end)`` returns bytes from `start` to before `end`."""
    return cast("BinaryIO", io.BufferedReader(_Pieces(size_bytes, piece), _AHEAD_BYTES))


def pieces_of(file: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield a file from its beginning, so many bytes at a time."""
    file.seek(0)
    while piece := file.read(size_bytes):
        yield piece


class _Pieces(io.RawIOBase):
    def __init__(self, size_bytes: int, piece: Callable[[int, int], bytes]) -> None:
        self._size_bytes = size_bytes
        self._piece = piece
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size_bytes)
        if self._at >= end:
            return 0
        data = self._piece(self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
