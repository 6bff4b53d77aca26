"""The storage's documents as plain lines that fit a terminal.

Pure functions of documents; nothing is read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rekindle.cli import output
from rekindle.cli.next_steps import next_step
from rekindle.monitoring import figures
from rekindle.monitoring.monitor import UNREADABLE
from rekindle.monitoring.views import JobOverview
from rekindle.storage.documents.control import Answer
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import AT_WORK, Failure, InputStatus, Status, TaskStatusDocument, shown_status

Json = dict[str, Any]

_FAILED = ("FAILED", UNREADABLE)
_BAR = 16
_LONG_LOOK_MS = 10_000


# --- a job ------------------------------------------------------------------------------------------------------------


def list_lines(lines: Sequence[JobOverview], columns: int) -> list[str]:
    """Return ``list`` as a table, with the errors of what has failed, or waits to be started again, below it.

    The name, whose width is unknown, comes after what must be seen.
    """
    cells = [
        (
            line.state,
            line.job,
            "-" if line.run is None else str(line.run),
            "-" if line.latest_checkpoint is None else str(line.latest_checkpoint),
            output.duration(line.checkpoint_age_ms) if line.ended_ms is None else "-",
            output.duration(line.lag_ms),
            output.short_time(line.heartbeat_ms) if (age := line.heartbeat_age_ms) is None else ago(age),
            _speed(line.rows_in_per_second),
            _speed(line.rows_out_per_second),
            output.duration(line.uptime_ms),
            str(line.restarts_total),
        )
        for line in lines
    ]
    header = (
        "state", "job", "run", "checkpoint", "its age", "lag", "last heard of", "rows in/s", "out/s", "uptime",
        "restarts",
    )  # fmt: skip
    shown = output.table(header, cells, columns, kept=2)
    for line in lines:
        if line.error is not None and (line.state in _FAILED or line.next_attempt_ms is not None):
            first = line.error.message.partition("\n")[0]
            shown += output.wrapped(f"{line.job}: [{line.error.code}] {first}", columns, "  ")
    return shown


def _speed(rows: float | None) -> str:
    return "-" if rows is None else f"{rows:,.0f}"


def ago(age_ms: int) -> str:
    """Return ``12.0 s ago``."""
    return f"{output.duration(age_ms)} ago"


def status_lines(
    status: Status,
    now_ms: int,
    columns: int,
    fill: str = "#",
    rest: str = ".",
    *,
    stale: bool = False,
    unreadable: bool = False,
) -> list[str]:
    """Return a job in a few lines of at most `columns` characters; also the live display of ``run``.

    hourly_bids  RUNNING  run 2, for 3 h 2 min
    last checkpoint 7, 12.0 s ago, took 1.2 s (1 failed)
    rows 1,234,567 read, 12,345/s; 9,000 out, 8,000 committed
    state 1.2 MiB, 10,000 rows; lag 12.0 s
    hourly  restarting  batch 41 in 4.8 s, busy 80 %, back-pressured 10 %
      restarts 3, next attempt in 8.0 s
      failed 2.0 s ago: [TASK_FAILED] Task 'hourly/0' failed: ValueError: no such customer
      next: Fix the cause. ...
      watermark 2025-01-01T10:00:00Z
      history  ##########......   63 %     12,345 rows/s
      live     unbounded                     800 rows/s

    Args:
        stale: the rates are not those of now: leave them out.
        unreadable: the heartbeat cannot be read: say so, and nothing that it would tell.
    """
    batch_mode = status.mode == "batch"
    mode = "  in batch mode" if batch_mode else ""
    at_work = status.state in AT_WORK and not stale
    since = f", for {output.duration(max(now_ms - status.started_ms, 0))}" if at_work and status.started_ms else ""
    lines = [f"{status.job}  {status.state}  run {status.run}{since}{mode}"]
    lines += output.wrapped(checkpoint_age(status, now_ms) if not unreadable else _unreadable(status), columns, "  ")
    for text in (rows(status, stale=stale), state_and_lag(status, stale=stale)):
        lines += output.wrapped(text, columns, "  ")
    if status.failure not in [task.failure for task in status.tasks]:  # else it is shown with the task
        lines += _failed_lines(status, status, now_ms, columns, "")
    several = Counter(task.uid for task in status.tasks)
    pad = max((len(uid) for task in status.tasks for uid in task.inputs), default=0)
    for task in status.tasks:
        took = f" in {output.duration(task.batch_duration_ms)}" if task.batch_duration_ms is not None else ""
        name = f"{task.uid}/{task.subtask}" if several[task.uid] > 1 else task.uid
        text = f"{name}  {shown_status(task, status.state)}  {batch(task.batch)}{took}"
        now = _load(task) + _unread(task) + _look(task) if at_work else ""
        lines += output.wrapped(f"{text}{now}", columns, "  ")
        lines += _failed_lines(task, status, now_ms, columns, "  ")
        if not batch_mode:
            lines.append(f"  watermark {output.short_time(task.watermark)}")
        for uid, item in task.inputs.items():
            speed = rate(item.rows_per_second) if at_work else ""
            lines.append(f"  {uid:<{pad}}  {_bar(item, fill, rest):<{_BAR + 7}}{speed:>18}")
    return [output.cut(line.rstrip(), columns) for line in lines]


def _unreadable(status: Status) -> str:
    return f"its heartbeat (status.json) cannot be read; for its checkpoints: rekindle checkpoints {status.job}"


def _load(task: TaskStatusDocument) -> str:
    """Return ``, busy 80 %, back-pressured 10 %``; empty where it is not known."""
    shares = {"busy": task.busy, "back-pressured": task.back_pressured}
    return "".join(f", {name} {round(value * 100)} %" for name, value in shares.items() if value)


def _unread(task: TaskStatusDocument) -> str:
    """Return ``, 1.2 MiB unread by hourly``; empty where nothing lies in its channels."""
    return "".join(f", {output.size(size)} unread by {uid}" for uid, size in task.unread_bytes.items() if size)


def _look(task: TaskStatusDocument) -> str:
    """Return ``, has waited for its sources to answer for 2 min 0 s``; empty where they do."""
    if (task.look_so_far_ms or 0) < _LONG_LOOK_MS:
        return ""
    return f", has waited for its sources to answer for {output.duration(task.look_so_far_ms)}"


def _failed_lines(
    failed: Status | TaskStatusDocument, job: Status, now_ms: int, columns: int, indent: str
) -> Iterator[str]:
    """Yield how often it was started again, when that is next, and what went wrong last with what to do.

    What the error of an ended job repeats is left out: that is shown with the job.
    """
    if failed.restarts or failed.next_attempt_ms:
        yield f"{indent}restarts {failed.restarts}{next_attempt(failed, job.state, now_ms)}"
    if failed.failure is not None and not _repeats(job.error, failed.failure):
        for text in (_failure(failed.failure, now_ms), f"next: {next_step(failed.failure.next_step)}"):
            yield from (f"{indent}{line}" for line in output.wrapped(text, columns - len(indent), "  "))


def _repeats(error: Json | None, failure: Failure) -> bool:
    """Return True if an error gives the reason of a failure, which follows the subject: ``Task 'a/0' failed: why``."""
    return error is not None and (failure.message.partition(": ")[2] or failure.message) in error.get("message", "")


def _failure(failure: Failure, now_ms: int) -> str:
    age = output.duration(max(now_ms - failure.failed_ms, 0))
    return f"failed {age} ago: [{failure.code}] {failure.message}"


def next_attempt(failed: Status | TaskStatusDocument, state: str, now_ms: int) -> str:
    """Return ``, next attempt in 8.0 s``; empty where nothing waits."""
    if failed.next_attempt_ms is None or state not in AT_WORK:
        return ""
    return f", next attempt in {output.duration(max(failed.next_attempt_ms - now_ms, 0))}"


def batch(number: int) -> str:
    """Return ``batch 41`` or ``no batch yet``."""
    return f"batch {number}" if number >= 0 else "no batch yet"


def checkpoint_age(status: Status, now_ms: int) -> str:
    """Return ``last checkpoint 7, 12.0 s ago, took 1.2 s (1 failed)``."""
    if status.latest_checkpoint is None:
        text = "no checkpoint yet"
    else:
        text = f"last checkpoint {status.latest_checkpoint}"
        if status.latest_checkpoint_ms is not None:
            text += f", {output.duration(max(now_ms - status.latest_checkpoint_ms, 0))} ago"
        if status.latest_checkpoint_confirmed_ms is not None:
            since_ms = max(now_ms - status.latest_checkpoint_confirmed_ms, 0)
            text += f", nothing to add until {output.duration(since_ms)} ago"
        took_ms = next((row.duration_ms for row in status.history if row.id == status.latest_checkpoint), None)
        text += "" if took_ms is None else f", took {output.duration(took_ms)}"
    return text + (f" ({status.checkpoints_failed} failed)" if status.checkpoints_failed else "")


def rows(status: Status, *, stale: bool = False) -> str:
    """Return ``rows 1,234,567 read, 12,345/s; 9,000 out, 8,000 committed``; empty where none were counted."""
    parts = []
    if status.rows_in is not None:
        speed = rows_per_second(status) if status.state in AT_WORK and not stale else None
        parts.append(f"{status.rows_in:,} read" + (f", {speed:,.0f}/s" if speed is not None else ""))
    if status.rows_out is not None:
        parts.append(f"{status.rows_out:,} out, {status.rows_out - (status.rows_uncommitted or 0):,} committed")
    return f"rows {'; '.join(parts)}" if parts else ""


def rows_per_second(status: Status) -> float | None:
    """Return the rows a second that a job reads of its sources, by Spark's last reports; None where none tells."""
    return figures.of_sources(status.tasks)


