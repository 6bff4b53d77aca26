"""The display of a job in a notebook: HTML made of its documents, and a display that is updated in its place.

Names and errors of a job may hold any text, so they are escaped; only `Html` is taken unchanged. This module reads
nothing, and uses IPython only if it has been loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from html import escape
from importlib import import_module
from typing import Any

from rekindle.storage.documents.status import InputStatus, Status, TaskStatusDocument, shown_status

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_END_MS = 253_402_214_400_000
"""The watermark, ms, from which event time counts as ended."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(value: object) -> str:
    """Return a value as HTML, escaped; a dash for None."""
    if isinstance(value, Html):
        return value
    return escape("-" if value is None else f"{value:,}" if isinstance(value, int) else str(value))


def titled(title: object, *parts: object) -> str:
    """Return a title, and lines below it."""
    return "<br>".join([f"<b>{html(title)}</b>", *map(html, parts)])


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return an HTML table."""
    head = "".join(f"<th>{html(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{html(value)}</td>' for value in row)}</tr>" for row in rows)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def of_status(status: Status) -> str:
    """Return the status of a job as HTML: its state, its last checkpoint, its tasks with bars for their progress."""
    failed = status.failure
    return titled(
        f"{status.job}: {status.state}",
        f"run {status.run}, checkpoint {status.latest_checkpoint or '-'}, restarts {status.restarts}",
        *([f"last failure: [{failed.code}] {failed.message}"] if failed is not None else []),
        table(
            ("task", "state", "batch", "rows in", "rows out", "watermark", "inputs"),
            [_task(one, status.state) for one in status.tasks],
        ),
    )


def _task(task: TaskStatusDocument, job_state: str) -> Sequence[object]:
    batch = task.batch if task.batch >= 0 else None
    inputs = Html("<br>".join(f"{html(uid)} {_read(item)}" for uid, item in task.inputs.items()))
    name = f"{task.uid}/{task.subtask}"
    return (name, shown_status(task, job_state), batch, task.rows_in, task.rows_out, _time(task.watermark), inputs)


def _read(item: InputStatus) -> str:
    if item.ended or item.idle:
        return "ended" if item.ended else "idle"
    if item.share is None:
        return "unbounded"
    return f'<progress max="1" value="{item.share:.4f}"></progress> {int(100 * item.share)} %'


def _time(time_ms: int | None) -> str | None:
    if time_ms is None or time_ms >= _END_MS:
        return None if time_ms is None else "ended"
    return (_EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")


def of_result(result: Mapping[str, Any]) -> str:
    """Return the result of a job as HTML, from the data of `JobResult.to_json`."""
    word, error = "already " if result["already_ended"] else "", result["error"]
    lines = [f"run {result['run']}, checkpoint {result['checkpoint'] or '-'}"]
    lines += [f"savepoint {result['savepoint']}"] if result["savepoint"] else []
    lines += result["notes"]
    lines += [f"[{error['code']}] {error['message']}", f"next: {error.get('next_step', '-')}"] if error else []
    return titled(f"{result['job']}: {word}{result['state']}", *lines)


def is_here() -> bool:
    """Return True if this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def display() -> Callable[[str], None]:
    """Return a function that draws HTML below the cell, each time in the same place."""
    ipython: Any = import_module("IPython.display")
    place: Any = None

    def draw(content: str) -> None:
        nonlocal place
        if place is None:
            place = ipython.display(ipython.HTML(content), display_id=True)
        else:
            place.update(ipython.HTML(content))

    return draw
