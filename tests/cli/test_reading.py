"""list, status, checkpoints and inspect: what they print, and what they do without."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rekindle.cli import output, views
from rekindle.cli.progress import LogLines
from rekindle.cli.verbs import rekindle
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Committed
from rekindle.storage.documents.status import CheckpointStats, Failure, InputStatus, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from tests.cli.kit import GONE, JANUARY_MS, Command, ManualClock, beat, complete, end, start


def test_status_in_json_has_exactly_the_promised_shape(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)

    assert command.json("status", "bids") == {
        "job": "bids",
        "state": "RUNNING",
        "run": 1,
        "mode": "streaming",
        "host": this_process().host,
        "pid": this_process().pid,
        "last_heard_of": "2025-01-01T00:00:00.000Z",
        "heartbeat_age_ms": 1_200,
        "silent": False,
        "began_at": "2025-01-01T00:00:00.000Z",
        "ended_at": None,
        "uptime_ms": 1_200,
        "watermark": "2025-01-01T00:00:00.000Z",
        "lag_ms": None,
        "busy": None,
        "back_pressured": None,
        "rows_in": None,
        "rows_out": None,
        "rows_in_per_second": 13_145.6,
        "rows_out_per_second": None,
        "rows_uncommitted": None,
        "batches": 0,
        "state_rows": None,
        "state_bytes": None,
        "subtasks": {"running": 1},
        "restarts_total": 0,
        "version": None,
        "error": None,
        "notes": [],
        "savepoint": None,
        "failure": None,
        "restarts": 0,
        "next_attempt_at": None,
        "tasks": [
            {
                "uid": "hourly",
                "subtask": 0,
                "status": "running",
                "batch": 41,
                "batch_duration_ms": 4_800,
                "rows_per_second": None,
                "rows_out_per_second": None,
                "batches_per_second": None,
                "watermark": "2025-01-01T00:00:00.000Z",
                "lag_ms": None,
                "rows_in": None,
                "rows_out": None,
                "batches": 0,
                "busy": None,
                "back_pressured": None,
                "idle": None,
                "state_rows": None,
                "state_bytes": None,
                "unread_bytes": {},
                "failure": None,
                "restarts": 0,
                "next_attempt_at": None,
                "inputs": {
                    "history": {
                        "ended": False,
                        "idle": False,
                        "position": {"files": 3},
                        "share": 0.63,
                        "rows_per_second": 12_345.6,
                    },
                    "live": {
                        "ended": False,
                        "idle": False,
                        "position": {"0": 7},
                        "share": None,
                        "rows_per_second": 800.0,
                    },
                },
            }
        ],
        "checkpoints": {
            "completed": 7,
            "failed": 1,
            "latest": 7,
            "latest_at": "2025-01-01T00:01:00.000Z",
            "latest_confirmed_at": None,
            "latest_age_ms": 0,
            "latest_duration_ms": None,
            "latest_state_bytes": None,
        },
        "checkpoint_summary": {
            "count": 0,
            "duration_ms": None,
            "commit_ms": None,
            "state_bytes": None,
            "in_flight_bytes": None,
            "alignment_ms": None,
            "sync_ms": None,
        },
    }


def test_status_shows_what_lies_unread_in_the_channels_of_a_task(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    status = job.status()
    assert status is not None
    task = replace(status.tasks[0], busy=0.2, back_pressured=0.8, unread_bytes={"enrich": 1_300_000, "empty": 0})
    job.replace(layout.status("bids"), replace(status, tasks=(task,)))

    assert command.json("status", "bids")["tasks"][0]["unread_bytes"] == {"enrich": 1_300_000, "empty": 0}
    shown = replace(status, tasks=(task,))
    held = "hourly  running  batch 41 in 4.8 s, busy 20 %, back-pressured 80 %, 1.2 MiB unread by enrich"
    assert held in views.status_lines(shown, JANUARY_MS, 120)
    assert "hourly  running  batch 41 in 4.8 s" in views.status_lines(shown, JANUARY_MS, 120, stale=True)


def test_status_shows_a_task_whose_sources_do_not_answer_once_that_takes_long(job: JobStorage) -> None:
    start(job)
    beat(job)
    status = job.status()
    assert status is not None
    waits = "hourly  running  batch 41 in 4.8 s, has waited for its sources to answer for 2 min 5 s"
    for so_far_ms, is_shown in ((None, False), (9_000, False), (125_000, True)):
        task = replace(status.tasks[0], look_so_far_ms=so_far_ms)
        assert (waits in views.status_lines(replace(status, tasks=(task,)), JANUARY_MS, 120)) is is_shown


@pytest.mark.parametrize("columns", [60, 80])
def test_status_as_text_fits_the_terminal(columns: int, command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    status = job.status()
    assert status is not None

    lines = views.status_lines(status, JANUARY_MS + 72_000, columns)

    assert lines == [
        "bids  RUNNING  run 1",
        "last checkpoint 7, 12.0 s ago (1 failed)",
        "hourly  running  batch 41 in 4.8 s",
        "  watermark 2025-01-01T00:00:00Z",
        "  history  ##########......   63 %     12,346 rows/s",
        "  live     unbounded                      800 rows/s",
    ]
    assert command("status", "bids").stdout.splitlines()[0] == f"{lines[0]}, for 1.2 s"


FAILURE = Failure(
    code="TASK_FAILED", message="Task 'hourly/0' failed: no such customer", next_step="Fix the cause.",
    failed_ms=JANUARY_MS,
)  # fmt: skip


def failing(job: JobStorage, state: str = "RUNNING") -> None:
    """A heartbeat while a task waits for its third restart."""
    last = {"failure": FAILURE, "restarts": 3, "next_attempt_ms": JANUARY_MS + 9_200}
    task = TaskStatusDocument(uid="hourly", subtask=0, status="restarting", batch=41, **last)  # type: ignore[arg-type]
    beat(job, state=state, tasks=(task,), **last)


def test_status_tells_the_last_failure_what_to_do_and_when_the_next_attempt_comes(
    command: Command, job: JobStorage
) -> None:
    start(job)
    failing(job)

    shown = command.json("status", "bids")
    for failed in (shown, shown["tasks"][0]):
        assert failed["failure"] == {
            "code": "TASK_FAILED",
            "message": "Task 'hourly/0' failed: no such customer",
            "next_step": "Fix the cause.",
            "at": "2025-01-01T00:00:00.000Z",
        }
        assert (failed["restarts"], failed["next_attempt_at"]) == (3, "2025-01-01T00:00:09.200Z")
    assert command("status", "bids").stdout.splitlines()[2:7] == [
        "hourly  restarting  batch 41",
        "  restarts 3, next attempt in 8.0 s",
        "  failed 1.2 s ago: [TASK_FAILED] Task 'hourly/0' failed: no such customer",
        "  next: Fix the cause.",
        "  watermark -",
    ]


def test_a_failure_of_no_task_is_shown_for_the_job_and_an_ended_job_has_no_next_attempt(
    command: Command, job: JobStorage
) -> None:
    start(job)
    beat(job, failure=FAILURE, restarts=1, next_attempt_ms=JANUARY_MS + 9_200)
    assert command("status", "bids").stdout.splitlines()[2:5] == [
        "restarts 1, next attempt in 8.0 s",
        "failed 1.2 s ago: [TASK_FAILED] Task 'hourly/0' failed: no such customer",
        "next: Fix the cause.",
    ]

    end(job, "STOPPED")

    assert command.json("status", "bids")["next_attempt_at"] is None
    assert command("status", "bids").stdout.splitlines()[2] == "restarts 1"


@pytest.mark.parametrize("lost", [True, False])
def test_the_tasks_of_a_job_without_a_driver_are_shown_as_past(command: Command, job: JobStorage, lost: bool) -> None:
    start(job, **(GONE if lost else {}))
    failing(job)
    status = job.status()
    assert status is not None and status.failure is not None
    tasks = (*status.tasks, TaskStatusDocument(uid="ended", subtask=0, status="closed", batch=3))
    beat(job, tasks=tasks, failure=status.failure, restarts=3, **(GONE if lost else {}))
    if not lost:
        message = "Task 'hourly/0' failed, and no attempt is left of 4; the last cause: no such customer"
        end(job, "FAILED", error={"code": "RESTARTS_EXHAUSTED", "message": message, "next_step": "Fix the cause."})

    text = command("status", "bids").stdout
    shown = command.json("status", "bids")

    assert "hourly  was restarting  batch 41\n" in text and "ended  closed  batch 3\n" in text
    assert text.count("no such customer") == text.count("next: Fix the cause.") == 1
    assert shown["subtasks"] == {"closed": 1}
    assert [task["status"] for task in shown["tasks"]] == ["restarting", "closed"], "as recorded, for programs"


def test_the_lines_of_a_run_without_a_terminal_tell_restarts_at_once(job: JobStorage) -> None:
    lines = LogLines()
    start(job)
    beat(job)
    status = job.status()
    assert status is not None and "restarts" not in (lines.next(status, JANUARY_MS) or "")
    failing(job)
    status = job.status()

    assert status is not None and "; restarts 3, next attempt in 9.1 s; " in (
        lines.next(status, JANUARY_MS + 100) or ""
    )


def test_the_line_of_the_checkpoint_is_wrapped_and_not_cut(job: JobStorage) -> None:
    start(job)
    beat(job, latest_checkpoint_confirmed_ms=JANUARY_MS + 90_000)
    status = job.status()
    assert status is not None

    lines = views.status_lines(status, JANUARY_MS + 104_800, 60)

    assert lines[1:3] == ["last checkpoint 7, 44.8 s ago, nothing to add until 14.8 s", "  ago (1 failed)"]


def test_no_line_of_status_is_longer_than_the_terminal_however_long_the_names(job: JobStorage) -> None:
    start(job)
    beat(job)
    status = job.status()
    assert status is not None
    long = Status(
        job="j" * 100, state="RUNNING", run=1, host="", pid=0, beat=1, written_ms=0,
        tasks=(TaskStatusDocument(uid="t" * 100, subtask=0, status="s", batch=1, inputs={"i" * 9: InputStatus()}),),
        failure=Failure(code="TASK_FAILED", message="m " * 50 + "m" * 100, next_step="n" * 100, failed_ms=0),
    )  # fmt: skip

    assert max(map(len, views.status_lines(long, 0, 60))) == 60


def test_a_job_whose_driver_was_killed_is_lost(command: Command, job: JobStorage) -> None:
    start(job, **GONE)
    beat(job, **GONE)

    assert command.json("status", "bids")["state"] == "LOST"
    text = command("status", "bids").stdout
    assert "bids  LOST  run 1" in text
    assert "rows/s" not in text  # a rate from when it lived


@pytest.mark.parametrize("state", ["STOPPED", "LOST"])
def test_a_heartbeat_that_cannot_be_read_is_said_to_be(command: Command, job: JobStorage, state: str) -> None:
    start(job, **GONE)
    beat(job, **GONE)
    if state == "STOPPED":
        end(job, state)
    job.store.replace(layout.status("bids"), b"garbage")

    text = command("status", "bids").stdout

    assert f"bids  {state}  run 1\nits heartbeat (status.json) cannot be read" in text
    assert "no checkpoint yet" not in text
    assert "status.json, cannot be read" in command.json("status", "bids")["notes"][0]


@pytest.mark.parametrize("process", [{}, {"host": "elsewhere"}])
def test_a_driver_that_is_there_and_does_not_beat_is_silent(
    process: dict[str, str], command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job, **process)
    beat(job, **process)
    assert command("status", "bids", "--check").exit_code == 0
    assert "SILENT" not in command("status", "bids").stdout
    assert "last heartbeat 1.2 s ago\n" in command("status", "bids").stdout
    clock.shows_ms = JANUARY_MS + 245_000

    told, row = command.json("status", "bids", "--check", code=1), command.json("list")[0]
    text = command("status", "bids").stdout

    for shown in (told, row):
        assert (shown["state"], shown["silent"], shown["heartbeat_age_ms"]) == ("RUNNING", True, 245_000)
    assert "last heartbeat 4 min 5 s ago\nSILENT: its driver, process " in text
    assert "rows/s" not in text
    advice = " ".join(text.partition("next: ")[2].split())
    assert advice.startswith("If the storage is full, free some room; if it is read-only, make it writable: the driver")
    assert "then continues by itself." in advice
    assert f"kill -CONT {os.getpid()}" in advice and f"kill -9 {os.getpid()}" in advice
    assert (
        command("list")
        .stdout.splitlines()[1]
        .startswith("SILENT  bids  1    7           3 min 5 s  -    4 min 5 s ago")
    )


def test_a_heartbeat_that_looks_old_and_moves_is_not_silent(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job)
    beat(job)
    clock.shows_ms = JANUARY_MS + 245_000  # a clock that differs, or a laptop that slept
    clock.pause = lambda seconds: beat(job, beat=2)

    assert command.json("status", "bids", "--check")["silent"] is False


def test_ages_are_by_the_clock_of_a_driver_that_is_ahead(command: Command, job: JobStorage, clock: ManualClock) -> None:
    start(job)
    beat(job, written_ms=JANUARY_MS + 3_000_000, latest_checkpoint_ms=JANUARY_MS + 300_000)
    clock.shows_ms = JANUARY_MS

    assert "last checkpoint 7, 45 min 0 s ago" in command("status", "bids").stdout


def test_a_run_before_its_first_heartbeat_and_one_that_has_ended_are_not_silent(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    clock.shows_ms = JANUARY_MS + 245_000
    start(job)
    beat(job)
    end(job, "STOPPED")
    ended = command.json("status", "bids", "--check")
    assert command("status", "bids", "--check", "--running").exit_code == 1
    assert command("status", "bids", "--running").exit_code == 2
    start(job)
    starting = command.json("status", "bids", "--check", "--running")

    assert (ended["silent"], ended["heartbeat_age_ms"]) == (False, None)
    assert starting["silent"] is False


def test_a_run_before_its_first_heartbeat_shows_the_tasks_as_the_one_before_left_them(
    command: Command, job: JobStorage
) -> None:
    start(job)
    beat(job, state="STOPPED")
    end(job, "STOPPED")
    start(job)

    shown = command.json("status", "bids")

    assert (shown["state"], shown["run"], shown["tasks"][0]["batch"]) == ("RUNNING", 2, 41)


def test_a_run_before_its_first_heartbeat_shows_nothing_of_the_run_before_but_what_outlives_it(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job, **GONE)
    failing(job, "RUNNING")
    status = job.status()
    assert status is not None
    beat(job, tasks=status.tasks, failure=FAILURE, restarts=3, restarts_total=5, rows_in=700, **GONE)
    clock.shows_ms = JANUARY_MS + 217_000
    start(job, started_ms=JANUARY_MS + 216_000)

    shown = command.json("status", "bids")
    text = command("status", "bids").stdout

    assert (shown["heartbeat_age_ms"], shown["last_heard_of"], shown["uptime_ms"]) == (None, None, 1_000)
    for failed in (shown, shown["tasks"][0]):
        assert (failed["failure"], failed["restarts"], failed["next_attempt_at"]) == (None, 0, None)
    assert (shown["error"], shown["tasks"][0]["status"], shown["subtasks"]) == (None, "starting", {"starting": 1})
    assert (shown["rows_in"], shown["restarts_total"], shown["checkpoints"]["latest"]) == (700, 5, 7)
    assert "bids  RUNNING  run 2, for 1.0 s" in text
    assert text.endswith("no heartbeat yet\n")
    assert "last heartbeat" not in text and "restarts" not in text and "failed " not in text.replace("1 failed", "")


def test_the_next_run_of_a_process_shows_its_failures_before_its_first_heartbeat_too(
    command: Command, job: JobStorage
) -> None:
    start(job)
    failing(job)
    start(job)

    shown = command.json("status", "bids")

    assert (shown["run"], shown["restarts"], shown["failure"]["code"]) == (2, 3, "TASK_FAILED")
    assert (shown["tasks"][0]["restarts"], shown["tasks"][0]["failure"]) == (0, None)


def test_a_job_that_stops_says_so_although_its_driver_lives(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job, state="STOPPING")

    assert command.json("status", "bids")["state"] == "STOPPING"


def test_the_status_of_a_failed_job_gives_the_reason_and_what_to_do(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    end(job, "FAILED", error={"code": "SPARK_DIED", "message": "Spark is gone.", "next_step": "Run again."})

    text = command("status", "bids").stdout

    assert "bids  FAILED  run 1" in text
    assert text.endswith("[SPARK_DIED] Spark is gone.\nnext: Run again.\n")


def test_an_unknown_job_is_an_error_with_a_way_out(command: Command) -> None:
    assert command.error("status", "nope") == "JOB_UNKNOWN"
    document = command.json("status", "nope", code=1)
    assert document["error"]["code"] == "JOB_UNKNOWN"
    assert document["error"]["parameters"]["job"] == "nope"


@pytest.mark.parametrize("verb", ["status", "logs", "events", "stop"])
def test_an_unknown_job_is_looked_for_in_a_storage_that_is_named_in_full(
    verb: str, command: Command, job: JobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(job)
    monkeypatch.chdir(Path(command.storage).parent)
    document = Command(Path(command.storage).name).json(verb, "nope", code=1)
    assert document["error"]["parameters"] == {"job": "nope", "storage": command.storage}


def test_reading_makes_no_storage_where_there_is_none(command: Command) -> None:
    assert command.error("list") == "STORAGE_MISSING"
    assert command.json("list", code=1)["error"]["parameters"] == {"uri": command.storage}
    assert not Path(command.storage).exists()


def test_a_file_is_no_storage(command: Command) -> None:
    Path(command.storage).write_text("")
    assert command.error("list") == "STORAGE_MISSING"


def test_a_storage_without_jobs_is_no_error(command: Command) -> None:
    Path(command.storage).mkdir()
    assert command.json("list") == []
    assert command("list").stdout == f"No jobs in {command.storage}.\n"


@pytest.mark.parametrize(
    ("state", "code"), [("FAILED", 1), ("LOST", 1), ("RUNNING", 0), ("FINISHED", 0), ("STOPPED", 0)]
)
def test_a_monitor_sees_by_the_exit_code_whether_a_job_is_dead(
    command: Command, job: JobStorage, state: str, code: int
) -> None:
    start(job, **(GONE if state == "LOST" else {}))
    beat(job, **(GONE if state == "LOST" else {}))
    if state not in ("LOST", "RUNNING"):
        end(job, state, error={"code": "QUERY_DIED", "message": "m", "parameters": {}, "next_step": "n"})

    told = command.json("status", "bids", "--check", code=code)
    assert told["state"] == state
    assert told["last_heard_of"] == "2025-01-01T00:00:00.000Z"
    assert (told["error"] is None) == (state in ("LOST", "RUNNING"))
    assert command("status", "bids", "--check").exit_code == code
    assert command("status", "bids").exit_code == 0


def test_list_names_each_job_with_its_state(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    other = JobStorage(job.store, "clicks")
    start(other)
    end(other, "DRAINED")

    bids, clicks = command.json("list")

    shown = command.json("status", "bids")
    assert bids["checkpoint"] == shown["checkpoints"]["latest"] == 7
    assert {name: value for name, value in bids.items() if name not in ("checkpoint", "error")} == {
        name: shown[name] for name in shown if name in bids and name != "error"
    }
    assert (clicks["job"], clicks["state"], clicks["run"], clicks["checkpoint"]) == ("clicks", "DRAINED", 1, None)
    assert (clicks["last_heard_of"], clicks["heartbeat_age_ms"], clicks["silent"]) == (None, None, False)
    lines = command("list", env={"COLUMNS": "132"}).stdout.splitlines()
    assert lines == [
        "state    job     run  checkpoint  its age  lag  last heard of  rows in/s  out/s  uptime  restarts",
        "RUNNING  bids    1    7           0 ms     -    1.2 s ago      13,146     -      1.2 s   0",
        "DRAINED  clicks  1    -           -        -    -              -          -      0 ms    0",
    ]
    assert (
        command("list", env={"COLUMNS": "60"}).stdout.splitlines()[0]
        == "state    job     run  checkpoint  its age  lag"
    )


def test_list_names_each_job_however_long_a_name_is(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    long = JobStorage(job.store, "b" * 98 + "_z")
    start(long)
    beat(long)

    narrow = command("list", env={"COLUMNS": "60"}).stdout.splitlines()

    assert [line.split()[1][:5] for line in narrow] == ["job", "bbbbb", "bids"]
    assert max(map(len, narrow)) == 60
    piped = command("list", env={"COLUMNS": ""}).stdout.splitlines()
    assert piped[1].split()[1] == long.job
    assert piped[0].split()[-1] == "restarts", "what reads a pipe gets every column"


def test_list_shows_why_a_job_has_failed_and_goes_on_past_one_that_cannot_be_read(
    command: Command, job: JobStorage
) -> None:
    start(job)
    failing(job)
    other = JobStorage(job.store, "clicks")
    start(other)
    other.store.replace(layout.identity("clicks"), b"{")

    lines = command("list", env={"COLUMNS": "60"}).stdout.splitlines()

    assert [line.split()[:2] for line in lines[1:3]] == [["RUNNING", "bids"], ["UNREADABLE", "clicks"]]
    assert max(map(len, lines)) <= 60
    reasons = " ".join(" ".join(lines[3:]).split())
    assert reasons.startswith("bids: [TASK_FAILED] Task 'hourly/0' failed: no such customer clicks: [OBJECT_CORRUPT] ")
    assert "..." not in reasons
    assert command.json("list")[0]["error"]["code"] == "TASK_FAILED"


def test_the_storage_comes_from_the_environment_where_it_is_not_given(command: Command, job: JobStorage) -> None:
    start(job)
    result = CliRunner().invoke(rekindle, ["list", "--json"], env={"REKINDLE_STORAGE": command.storage})

    assert '"job": "bids"' in result.stdout


def history(*rows: dict[str, Any]) -> tuple[CheckpointStats, ...]:
    return tuple(CheckpointStats(**row) for row in rows)


FAILED_ROW = {
    "id": 2,
    "kind": "manual",
    "status": "failed",
    "triggered_at": JANUARY_MS + 4_000,
    "failure": "TASK_FAILURE: a task failed",
}


def test_checkpoints_in_json_have_exactly_the_promised_shape_newest_first(command: Command, job: JobStorage) -> None:
    start(job)
    complete(job, 1)
    beat(
        job,
        history=history(
            {"id": 3, "kind": "final", "status": "in_progress", "triggered_at": JANUARY_MS + 5_000}, FAILED_ROW
        ),
    )

    third, second, first = command.json("checkpoints", "bids")

    subtask = first.pop("subtasks")
    assert [(one["uid"], one["subtask"], one["finished"]) for one in subtask] == [("hourly", 0, False)]
    assert first == {
        "id": 1,
        "run": 1,
        "kind": "periodic",
        "status": "completed",
        "triggered_at": "2025-01-01T00:00:01.000Z",
        "completed_at": "2025-01-01T00:00:01.250Z",
        "failed_at": None,
        "duration_ms": 250,
        "commit_ms": None,
        "sink_commit_ms": {},
        "acknowledged": [1, 1],
        "acknowledged_at": None,
        "unaligned": False,
        "state_bytes": None,
        "in_flight_bytes": 0,
        "size_bytes": 0,
        "path": f"{command.storage}/bids/checkpoints/000000001",
        "failure": None,
    }
    assert (second["id"], second["status"], second["failure"]) == (2, "failed", "TASK_FAILURE: a task failed")
    assert (third["id"], third["status"], third["path"]) == (3, "in_progress", None)


def test_a_checkpoint_in_progress_when_its_driver_died_has_failed(command: Command, job: JobStorage) -> None:
    start(job, **GONE)
    running = {"id": 1, "kind": "periodic", "status": "in_progress", "triggered_at": JANUARY_MS}
    beat(job, **GONE, history=history(running))

    assert command.json("checkpoints", "bids")[0]["status"] == "failed"


def test_a_manifest_proves_completion_whatever_the_last_heartbeat_said(command: Command, job: JobStorage) -> None:
    start(job, **GONE)
    running = {"id": 1, "kind": "periodic", "status": "in_progress", "triggered_at": JANUARY_MS}
    beat(job, **GONE, history=history(running))
    complete(job, 1)

    assert command.json("checkpoints", "bids")[0]["status"] == "completed"


def test_a_deleted_checkpoint_has_no_path_but_a_savepoint_keeps_its_own(command: Command, job: JobStorage) -> None:
    start(job)
    done = {"status": "completed", "triggered_at": JANUARY_MS}
    beat(
        job,
        history=history(
            {"id": 2, "kind": "savepoint", "path": "/backup/s", **done},
            {"id": 1, "kind": "periodic", "path": "/gone", **done},
        ),
    )

    assert [row["path"] for row in command.json("checkpoints", "bids")] == ["/backup/s", None]


def test_the_table_of_checkpoints_says_which_are_deleted_and_cannot_be_started_from(
    command: Command, job: JobStorage
) -> None:
    start(job)
    complete(job, 2)
    done = {"id": 1, "kind": "periodic", "status": "completed", "triggered_at": JANUARY_MS}
    beat(job, history=history({**done, "id": 2}, done))

    _, *lines = command("checkpoints", "bids").stdout.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["2", "periodic", "completed"], ["1", "periodic", "deleted"]]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "id  kind      status     triggered             took    acks  size  commit  state",
                "2   manual    failed     2025-01-01T00:00:04Z  -       0/0   -     -       -",
                "1   periodic  completed  2025-01-01T00:00:01Z  250 ms  1/1   -     -       -",
                "2 failed: TASK_FAILURE: a task failed",
            ],
        ),
        (
            60,
            [
                "id  kind      status     triggered             took    acks",
                "2   manual    failed     2025-01-01T00:00:04Z  -       0/0",
                "1   periodic  completed  2025-01-01T00:00:01Z  250 ms  1/1",
                "2 failed: TASK_FAILURE: a task failed",
            ],
        ),
    ],
)
def test_the_table_of_checkpoints_drops_columns_rather_than_wrap(
    columns: int, expected: list[str], command: Command, job: JobStorage
) -> None:
    start(job)
    beat(job, history=history(FAILED_ROW))
    complete(job, 1)

    assert command("checkpoints", "bids", env={"COLUMNS": str(columns)}).stdout.splitlines() == expected


def test_inspect_reads_a_folder_or_its_manifest_from_anywhere(
    command: Command, job: JobStorage, tmp_path: Path
) -> None:
    complete(job, 3, kind="stop")
    Path(command.storage, "bids/checkpoints/000000003").rename(tmp_path / "elsewhere")

    shown = command.json("inspect", str(tmp_path / "elsewhere"))

    assert shown == command.json("inspect", str(tmp_path / "elsewhere" / "manifest.json"))
    assert (shown["job"], shown["kind"], shown["checkpoint"]) == ("bids", "stop", 3)
    assert shown["tasks"][0]["inputs"] == {
        "history": {"ended": True, "position": {"files": 4, "bytes": 2048}},
        "live": {"ended": False, "position": {"0": 7}},
    }
    assert (shown["pending_transactions"], shown["committed"]) == ({"out": 1}, False)


def test_inspect_as_text_says_what_a_checkpoint_holds(command: Command, job: JobStorage) -> None:
    complete(job, 3, kind="stop", drained=True)

    assert command("inspect", "bids/checkpoints/000000003").stdout.splitlines() == [
        "checkpoint 3 of bids (drained)",
        f"  path   {command.storage}/bids/checkpoints/000000003",
        "  kind   stop",
        "  run    1, lineage 1",
        "  taken  2025-01-01T00:00:03Z in 250 ms",
        "  size   in flight 0 B",
        "task hourly/0  running  batch 40",
        "  watermark 2025-01-01T00:00:00Z",
        "  history  ended  4 files, 2.0 KiB",
        '  live  open  {"0":7}',
        "sink out  rows of 1 batch, not committed yet",
    ]

    job.create(layout.committed(layout.checkpoint("bids", 3)), Committed(checkpoint=3, run=1, committed_ms=1))
    assert (
        command("inspect", "bids/checkpoints/000000003").stdout.splitlines()[-1]
        == "sink out  rows of 1 batch, committed"
    )
    assert command.json("inspect", "bids/checkpoints/000000003")["committed"] is True


def test_inspect_distinguishes_nothing_damage_and_a_newer_version(command: Command, tmp_path: Path) -> None:
    assert command.error("inspect", str(tmp_path)) == "CHECKPOINT_UNKNOWN"
    (tmp_path / "manifest.json").write_text("{")
    assert command.error("inspect", str(tmp_path)) == "OBJECT_CORRUPT"
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    assert command.error("inspect", str(tmp_path)) == "FORMAT_NEWER"


def test_the_help_imports_no_verb() -> None:
    program = (
        "import sys\n"
        "from rekindle.cli.verbs import VERBS, rekindle\n"
        "try:\n    rekindle(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "verbs = {f'rekindle.cli.{home.partition(\":\")[0]}' for home, _ in VERBS.values()}\n"
        "sys.exit(','.join(sorted(verbs & set(sys.modules))) or 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (result.returncode, "List the jobs of a storage." in result.stdout) == (0, True), result.stderr


@pytest.mark.parametrize("verb", [["list"], ["status", "bids"], ["checkpoints", "bids"], ["status", "nope"]])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_read_only_verb_loads_nothing_heavy(
    verb: list[str], as_json: list[str], command: Command, job: JobStorage
) -> None:
    start(job)
    beat(job)
    complete(job, 1)
    program = (
        "import sys\n"
        "from rekindle.cli.verbs import rekindle\n"
        "try:\n    rekindle()\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'rich', 'fsspec', 'py4j', 'asyncio'}\n"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    arguments = [sys.executable, "-c", program, *verb, "--storage", command.storage, *as_json]
    result = subprocess.run(arguments, capture_output=True, text=True, env=dict(os.environ), check=False)

    assert (result.returncode, result.stdout != "" or verb[-1] == "nope") == (0, True), result.stderr


def test_no_colour_leaves_the_program_where_it_is_not_wanted(
    command: Command, job: JobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(job)
    beat(job)
    assert "\x1b[" not in command("list").stdout
    assert "\x1b[32m" in command("list", color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in command("list", color=True).stdout


def test_times_beyond_the_year_9999_are_its_last_millisecond() -> None:
    assert output.iso(253_402_300_800_000) == "9999-12-31T23:59:59.999Z"
    assert output.iso(-1) == "1969-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (None, "-"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_949, "59.9 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min 0 s"),
        (3_600_000, "1 h 0 min"),
        (100_000_000, "1 d 3 h"),
    ],
)
def test_durations_are_written_in_two_units_at_most(span_ms: int | None, text: str) -> None:
    assert output.duration(span_ms) == text


def test_rows_of_a_flush_are_shown_with_every_column_whatever_the_width() -> None:
    header, rows = ("window", "k", "count"), [("x" * 60, "a", "1"), ("y" * 60, "b", "22")]
    for columns in (None, 80):
        assert output.whole_table(header, rows, columns) == [
            f"{'window':<60}  k  count",
            f"{'x' * 60}  a  1",
            f"{'y' * 60}  b  22",
        ]
    assert output.whole_table(header, rows[:1], 60) == ["row 1", f"  window  {'x' * 60}", "  k       a", "  count   1"]
    assert output.whole_table(header, [], 60) == []
