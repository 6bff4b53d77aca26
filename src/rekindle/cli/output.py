"""Print JSON, errors, times, and tables that fit the terminal.

Plain text made by hand, so that a read-only verb need not load a library for it. Colour only on a terminal, and not
where ``NO_COLOR`` is set.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TextIO

import click

from rekindle.cli import next_steps

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MS = 253_402_300_799_999
_NARROWEST, _USUAL, _ENDLESS = 40, 80, 100_000
"""Columns: the fewest that are used, those of a terminal that does not say, and more than a line has."""
_COLOURS = {
    "RUNNING": "green",
    "FINISHED": "green",
    "DRAINED": "green",
    "STOPPED": "cyan",
    "STOPPING": "yellow",
    "CREATED": "yellow",
    "CANCELED": "yellow",
    "FAILED": "red",
    "LOST": "red",
    "SILENT": "red",
    "UNREADABLE": "red",
}


_COMMANDS = re.compile(
    "\x1b\\[(?:[0-2]|3[0-7]|9[0-7])m|[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]",
)
"""Colours as we make them; or one letter that moves the cursor, begins a command, or turns the direction of a line."""


class UnwrittenError(OSError):
    """The error that stdout takes nothing, for example because its disk is full."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line, without colour where none is wanted; what would command the terminal is shown as text.

    Raises:
        UnwrittenError: stdout refuses it.
    """
    try:
        click.echo(harmless(text), err=err, color=False if "NO_COLOR" in os.environ else None)
    except OSError as error:
        if err or error.errno == errno.EPIPE:  # no one reads it any more
            raise
        raise UnwrittenError(*error.args) from error


def check_read() -> None:
    """Find out whether stdout is read, before there is anything to write: ``| head`` reads a few lines and ends.

    Raises:
        BrokenPipeError: no one reads it any more.
    """
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # it is no file
        return
    looked = select.poll()
    looked.register(number, 0)
    if any(event & select.POLLERR for _, event in looked.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def harmless(text: str) -> str:
    """Return a text without what a terminal obeys, except its lines and our colours: errors quote what data hold."""
    return _COMMANDS.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    letter = found[0]
    if len(letter) > 1:
        return letter
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"


def as_json(value: Any) -> None:
    """Print `value` as the verb's one JSON document."""
    say(json.dumps(value, indent=2))


def error(document: dict[str, Any], in_json: bool) -> None:
    """Print an error (`RekindleError.to_json`): two lines on stderr, or an object on stdout."""
    document = {**document, "next_step": next_steps.next_step(document["next_step"])}
    if in_json:
        as_json({"error": document})
    else:
        say(f"{click.style('[' + document['code'] + ']', fg='red')} {document['message']}", err=True)
        say(f"next: {document['next_step']}", err=True)


def state(name: str) -> str:
    """Return a job's state in its colour."""
    return click.style(name, fg=_COLOURS.get(name))


def iso(time_ms: int | None) -> str | None:
    """Return milliseconds since the epoch as ISO-8601 UTC, e.g. ``2025-01-01T00:00:00.000Z``.

    What lies beyond the year 9999, where event time ends, is shown as its last millisecond.
    """
    if time_ms is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=min(time_ms, _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short_time(time_ms: int | None) -> str:
    """Return the same for people: to the second, a dash for none."""
    text = iso(time_ms)
    return f"{text[:19]}Z" if text else "-"


def duration(span_ms: int | None) -> str:
    """Return ``950 ms``, ``12.3 s``, ``4 min 5 s``, ``3 h 2 min``, ``5 d 4 h``; a dash for none."""
    if span_ms is None:
        return "-"
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 60_000:
        return f"{span_ms / 1_000:.1f} s"
    seconds = span_ms // 1_000
    for size, unit, lesser, lesser_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // lesser} {lesser_unit}"
    raise AssertionError(span_ms)


def size(size_bytes: int) -> str:
    """Return ``512 B``, ``1.5 KiB``, ``2.0 GiB``."""
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1_024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1_024
    return f"{amount:.1f} TiB"


def several(count: int, one: str, many: str = "") -> str:
    """Return ``1 row``, ``1,234 rows``; `many` where it is not the word with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def bar(encoding: str) -> tuple[str, str]:
    """Return the characters of a progress bar, done and not done, that `encoding` can write."""
    return ("━", "╌") if encoding.lower().startswith("utf") else ("#", ".")


def width(stream: TextIO | None = None) -> int:
    """Return the columns of the terminal, at least 40; endless where there is none, so that no program gets less.

    Args:
        stream: where lines are written; None: stdout.
    """
    if (set_by_user := os.environ.get("COLUMNS", "")).isdecimal() and int(set_by_user) > 0:
        return max(_NARROWEST, int(set_by_user))
    try:
        columns = os.get_terminal_size((stream or sys.stdout).fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal; a stream that is closed, or is none
        return _ENDLESS
    return max(_NARROWEST, columns or _USUAL)


def cut(text: str, columns: int) -> str:
    """Return `text` in at most `columns` characters, with an ellipsis where it was longer."""
    return text if len(text) <= columns else text[: max(columns - 3, 0)] + "..."


def table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int, kept: int = 1) -> list[str]:
    """Format rows as aligned lines of at most `columns` characters; the last columns are left out if they do not fit.

    Put what matters most first.

    Args:
        kept: so many of the first columns are never left out: the last of them is cut.
    """
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    shown = len(header)
    while shown > kept and sum(widths[:shown]) + 2 * (shown - 1) > columns:
        shown -= 1
    lines = []
    for row in (header, *rows):
        cells = [cell.ljust(widths[index]) for index, cell in enumerate(row[:shown])]
        lines.append(cut("  ".join(cells).rstrip(), columns))
    return lines


def whole_table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """Format rows with every column: where they are wider than `columns`, a line for each value.

    Args:
        columns: None for as many as it takes.
    """
    if not rows:
        return []
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    taken = sum(widths) + 2 * (len(widths) - 1)
    if columns is None or taken <= columns:
        return table(header, rows, taken)
    pad = max(map(len, header))
    return [
        line
        for number, row in enumerate(rows, 1)
        for line in (f"row {number}", *(f"  {name:<{pad}}  {value}" for name, value in zip(header, row, strict=True)))
    ]


def wrapped(text: str, columns: int, indent: str) -> list[str]:
    """Wrap a sentence into lines of at most `columns` characters, with `indent` before all except the first."""
    return click.wrap_text(text, columns, subsequent_indent=indent).splitlines()
