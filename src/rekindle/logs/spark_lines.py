"""Spark's own log, read while it is written: what the JVM logs into a file of this machine becomes lines of our log."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from rekindle.logs.lines import LineMaker, LogLine

READ_BYTES = 256 << 10

_LEVELS = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"}
_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([A-Z]+) ([^\s:]+): (.*)")
"""The pattern of `session/log4j2.properties`."""


class SparkLog(NamedTuple):
    """The file that this process's JVM logs to."""

    path: str
    #: bytes that were in it before
    begins: int = 0


class SparkLines:
    """The new lines of Spark's log.

    Args:
        place: where it is; None while there is no JVM, or its log is not ours to read.
        read_bytes: read at a time; of more that has come meanwhile the beginning is left out: the file has it.
    """

    def __init__(self, place: Callable[[], SparkLog | None], maker: LineMaker, read_bytes: int = READ_BYTES) -> None:
        self._place = place
        self._read_bytes = read_bytes
        self._maker = maker
        self._file: BinaryIO | None = None
        self._rest = b""
        #: the last line, whose trace may still be written
        self._open: tuple[int, str, str, str] | None = None
        self._trace: list[str] = []

    def new(self, *, all_of_it: bool = False) -> Iterator[LogLine]:
        """Yield the lines that have come since the last time.

        Args:
            all_of_it: the last one too, whose trace may not be there yet.
        """
        data = b""
        with suppress(OSError):
            data = self._read()
        *texts, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._read_bytes:
            texts, self._rest = [*texts, self._rest], b""
        for text in texts:
            yield from self._take(text.decode("utf-8", "replace"))
        if all_of_it or not data:
            yield from self._close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bytes:
        place = self._place()
        if place is None:
            return b""
        if self._file is None:
            self._file = self._opened(place.path)
            self._file.seek(min(place.begins, os.fstat(self._file.fileno()).st_size))
        data = self._newest()
        if not data and self._is_another(place.path):  # it was rotated, or a new JVM has begun one
            following = self._opened(place.path)
            self._file.close()
            self._file = following
            data = self._newest()
        return data

    def _newest(self) -> bytes:
        assert self._file is not None
        at, end = self._file.tell(), os.fstat(self._file.fileno()).st_size
        if end < at:
            self._file.seek(0)
        elif end - at > self._read_bytes:
            self._file.seek(end - self._read_bytes)
            self._file.readline()
        return self._file.read(self._read_bytes)

    def _opened(self, path: str) -> BinaryIO:
        if not os.path.isfile(path):
            raise FileNotFoundError(path)
        return open(path, "rb")  # it stays open, to be read to its end after it was renamed

    def _is_another(self, path: str) -> bool:
        assert self._file is not None
        return not os.path.samestat(os.stat(path), os.fstat(self._file.fileno()))

    def _take(self, text: str) -> Iterator[LogLine]:
        match = _LINE.fullmatch(text.rstrip("\r"))
        if match is None:
            if self._open is not None and len(self._trace) < 2_000:
                self._trace.append(text)
            return
        yield from self._close()
        when, level, logger, message = match.groups()
        self._open = (_local_ms(when), _LEVELS.get(level, level), f"spark.{logger}", message)

    def _close(self) -> Iterator[LogLine]:
        if self._open is not None:
            yield self._maker.line(*self._open, trace="\n".join(self._trace))
        self._open, self._trace = None, []


def _local_ms(text: str) -> int:
    """Return a time of this machine, as the JVM writes it, in ms since the epoch; now where it cannot be read."""
    try:
        return int(time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S"))) * 1000
    except (ValueError, OverflowError):
        return time.time_ns() // 1_000_000
