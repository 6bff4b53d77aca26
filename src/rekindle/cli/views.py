"""What the storage's documents look like to a user: the JSON of the verbs, and plain lines that fit a terminal.

Pure functions of documents; nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rekindle.cli import output
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.control import Answer
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import CheckpointStats, Failure, InputStatus, Status, TaskStatusDocument

Json = dict[str, Any]

AT_WORK = ("RUNNING", "STOPPING")
_BAR = 16


# --- a job ------------------------------------------------------------------------------------------------------------


def list_json(status: Status, age_ms: int | None = None, *, silent: bool = False) -> Json:
    """One element of ``list --json``."""
    return {
        "job": status.job,
        "state": status.state,
        "run": status.run or None,
        "checkpoint": status.latest_checkpoint,
        "last_heard_of": output.iso(status.written_ms or None),
        "heartbeat_age_ms": age_ms,
        "silent": silent,
    }


def status_json(
    status: Status, result: Result | None = None, age_ms: int | None = None, *, silent: bool = False
) -> Json:
    """``status --json``.

    Args:
        result: how the run ended, if it has.
        age_ms: of the last heartbeat, for a job that runs.
        silent: its driver runs, or may run, and has not given a sign of life for too long.
    """
    return {
        "job": status.job,
        "state": status.state,
        "run": status.run or None,
        "mode": status.mode,
        "host": status.host,
        "pid": status.pid,
        "last_heard_of": output.iso(status.written_ms or None),
        "heartbeat_age_ms": age_ms,
        "silent": silent,
        "began_at": output.iso(status.started_ms),
        "ended_at": output.iso(result.ended_ms) if result else None,
        "rows_in": status.rows_in,
        "rows_out": status.rows_out,
        "rows_uncommitted": status.rows_uncommitted,
        "batches": status.batches,
        "restarts_total": status.restarts_total,
        "version": status.version or None,
        "error": result.error if result else None,
        "notes": list(result.notes) if result else [],
        "savepoint": result.savepoint if result else None,
        **_failures_json(status, status.state),
        "tasks": [
            {
                "uid": task.uid,
                "subtask": task.subtask,
                "status": task.status,
                "batch": task.batch,
                "batch_duration_ms": task.batch_duration_ms,
                "rows_per_second": task.rows_per_second,
                "watermark": output.iso(task.watermark),
                "lag_ms": task.lag_ms,
                "rows_in": task.rows_in,
                "rows_out": task.rows_out,
                "batches": task.batches,
                "busy": task.busy,
                "back_pressured": task.back_pressured,
                "idle": task.idle,
                "state_rows": task.state_rows,
                "state_bytes": task.state_bytes,
                **_failures_json(task, status.state),
                "inputs": {
                    uid: {
                        "ended": item.ended,
                        "idle": item.idle,
                        "position": item.position,
                        "share": item.share,
                        "rows_per_second": item.rows_per_second,
                    }
                    for uid, item in task.inputs.items()
                },
            }
            for task in status.tasks
        ],
        "checkpoints": {
            "completed": status.checkpoints_completed,
            "failed": status.checkpoints_failed,
            "latest": status.latest_checkpoint,
            "latest_at": output.iso(status.latest_checkpoint_ms),
        },
    }


def _failures_json(failed: Status | TaskStatusDocument, state: str) -> Json:
    """The last failure of a job, or of a task of it; what is over has no next attempt."""
    last = failed.failure
    return {
        "failure": None
        if last is None
        else {
            "code": last.code,
            "message": last.message,
            "next_step": last.next_step,
            "at": output.iso(last.failed_ms),
        },
        "restarts": failed.restarts,
        "next_attempt_at": output.iso(failed.next_attempt_ms) if state in AT_WORK else None,
    }


def status_lines(
    status: Status, now_ms: int, columns: int, fill: str = "#", rest: str = ".", *, stale: bool = False
) -> list[str]:
    """A job in a few lines of at most `columns` characters; also the live display of ``run``.

    hourly_bids  RUNNING  run 2
    last checkpoint 7, 12.0 s ago, took 1.2 s (1 failed)
    rows 1,234,567 read, 12,345/s; 9,000 out, 8,000 committed
    state 1.2 MiB, 10,000 rows; lag 12.0 s
    hourly  restarting  batch 41 in 4.8 s
      restarts 3, next attempt in 8.0 s
      failed 2.0 s ago: [TASK_FAILED] Task 'hourly/0' failed: ValueError: no such customer
      next: Fix the cause. ...
      watermark 2025-01-01T10:00:00Z
      history  ##########......   63 %     12,345 rows/s
      live     unbounded                     800 rows/s

    Args:
        stale: the rates are not those of now: leave them out.
    """
    batch_mode = status.mode == "batch"
    mode = "  in batch mode" if batch_mode else ""
    lines = [f"{status.job}  {status.state}  run {status.run}{mode}", checkpoint_age(status, now_ms)]
    lines += [text for text in (_rows(status, stale=stale), _state(status)) if text]
    if status.failure not in [task.failure for task in status.tasks]:  # else it is shown with the task
        lines += _failed_lines(status, status.state, now_ms, columns, "")
    pad = max((len(uid) for task in status.tasks for uid in task.inputs), default=0)
    for task in status.tasks:
        took = f" in {output.duration(task.batch_duration_ms)}" if task.batch_duration_ms is not None else ""
        lines.append(f"{task.uid}  {task.status}  {batch(task.batch)}{took}")
        lines += _failed_lines(task, status.state, now_ms, columns, "  ")
        if not batch_mode:
            lines.append(f"  watermark {output.short_time(task.watermark)}")
        for uid, item in task.inputs.items():
            speed = rate(item.rows_per_second) if status.state in AT_WORK and not stale else ""
            lines.append(f"  {uid:<{pad}}  {_bar(item, fill, rest):<{_BAR + 7}}{speed:>18}")
    return [output.cut(line.rstrip(), columns) for line in lines]


def _failed_lines(
    failed: Status | TaskStatusDocument, state: str, now_ms: int, columns: int, indent: str
) -> Iterator[str]:
    """How often it was started again, when that is next, and what went wrong last with what to do."""
    if failed.restarts or failed.next_attempt_ms:
        yield f"{indent}restarts {failed.restarts}{next_attempt(failed, state, now_ms)}"
    if failed.failure is not None:
        for text in (_failure(failed.failure, now_ms), f"next: {failed.failure.next_step}"):
            yield from (f"{indent}{line}" for line in output.wrapped(text, columns - len(indent), "  "))


def _failure(failure: Failure, now_ms: int) -> str:
    age = output.duration(max(now_ms - failure.failed_ms, 0))
    return f"failed {age} ago: [{failure.code}] {failure.message}"


def next_attempt(failed: Status | TaskStatusDocument, state: str, now_ms: int) -> str:
    """``, next attempt in 8.0 s``; empty where nothing waits."""
    if failed.next_attempt_ms is None or state not in AT_WORK:
        return ""
    return f", next attempt in {output.duration(max(failed.next_attempt_ms - now_ms, 0))}"


def batch(number: int) -> str:
    """``batch 41``, ``no batch yet``."""
    return f"batch {number}" if number >= 0 else "no batch yet"


def checkpoint_age(status: Status, now_ms: int) -> str:
    """``last checkpoint 7, 12.0 s ago, took 1.2 s (1 failed)``."""
    if status.latest_checkpoint is None:
        text = "no checkpoint yet"
    else:
        text = f"last checkpoint {status.latest_checkpoint}"
        if status.latest_checkpoint_ms is not None:
            text += f", {output.duration(max(now_ms - status.latest_checkpoint_ms, 0))} ago"
        took_ms = next((row.duration_ms for row in status.history if row.id == status.latest_checkpoint), None)
        text += "" if took_ms is None else f", took {output.duration(took_ms)}"
    return text + (f" ({status.checkpoints_failed} failed)" if status.checkpoints_failed else "")


def _rows(status: Status, *, stale: bool) -> str:
    """``rows 1,234,567 read, 12,345/s; 9,000 out, 8,000 committed``; empty where none were counted."""
    parts = []
    if status.rows_in is not None:
        speed = rows_per_second(status) if status.state in AT_WORK and not stale else None
        parts.append(f"{status.rows_in:,} read" + (f", {speed:,.0f}/s" if speed is not None else ""))
    if status.rows_out is not None:
        parts.append(f"{status.rows_out:,} out, {status.rows_out - (status.rows_uncommitted or 0):,} committed")
    return f"rows {'; '.join(parts)}" if parts else ""


def rows_per_second(status: Status) -> float | None:
    """Rows that a job reads of its sources, a second, as Spark's last reports have it; None where none tells."""
    tasks = {task.uid for task in status.tasks}
    found = [
        item.rows_per_second
        for task in status.tasks
        for uid, item in task.inputs.items()
        if uid not in tasks and item.rows_per_second is not None
    ]
    return sum(found) if found else None


