"""runs, events, and the limits of ``status --check``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.storage import layout
from rekindle.storage.documents.history import EventError, EventSegment, HistoryEvent
from rekindle.storage.documents.runs import Identity
from rekindle.storage.documents.status import TaskStatusDocument
from rekindle.storage.forgetting import forget_job
from rekindle.storage.job_storage import JobStorage
from tests.cli.kit import GONE, JANUARY_MS, Command, ManualClock, beat, end, start

FAILED = EventError(code="TASK_FAILED", message="no such customer", next_step="Fix the cause.", trace="line 1\nline 2")


def write(job: JobStorage, run: int, first: int, *events: HistoryEvent) -> None:
    job.replace(layout.history_segment(job.job, "events", run, 1, first), EventSegment(first=first, rows=events))


def test_runs_lists_each_run_with_how_it_ended_the_newest_first(command: Command, job: JobStorage) -> None:
    start(job, **GONE)
    start(job)
    end(job, "FAILED", run=2, error={"code": "TASK_FAILED", "message": "x", "parameters": {}, "next_step": "y"})
    start(job)
    shown = command.json("runs", "bids")
    assert [(run["run"], run["state"]) for run in shown] == [(3, "RUNNING"), (2, "FAILED"), (1, "LOST")]
    assert shown[1]["error"]["code"] == "TASK_FAILED"
    text = command("runs", "bids").output.splitlines()
    assert [line.split()[:2] for line in text[1:]] == [["3", "RUNNING"], ["2", "FAILED"], ["1", "LOST"]]


def test_events_shows_what_happened_with_errors_and_on_request_their_traces(command: Command, job: JobStorage) -> None:
    start(job)
    assert command("events", "bids").output == "bids has no events yet.\n"
    assert command("events", "bids", "--run", "1").output == "bids has no events of run 1.\n"
    assert command.error("events", "bids", "--run", "9") == "RUN_UNKNOWN"
    assert command.json("events", "bids") == []
    write(
        job,
        1,
        0,
        HistoryEvent(time_ms=JANUARY_MS, run=1, kind="run_started", message="run 1", by="process 7 on here"),
        HistoryEvent(
            time_ms=JANUARY_MS, run=1, kind="task_failed", severity="error", message=FAILED.message, error=FAILED
        ),
    )
    write(job, 2, 2, HistoryEvent(time_ms=JANUARY_MS, run=2, kind="run_started", message="run 2"))
    lines = command("events", "bids").output.splitlines()
    assert lines[0] == "2025-01-01T00:00:00Z  run 1  run_started  run 1, by process 7 on here"
    assert lines[1:3] == [
        "2025-01-01T00:00:00Z  run 1  task_failed  [TASK_FAILED] no such customer",
        "  next: Fix the cause.",
    ]
    assert len(lines) == 4
    assert "  | line 2" in command("events", "bids", "--traces", "--run", "1").output
    shown = command.json("events", "bids", "--run", "2")
    assert [(event["number"], event["run"], event["at"]) for event in shown] == [(2, 2, "2025-01-01T00:00:00.000Z")]


def test_events_that_are_followed_come_once_each(command: Command, job: JobStorage, clock: ManualClock) -> None:
    start(job)
    rows = [HistoryEvent(time_ms=JANUARY_MS, run=1, kind="task_failed", message=f"{number}") for number in range(3)]
    write(job, 1, 0, rows[0])
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt
        write(job, 1, 0, *rows[: len(looks) + 1])

    clock.pause = wait
    result = command("events", "bids", "--follow", "--json")
    assert [json.loads(line)["number"] for line in result.stdout.splitlines()] == [0, 1, 2]


def test_events_of_the_next_job_of_that_name_are_followed_too(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job)
    events = [HistoryEvent(time_ms=JANUARY_MS, run=1, kind="task_failed", message=f"{number}") for number in range(3)]
    write(job, 1, 0, *events)

    def another(_: float) -> None:
        if job.run(1) is None:
            raise KeyboardInterrupt
        forget_job(job, 0)
        job.create(layout.identity(job.job), Identity(job=job.job, created_ms=JANUARY_MS, id="another"))
        write(job, 2, 0, events[0])

    clock.pause = another
    result = command("events", "bids", "--follow", "--json")
    assert [json.loads(line)["number"] for line in result.stdout.splitlines()] == [0, 1, 2, 0]


def test_a_run_whose_driver_hangs_is_shown_as_the_job_is(command: Command, job: JobStorage, clock: ManualClock) -> None:
    run = start(job)
    beat(job)
    clock.shows_ms = run.started_ms + 3_600_000
    assert command("runs", "bids").output.splitlines()[1].split()[:2] == ["1", "SILENT"]
    (shown,) = command.json("runs", "bids")
    assert (shown["state"], shown["silent"]) == ("RUNNING", True)


CHECKS: list[tuple[dict[str, Any], list[str], int]] = [
    ({}, [], 0),
    ({}, ["--max-checkpoint-age", "61 s"], 0),
    ({}, ["--max-checkpoint-age", "59 s"], 3),
    ({"latest_checkpoint_ms": None, "started_ms": JANUARY_MS + 100_000}, ["--max-checkpoint-age", "30 s"], 0),
    ({"latest_checkpoint_ms": None, "started_ms": JANUARY_MS}, ["--max-checkpoint-age", "30 s"], 3),
    ({"lag": 5_000}, ["--max-lag", "4 s"], 4),
    ({"lag": 5_000}, ["--max-lag", "6 s"], 0),
    ({"lag": None}, ["--max-lag", "0 s"], 0),
    ({"state": "STOPPING", "lag": 5_000}, ["--max-lag", "4 s"], 4),
]


@pytest.mark.parametrize(("shown", "options", "code"), CHECKS)
def test_a_check_exits_by_the_first_limit_that_is_exceeded(
    command: Command,
    job: JobStorage,
    clock: ManualClock,
    shown: dict[str, Any],
    options: list[str],
    code: int,
) -> None:
    clock.shows_ms = JANUARY_MS + 120_000
    start(job, started_ms=shown.get("started_ms", JANUARY_MS))
    lag = shown.pop("lag", None)
    task = TaskStatusDocument(uid="hourly", subtask=0, status="running", batch=1, lag_ms=lag)
    beat(job, **{"written_ms": JANUARY_MS + 119_000, "tasks": (task,), **shown})
    assert command("status", "bids", "--check", *options).exit_code == code


def test_a_job_that_has_ended_well_has_no_checkpoint_that_is_too_old(command: Command, job: JobStorage) -> None:
    start(job)
    beat(job)
    end(job, "STOPPED")
    assert command("status", "bids", "--check", "--max-checkpoint-age", "1 s", "--max-lag", "1 s").exit_code == 0


@pytest.mark.parametrize(
    "options",
    [["--max-lag", "1 s"], ["--watch", "--json"], ["--watch", "--check"], ["--check", "--max-lag", "a while"]],
)
def test_options_that_say_nothing_together_are_a_wrong_command_line(
    command: Command, job: JobStorage, options: list[str]
) -> None:
    start(job)
    beat(job)
    assert command("status", "bids", *options).exit_code == 2


def test_a_watch_ends_with_the_job(command: Command, job: JobStorage, clock: ManualClock) -> None:
    start(job)
    beat(job)
    clock.shows_ms = JANUARY_MS + 1_000
    clock.pause = lambda _: end(job, "STOPPED")
    text = command("status", "bids", "--watch").output
    assert text.index("RUNNING") < text.index("STOPPED")
