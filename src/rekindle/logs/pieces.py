"""The log in the storage: pieces of JSON lines, ``<run>-<k>.jsonl``, of which only the newest of a run is replaced.

An object store has no append, and a driver that was thought dead may still write: each run writes pieces of its own, so
it disturbs no other. The oldest are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rekindle.logs.lines import LogLine
from rekindle.storage import layout
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.port import NotFound

_PIECE = re.compile(r"(\d+)-(\d+)\.jsonl")
_DECODER = msgspec.json.Decoder(LogLine)


class Piece(NamedTuple):
    """The name of a piece; pieces are in the order of their names."""

    run: int
    number: int


class LogPosition(NamedTuple):
    """The place up to which a reader has read."""

    piece: Piece = Piece(0, 0)
    lines: int = 0


def pieces(storage: JobDocuments) -> list[Piece]:
    """Return the pieces that there are, the oldest first."""
    names = storage.store.names(layout.logs(storage.job))
    return sorted(Piece(*map(int, match.groups())) for name in names if (match := _PIECE.fullmatch(name)))


def write(storage: JobDocuments, piece: Piece, lines: Sequence[bytes]) -> None:
    """Write a piece."""
    storage.store.replace(layout.log_piece(storage.job, *piece), b"".join(lines))


def make_room(storage: JobDocuments, kept: int) -> None:
    """Delete the oldest pieces, so that one more is not too many: `kept` at most."""
    paths = [layout.log_piece(storage.job, *piece) for piece in pieces(storage)[: 1 - kept]]
    if paths:
        storage.store.delete_many(paths)


def newest_run(storage: JobDocuments) -> int | None:
    """Return the newest run that has logged anything that is still there."""
    found = pieces(storage)
    return found[-1].run if found else None


def read(storage: JobDocuments, after: LogPosition, run: int | None = None) -> Iterator[tuple[LogPosition, LogLine]]:
    """Yield the lines that come after a place, each with its own; what is no line of ours is left out.

    Args:
        run: those of this run only.
    """
    for piece in pieces(storage):
        if piece >= after.piece and run in (None, piece.run):
            read_before = after.lines if piece == after.piece else 0
            for number, line in enumerate(_lines(storage, piece), 1):
                if number > read_before and line is not None:
                    yield LogPosition(piece, number), line


def tail(storage: JobDocuments, run: int | None, count: int) -> list[LogLine]:
    """Return the last lines of a run, of the newest one unless it is named; only the pieces that have them are read."""
    wanted = newest_run(storage) if run is None else run
    found: list[LogLine] = []
    for piece in reversed(pieces(storage)):
        if piece.run == wanted and len(found) < count:
            found = [*(line for line in _lines(storage, piece) if line is not None), *found]
    return found[max(len(found) - count, 0) :]


def _lines(storage: JobDocuments, piece: Piece) -> Iterator[LogLine | None]:
    try:
        data = storage.store.read(layout.log_piece(storage.job, *piece))
    except NotFound:  # deleted meanwhile
        return
    yield from map(_line, data.splitlines())


def _line(text: bytes) -> LogLine | None:
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