def _state(status: Status) -> str:
    """``state 1.2 MiB, 10,000 rows; lag 12.0 s``; empty where nothing of it is known."""
    sizes = [task.state_bytes for task in status.tasks if task.state_bytes is not None]
    rows = [task.state_rows for task in status.tasks if task.state_rows is not None]
    parts = [f"state {output.size(sum(sizes))}, {sum(rows):,} rows"] if sizes else []
    lags = [task.lag_ms for task in status.tasks if task.lag_ms is not None]
    return "; ".join([*parts, *([f"lag {output.duration(max(lags))}"] if lags else [])])


def _bar(item: InputStatus, fill: str, rest: str) -> str:
    if item.ended or item.share is None:
        return share(item)
    done = int(min(max(item.share, 0.0), 1.0) * _BAR)
    return f"{fill * done}{rest * (_BAR - done)}  {share(item):>5}"


def share(item: InputStatus) -> str:
    """How much of an input has been read: ``ended``, ``63 %``, ``unbounded``, ``idle``."""
    if item.ended:
        return "ended"
    if item.idle:
        return "idle"
    # Rounded down: 100 % is said only when all of it has been read.
    return "unbounded" if item.share is None else f"{int(item.share * 100)} %"


def rate(rows_per_second: float | None) -> str:
    """``12,345 rows/s``; empty where it is not known."""
    return "" if rows_per_second is None else f"{rows_per_second:,.0f} rows/s"