def state_and_lag(status: Status, *, stale: bool = False) -> str:
    """Return ``state 1.2 MiB, 10,000 rows; lag 12.0 s``, without what is not known or not counted."""
    with_state = [task for task in status.tasks if task.state_bytes is not None]
    sizes = [task.state_bytes or 0 for task in with_state]
    rows = [task.state_rows for task in with_state if task.state_rows is not None]
    counted = f", {sum(rows):,} rows" if len(rows) == len(with_state) else ""
    parts = [f"state {output.size(sum(sizes))}{counted}"] if sizes else []
    at_work = status.state in AT_WORK and not stale
    lags = [task.lag_ms for task in status.tasks if task.lag_ms is not None and at_work]
    return "; ".join([*parts, *([f"lag {output.duration(max(lags))}"] if lags else [])])


def _bar(item: InputStatus, fill: str, rest: str) -> str:
    if item.ended or item.share is None:
        return share(item)
    done = int(min(max(item.share, 0.0), 1.0) * _BAR)
    return f"{fill * done}{rest * (_BAR - done)}  {share(item):>5}"


def share(item: InputStatus) -> str:
    """Return how much of an input has been read: ``ended``, ``63 %``, ``unbounded``, ``idle``."""
    if item.ended:
        return "ended"
    if item.idle:
        return "idle"
    # Rounded down: 100 % is said only when all of it has been read.
    return "unbounded" if item.share is None else f"{int(item.share * 100)} %"


def rate(rows_per_second: float | None) -> str:
    """Return ``12,345 rows/s``; empty where it is not known."""
    return "" if rows_per_second is None else f"{rows_per_second:,.0f} rows/s"


def answer_lines(job: str, answer: Answer | Result) -> list[str]:
    """Return the answer to a request as text: the state of the job, its checkpoint and its savepoint."""
    lines = [f"{job}  {output.state(answer.state)}"]
    if answer.checkpoint is not None:
        lines.append(f"  checkpoint  {answer.checkpoint}")
    if answer.savepoint is not None:
        lines.append(f"  savepoint   {answer.savepoint}")
    return lines