def answer_json(job: str, answer: Answer | Result) -> Json:
    """``checkpoint --json``, ``savepoint --json``, ``stop --json`` and ``cancel --json``."""
    return {"job": job, "state": answer.state, "checkpoint": answer.checkpoint, "savepoint": answer.savepoint}


def answer_lines(job: str, answer: Answer | Result) -> list[str]:
    """The same as text."""
    lines = [f"{job}  {output.state(answer.state)}"]
    if answer.checkpoint is not None:
        lines.append(f"  checkpoint  {answer.checkpoint}")
    if answer.savepoint is not None:
        lines.append(f"  savepoint   {answer.savepoint}")
    return lines


# --- its checkpoints --------------------------------------------------------------------------------------------------


def checkpoints(
    manifests: Iterable[Manifest], status: Status | None, alive: bool, paths: Mapping[int, str]
) -> list[CheckpointStats]:
    """All checkpoints that are known, newest first.

    `manifests` says which ones completed and are still there; `status` tells of those in progress, failed and since
    deleted. `paths` gives the folder of each that is there; the others have none.
    """
    rows = {row.id: row for row in status.history} if status else {}
    for manifest in manifests:
        rows[manifest.checkpoint] = _completed(manifest, rows.get(manifest.checkpoint))
    return [_as_it_is(rows[number], alive, paths.get(number)) for number in sorted(rows, reverse=True)]


def _as_it_is(row: CheckpointStats, alive: bool, path: str | None) -> CheckpointStats:
    if row.kind == "savepoint" and row.path is not None:
        path = row.path
    if row.status == "in_progress" and not alive:
        return replace(row, status="failed", failure="JOB_ENDED: the job ended", path=path)
    return replace(row, path=path)


def _completed(manifest: Manifest, told: CheckpointStats | None) -> CheckpointStats:
    subtasks = sum(len(snapshots) for snapshots in manifest.tasks.values())
    return CheckpointStats(
        id=manifest.checkpoint,
        kind=manifest.kind,
        status="completed",
        triggered_at=manifest.triggered_ms,
        duration_ms=manifest.completed_ms - manifest.triggered_ms,
        acknowledged=told.acknowledged if told else (subtasks, subtasks),
        in_flight_bytes=manifest.in_flight_bytes,
        size_bytes=told.size_bytes if told else manifest.size_bytes,
        path=told.path if told else None,
    )


def checkpoint_json(row: CheckpointStats) -> Json:
    """One element of ``checkpoints --json``."""
    return {
        "id": row.id,
        "kind": row.kind,
        "status": row.status,
        "triggered_at": output.iso(row.triggered_at),
        "duration_ms": row.duration_ms,
        "acknowledged": list(row.acknowledged),
        "in_flight_bytes": row.in_flight_bytes,
        "size_bytes": row.size_bytes,
        "path": row.path,
        "failure": row.failure,
    }


def checkpoint_lines(rows: list[CheckpointStats], columns: int) -> list[str]:
    """``checkpoints`` as a table, with the reasons of failed ones below it."""
    cells = [
        (
            str(row.id),
            row.kind,
            row.status.replace("_", " "),
            output.short_time(row.triggered_at),
            output.duration(row.duration_ms),
            "/".join(map(str, row.acknowledged)),
            # A checkpoint shares its state with the job: only a savepoint has a size of its own.
            output.size(size) if (size := row.size_bytes + row.in_flight_bytes) else "-",
        )
        for row in rows
    ]
    lines = output.table(("id", "kind", "status", "triggered", "took", "acks", "size"), cells, columns)
    for row in rows:
        if row.failure:
            lines += output.wrapped(f"{row.id} failed: {row.failure}", columns, "  ")
    return lines
